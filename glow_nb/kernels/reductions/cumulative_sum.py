"""Running sums along an axis, with one line in each lane.

Floats are summed in float64, those of 16 bits in float32. Where many lines lie side by side, each
step is taken for a stretch of them at a time, so that memory is read in its order; their sums stand
in scratch meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.override import override
from glow_nb.base.size import bounds, hinted
from glow_nb.base.types import ElementKind
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import computed_kind, native_lanes
from glow_nb.llir.instructions.reduction import CumSumInst

TOGETHER = 4
"""Steps for which sums stay in registers."""


@kernel_for(CumSumInst)
def cum_sum_source(instruction: CumSumInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input)`` of running sums."""
    type = instruction.input.type
    wide = computed_kind(type.kind)
    total = ElementKind.FLOAT64 if wide is ElementKind.FLOAT32 and wide is type.kind else wide
    lines = Lines.along(type.shape, instruction.axis)
    widest = target.machine.unroll_vectors * native_lanes(target, total)
    sums = _Sums(instruction, lines, total, lines.lanes(widest))
    out, scratch = SourceWriter(), 0
    with out.block("def kernel(dest, input, scratch, thread, threads):"):
        if type.size == 0:
            out.line("return")
        elif hinted(lines.inner) > widest:
            scratch = _write_stretches(out, sums, target)
        else:
            _write_lines(out, sums)
    return KernelSource("cum_sum", out.text, (type.kind, type.kind), scratch)


@dataclass(frozen=True)
class Steps:
    """The places from *first* to before *end*, by *step*: a range whose ends may be open sizes."""

    first: int
    end: int
    step: int

    @property
    def count(self) -> int:
        """The number of steps, if *step* is 1 or -1."""
        return (self.end - self.first) * self.step

    @override
    def __str__(self) -> str:
        by = "" if self.step == 1 else f", {self.step}"
        return f"range({self.first}, {self.end}{by})"


@dataclass(frozen=True)
class _Sums:
    """The sums of *lanes* lines, which *total* is the kind of."""

    instruction: CumSumInst
    lines: Lines
    total: ElementKind
    lanes: int

    @property
    def start(self) -> str:
        """Return what sums begin with: the first number itself, also if that is -0.0."""
        zero = "-0.0" if self.total.is_float and not self.instruction.exclusive else "0"
        return f"splat_{self.total.value}({zero}, {self.lanes})"

    @property
    def order(self) -> Steps:
        """Return the places of the elements of a line, in the order in which they are added."""
        count = self.lines.count
        return Steps(count - 1, -1, -1) if self.instruction.reverse else Steps(0, count, 1)

    def write_sum(self, out: SourceWriter, start: str, place: str = "k") -> None:
        """Write how ``total`` takes the elements at *place* of the lines that begin at *start*."""
        at, kind = self.lines.element(start, place), self.instruction.input.type.kind
        store = self.lines.store("dest", at, f"convert_{kind.value}(total)", self.lanes)
        load = self.lines.load("input", at, self.lanes)
        if self.instruction.exclusive:
            out.line(store)
        out.line(f"total = add(total, convert_{self.total.value}({load}))")
        if not self.instruction.exclusive:
            out.line(store)


def _write_lines(out: SourceWriter, sums: _Sums) -> None:
    """Write the walk along lines that one vector has, from their first step to the last."""
    with sums.lines.walk(out, sums.lanes, results=sums.lines.count) as (start, _):
        out.line(f"total = {sums.start}")
        with out.block(f"for k in {sums.order}:"):
            sums.write_sum(out, start)


def _write_stretches(out: SourceWriter, sums: _Sums, target: Target) -> int:
    """Write the walk over stretches of neighbouring lines; return the bytes of their sums.

    The sums of a stretch take a part of the second-level cache: long ones are read from memory, or
    a farther cache, without leaps.
    """
    inner, lanes, size_bytes = sums.lines.inner, sums.lanes, sums.total.size_bytes
    groups = -(-inner // lanes)
    room = int(target.machine.l2_share * target.machine.l2_bytes)
    most = min(bounds(groups)[1], max(1, room // (lanes * size_bytes)))
    out.line(f"sums = as_{sums.total.value}(scratch)")
    out.line(f"place = thread * {sums.lines.outer * groups} // threads")
    out.line(f"end = (thread + 1) * {sums.lines.outer * groups} // threads")
    with out.block("while place < end:"):
        out.line(f"first = place % {groups}")
        out.line(f"count = min(min({groups} - first, {most}), end - place)")
        out.line(f"base = place // {groups} * {sums.lines.count * inner}")
        with out.block("for group in range(count):"):
            out.line(f"store(sums, group * {lanes}, {sums.start})")
        for steps in _steps_together(sums.order):
            _write_steps(out, sums, steps)
        out.line("place += count")
    return most * lanes * size_bytes


def _steps_together(order: Steps) -> list[Steps]:
    """Return *order* as the first steps of several that are taken together, and those left over.

    The step of each is that from the first step of some to the first of the next.
    """
    rest = order.count % TOGETHER
    middle = order.end - rest * order.step
    together = Steps(order.first, middle, TOGETHER * order.step)
    left = Steps(middle, order.end, order.step)
    return [steps for steps in (together, left) if steps.first != steps.end]


def _write_steps(out: SourceWriter, sums: _Sums, steps: Steps) -> None:
    """Write the loop over *steps*, in which each group of lines takes some in turn."""
    lanes, step = sums.lanes, sums.order.step
    taken = steps.step // step
    with out.block(f"for k in {steps}:"), out.block("for group in range(count):"):
        column = sums.lines.column("(first + group)", lanes)
        out.line(f"src = base + {column}")
        sums.lines.write_width(out, column, lanes)
        out.line(f"total = load(sums, group * {lanes}, {lanes})")
        for number in range(taken):
            sums.write_sum(out, "src", f"({plus('k', number * step)})")
        out.line(f"store(sums, group * {lanes}, total)")
