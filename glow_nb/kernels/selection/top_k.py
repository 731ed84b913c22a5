"""TopK: the k largest or smallest elements of each line, by insertion or by sorting candidates.

Lines whose neighbours lie side by side are walked several at a time. Along a line whose elements do
so, a whole vector is first compared with the worst of those found so far: of a long line in random
order few vectors have an element that enters.
"""

from __future__ import annotations

from math import log

from glow_nb.base.plan import Plan
from glow_nb.base.size import Size, surely
from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for, plan_of
from glow_nb.kernels.selection.candidates import DIGITS, Candidates
from glow_nb.kernels.selection.lane_insertion import LaneInsertion
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.source import INDENT, KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import computed_kind, native_lanes
from glow_nb.llir.instructions.reduction import TopKInst
from glow_nb.llir.traits import SCALAR

INSERTION, LANE_INSERTION, RADIX_SORT = "insertion", "lane_insertion", "radix_sort"

VECTORS = 2
"""Vectors that are compared with the worst element at a time."""


def plan_top_k(instruction: TopKInst, target: Target, fusion: Fusion) -> Plan | None:
    """Plan by counting moves in random order; None if there is nothing to find.

    Insertion moves half of the *k* best for each element that enters; a sort of candidates moves
    each of them once for each digit of a key, and counts all values of a digit.
    """
    k, count = instruction.k, instruction.input.type.shape[instruction.axis]
    if not instruction.values.type.size:
        return None
    candidates = Candidates.of(instruction, _lanes(instruction, target))
    inserted = k * (1 + log(count / k)) * k / 2
    sorts = 1 + log(count / min(candidates.room, count))
    moved = sorts * candidates.key_digits * (2 * DIGITS + min(candidates.room, count))
    if inserted > moved:
        return Plan.of(RADIX_SORT)
    lines = Lines.along(instruction.input.type.shape, instruction.axis)
    return Plan.of(INSERTION if lines.inner == 1 else LANE_INSERTION)


@kernel_for(TopKInst, traits=SCALAR, planner=plan_top_k)
def top_k_source(instruction: TopKInst, target: Target) -> KernelSource:
    """Return the kernel ``(values, indices, input)`` of the k largest or smallest of each line."""
    kind = instruction.input.type.kind
    out, scratch = SourceWriter(), 0
    lanes = _lanes(instruction, target)
    with out.block("def kernel(values, indices, input, scratch, thread, threads):"):
        if surely(instruction.values.type.size, "==", 0):
            out.line("return")
        else:
            if not surely(instruction.k, ">", 0):  # there is no last one to compare with
                out.line(f"if {instruction.k} == 0:\n{INDENT}return")
            algorithm = plan_of(instruction, INSERTION, LANE_INSERTION, RADIX_SORT).algorithm
            if algorithm == LANE_INSERTION:
                insertion = LaneInsertion.of(instruction, target)
                scratch = insertion.scratch_bytes
                insertion.write(out)
            elif algorithm == RADIX_SORT:
                candidates = Candidates.of(instruction, lanes)
                scratch = candidates.scratch_bytes
                _write_sort(out, instruction, candidates)
            else:
                _write_insertion(out, instruction, lanes)
    return KernelSource("top_k", out.text, (kind, ElementKind.INT64, kind), scratch)


def _lanes(instruction: TopKInst, target: Target) -> int:
    """Return how many neighbours of a line to compare at a time: one, if they lie apart."""
    lines = Lines.along(instruction.input.type.shape, instruction.axis)
    lanes = VECTORS * native_lanes(target, computed_kind(instruction.input.type.kind))
    is_long = surely(lines.count - instruction.k, ">=", lanes)
    return lanes if lines.inner == 1 and is_long else 1


def _write_entering(out: SourceWriter, instruction: TopKInst, first: str, lanes: int) -> str:
    """Return whether an element from *first* on may come before those in the vector ``worst``.

    A NaN on either side always may.
    """
    kind = computed_kind(instruction.input.type.kind)
    stays = "less_equal" if instruction.largest else "greater_equal"
    out.line(f"x = convert_{kind.value}(load(input, {first}, {lanes}))")
    return f"reduce_or(bit_not({stays}(x, worst)))"


def _write_worst(out: SourceWriter, instruction: TopKInst, tensor: str, index: str, n: int) -> None:
    """Write the vector ``worst`` of *n* lanes: the element of *tensor* at *index*."""
    kind = computed_kind(instruction.input.type.kind)
    out.line(f"worst = convert_{kind.value}(broadcast({tensor}, {index}, {n}))")


