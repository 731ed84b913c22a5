"""ArgMax and ArgMin: the extreme so far and its place, lane by lane.

Across lines there is one line in each lane. Along a line whose elements lie side by side, each lane
sees every n-th element, and at the end the lanes agree on the first or last of the best.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from glow_nb.base.size import bounds, surely
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import computed_kind, floor_power_of_two, native_lanes
from glow_nb.llir.instructions.reduction import ArgMaxInst, ArgMinInst

INT32, INT64 = ElementKind.INT32, ElementKind.INT64


@kernel_for(ArgMaxInst, ArgMinInst)
def arg_reduction_source(instruction: ArgMaxInst | ArgMinInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input)`` of a search for the place of an extreme."""
    source = instruction.input.type
    lines = Lines.along(source.shape, instruction.axis)
    out = SourceWriter()
    with out.block("def kernel(dest, input, scratch, thread, threads):"):
        if source.size != 0:
            _write(out, lines, _Search.of(instruction, lines, target))
        else:
            out.line("return")
    return KernelSource("arg_reduction", out.text, (INT64, source.kind))


@dataclass(frozen=True)
class _Search:
    """What is searched for, and in which vectors.

    Attributes:
        kind: In which elements are compared.
        place: In which places are counted: narrow, if that holds them.
        lanes: Elements of a vector.
        is_max: The largest is searched, else the smallest.
        is_last: Take the last of equal extremes, else the first.
    """

    kind: ElementKind
    place: ElementKind
    lanes: int
    is_max: bool
    is_last: bool

    @classmethod
    def of(cls, instruction: ArgMaxInst | ArgMinInst, lines: Lines, target: Target) -> _Search:
        kind = computed_kind(instruction.input.type.kind)
        is_narrow = kind.size_bytes < INT64.size_bytes and surely(lines.count, "<", 2**31)
        place = INT32 if is_narrow else INT64
        widest = target.machine.unroll_vectors * native_lanes(target, kind, place)
        along = floor_power_of_two(bounds(lines.count)[1])
        lanes = min(widest, along) if lines.inner == 1 else lines.lanes(widest)
        is_max = isinstance(instruction, ArgMaxInst)
        return cls(kind, place, lanes, is_max, instruction.select_last)

    def load(self, lines: Lines, index: str) -> str:
        """Return the elements of *lines*, or of one line, from *index* on, in :attr:`kind`."""
        load = f"load(input, {index}, {self.lanes})"
        if lines.inner != 1:
            load = lines.load("input", index, self.lanes)
        return f"convert_{self.kind.value}({load})"

    def splat(self, number: str) -> str:
        """Return a vector with the place *number* in every lane."""
        return f"splat_{self.place.value}({number}, {self.lanes})"

    @property
    def is_better(self) -> str:
        """Return whether ``x``, a later one, takes the place of ``best``; a NaN is extreme."""
        if not self.kind.is_float:
            equal = "_equal" if self.is_last else ""
            return f"{'greater' if self.is_max else 'less'}{equal}(x, best)"
        if self.is_last:
            return f"bit_or({'greater' if self.is_max else 'less'}_equal(x, best), isnan(x))"
        worse = f"{'less' if self.is_max else 'greater'}_equal(x, best)"
        return f"bit_and(bit_not({worse}), bit_not(isnan(best)))"

    def write_step(self, out: SourceWriter, lines: Lines, element: str, place: str) -> None:
        """Write the comparison with the elements at *element*, whose places are *place*."""
        out.line(f"x = {self.load(lines, element)}")
        out.line(f"is_better = {self.is_better}")
        out.line("best = where(is_better, x, best)")
        out.line(f"place = where(is_better, {place}, place)")

    def write_few(self, out: SourceWriter, start: str, count: int, other: int) -> None:
        """Write ``best`` and ``place`` for the first of *count* elements, maybe fewer than lanes.

        The other lanes have an element that is no better than any, at the place *other*.
        """
        least, greatest = bounds_of(self.kind)
        worst = number_text(least if self.is_max else greatest)
        first = f"load_masked(input, {start}, {self.lanes}, {count})"
        limit = f"splat_int32(min({count}, {self.lanes}), {self.lanes})"
        out.line(f"is_inside = less(iota_int32({self.lanes}), {limit})")
        worst = f"splat_{self.kind.value}({worst}, {self.lanes})"
        out.line(f"best = where(is_inside, convert_{self.kind.value}({first}), {worst})")
        out.line(f"place = where(is_inside, numbers, {self.splat(f'{other}')})")


def _write(out: SourceWriter, lines: Lines, search: _Search) -> None:
    """Write the loop over lines, for the share of one thread."""
    if not surely(lines.count, ">", 0):
        with out.block(f"if {lines.count} == 0:"):
            out.line("return")
    if lines.inner != 1:
        with lines.walk(out, search.lanes, results=1) as (start, to):
            out.line(f"best = {search.load(lines, start)}")
            out.line(f"place = {search.splat('0')}")
            with out.block(f"for k in range(1, {lines.count}):"):
                search.write_step(out, lines, lines.element(start, "k"), search.splat("k"))
            out.line(lines.store("dest", to, "convert_int64(place)", search.lanes))
        return
    with lines.walk(out, 1, results=1) as (start, to):
        _write_along(out, lines, search, start, to)


def _write_along(out: SourceWriter, lines: Lines, search: _Search, start: str, to: str) -> None:
    """Write the search along one line; the last vector overlaps the one before it."""
    lanes, count = search.lanes, lines.count
    choose, other = ("maximum", -1) if search.is_last else ("minimum", count)
    out.line(f"numbers = iota_{search.place.value}({lanes})")
    if surely(count, ">=", lanes):
        out.line(f"best = {search.load(lines, start)}")
        out.line("place = numbers")
    else:
        search.write_few(out, start, count, other)
    if not surely(count - lanes, "<", lanes):
        with out.block(f"for k in range({lanes}, {count - lanes + 1}, {lanes}):"):
            search.write_step(out, lines, f"{start} + k", f"add({search.splat('k')}, numbers)")
    if count % lanes != 0:
        last = count - lanes
        with ExitStack() as stack:
            if not surely(last, ">", 0):
                stack.enter_context(out.block(f"if {last} > 0:"))
            places = f"add({search.splat(f'{last}')}, numbers)"
            search.write_step(out, lines, f"{start} + {last}", places)
    out.line(f"extreme = reduce_{'maximum' if search.is_max else 'minimum'}(best)")
    is_best = f"equal(best, splat_{search.kind.value}(extreme, {lanes}))"
    if search.kind.is_float:
        is_best = f"bit_or({is_best}, isnan(best))"
    out.line(f"chosen = where({is_best}, place, {search.splat(f'{other}')})")
    out.line(f"put(dest, {to}, reduce_{choose}(chosen))")
