"""ArgMax and ArgMin: the extreme so far and its place, lane by lane.

Across lines there is one line in each lane. Along a line whose elements lie side by side, each lane
sees every n-th element, and at the end the lanes agree on the first or last of the best.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.types import ElementKind
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
        if source.size:
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
        is_last: Of equal ones the last is taken, else the first.
    """

    kind: ElementKind
    place: ElementKind
    lanes: int
    is_max: bool
    is_last: bool

    @classmethod
    def of(cls, instruction: ArgMaxInst | ArgMinInst, lines: Lines, target: Target) -> _Search:
        kind = computed_kind(instruction.input.type.kind)
        place = INT64 if kind.size_bytes == INT64.size_bytes or lines.count >= 2**31 else INT32
        widest = target.machine.unroll_vectors * native_lanes(target, kind, place)
        along = floor_power_of_two(lines.count)
        lanes = min(widest, along) if lines.inner == 1 else lines.lanes(widest)
        is_max = isinstance(instruction, ArgMaxInst)
        return cls(kind, place, lanes, is_max, instruction.select_last)

    def load(self, index: str) -> str:
        """Return the elements from *index* on, in :attr:`kind`."""
        return f"convert_{self.kind.value}(load(input, {index}, {self.lanes}))"

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

    def write_step(self, out: SourceWriter, element: str, place: str) -> None:
        """Write the comparison with the elements at *element*, whose places are *place*."""
        out.line(f"x = {self.load(element)}")
        out.line(f"is_better = {self.is_better}")
        out.line("best = where(is_better, x, best)")
        out.line(f"place = where(is_better, {place}, place)")


def _write(out: SourceWriter, lines: Lines, search: _Search) -> None:
    """Write the loop over lines, for the share of one thread."""
    if lines.inner > 1:
        with lines.walk(out, search.lanes, results=1) as (start, to):
            out.line(f"best = {search.load(start)}")
            out.line(f"place = {search.splat('0')}")
            with out.block(f"for k in range(1, {lines.count}):"):
                search.write_step(out, lines.element(start, "k"), search.splat("k"))
            out.line(f"store(dest, {to}, convert_int64(place))")
        return
    with lines.walk(out, 1, results=1) as (start, to):
        _write_along(out, lines, search, start, to)


def _write_along(out: SourceWriter, lines: Lines, search: _Search, start: str, to: str) -> None:
    """Write the search along one line; the last vector overlaps the one before it."""
    lanes, count = search.lanes, lines.count
    out.line(f"numbers = iota_{search.place.value}({lanes})")
    out.line(f"best = {search.load(start)}")
    out.line("place = numbers")
    starts = range(lanes, count - lanes + 1, lanes)
    if starts:
        with out.block(f"for k in range({starts.start}, {starts.stop}, {lanes}):"):
            search.write_step(out, f"{start} + k", f"add({search.splat('k')}, numbers)")
    if count % lanes:
        last = count - lanes
        search.write_step(out, f"{start} + {last}", f"add({search.splat(str(last))}, numbers)")
    out.line(f"extreme = reduce_{'maximum' if search.is_max else 'minimum'}(best)")
    is_best = f"equal(best, splat_{search.kind.value}(extreme, {lanes}))"
    if search.kind.is_float:
        is_best = f"bit_or({is_best}, isnan(best))"
    choose, other = ("maximum", -1) if search.is_last else ("minimum", count)
    out.line(f"chosen = where({is_best}, place, {search.splat(str(other))})")
    out.line(f"put(dest, {to}, reduce_{choose}(chosen))")