def _write_insertion(out: SourceWriter, instruction: TopKInst, lanes: int) -> None:
    """Write the loop over lines, for the share of one thread: the best stand in the result."""
    lines = Lines.along(instruction.input.type.shape, instruction.axis)
    k, count = instruction.k, lines.count
    with lines.walk(out, 1, results=k) as (start, to):
        if lanes == 1:
            _write_inserted(out, instruction, lines, start, to, f"range({count})")
            return
        begin = k + (count - k) % lanes
        last = lines.element(to, f"{k - 1}")
        _write_inserted(out, instruction, lines, start, to, f"range({begin})")
        _write_worst(out, instruction, "values", last, lanes)
        with out.block(f"for first in range({begin}, {count}, {lanes}):"):
            enters = _write_entering(out, instruction, lines.element(start, "first"), lanes)
            with out.block(f"if {enters}:"):
                places = f"range(first, first + {lanes})"
                _write_inserted(out, instruction, lines, start, to, places)
                _write_worst(out, instruction, "values", last, lanes)


def _write_inserted(
    out: SourceWriter, instruction: TopKInst, lines: Lines, start: str, to: str, places: str
) -> None:
    """Write the loop that inserts the elements at *places* that are better than the worst."""
    k, better = instruction.k, _is_better(instruction)
    with out.block(f"for i in {places}:"):
        out.line(f"x = get(input, {lines.element(start, 'i')})")
        out.line(f"place = min(i, {k - 1})")
        with out.block(f"if i >= {k}:"):
            out.line(f"y = get(values, {lines.element(to, 'place')})")
            with out.block(f"if not ({better}):"):
                out.line("continue")
        with out.block("while place > 0:"):
            above = lines.element(to, "(place - 1)")
            out.line(f"y = get(values, {above})")
            with out.block(f"if not ({better}):"):
                out.line("break")
            out.line(f"put(values, {lines.element(to, 'place')}, y)")
            out.line(f"put(indices, {lines.element(to, 'place')}, get(indices, {above}))")
            out.line("place = place - 1")
        out.line(f"put(values, {lines.element(to, 'place')}, x)")
        out.line(f"put(indices, {lines.element(to, 'place')}, i)")


def _is_better(instruction: TopKInst) -> str:
    """Return whether ``x`` comes before ``y``, which was found earlier; NaN is the largest."""
    kind = instruction.input.type.kind
    sign = ">" if instruction.largest else "<"
    if not kind.is_float:
        return f"x {sign} y"
    nan, number = ("x", "y") if instruction.largest else ("y", "x")
    return f"x {sign} y or ({nan} != {nan} and {number} == {number})"


def _write_sort(out: SourceWriter, instruction: TopKInst, candidates: Candidates) -> None:
    """Write the loop over lines, for the share of one thread.

    Candidates are sorted each time that they fill their room, and the k best of them stay; then
    only elements that are better than the last of these become candidates.
    """
    lines = Lines.along(instruction.input.type.shape, instruction.axis)
    k, count = instruction.k, lines.count
    candidates.write_pointers(out)
    with lines.walk(out, 1, results=k) as (start, to):
        room = candidates.room
        first = f"min({count}, {room} - ({room} - {count}) % {candidates.lanes})"
        if not isinstance(count, Size):
            first = f"{min(count, room - (room - count) % candidates.lanes)}"
        out.line("half = 0\nlength = 0")
        with out.block(f"for i in range({first}):"):
            candidates.write_added(out, lines.element(start, "i"))
            out.line("length = length + 1")
        if surely(count, "<=", room):
            candidates.write_sort(out)
        else:
            out.line(f"begin = {first}")
            with out.block("while True:"):
                candidates.write_sort(out)
                with out.block(f"if begin >= {count}:"):
                    out.line("break")
                _write_scan(out, instruction, candidates, lines, start)
        with out.block(f"for j in range({k}):"):
            out.line("i = get(places, half + j)")
            out.line(
                f"put(values, {lines.element(to, 'j')}, get(input, {lines.element(start, 'i')}))"
            )
            out.line(f"put(indices, {lines.element(to, 'j')}, i)")


def _write_scan(
    out: SourceWriter, instruction: TopKInst, candidates: Candidates, lines: Lines, start: str
) -> None:
    """Write the loop that adds candidates from place ``begin`` on, as long as there is room."""
    k, lanes = instruction.k, candidates.lanes
    out.line(f"length = {k}\nlast = get(keys, half + {k - 1})")
    if lanes > 1:
        out.line(f"place = get(places, half + {k - 1})")
        _write_worst(out, instruction, "input", lines.element(start, "place"), lanes)
    room = candidates.room - lanes
    with out.block(f"while begin < {lines.count} and length <= {room}:"):
        enters = "True"
        if lanes > 1:
            enters = _write_entering(out, instruction, lines.element(start, "begin"), lanes)
        with out.block(f"if {enters}:"):
            with out.block(f"for i in range(begin, begin + {lanes}):"):
                candidates.write_added(out, lines.element(start, "i"))
                out.line("length = length + (1 if key < last else 0)")
        out.line(f"begin = begin + {lanes}")
