"""Reductions over any axes: sums, means, products and extremes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.fuse.expression import number_text
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.kernels.vectors import Block, computed_kind, native_lanes
from glow_nb.kernels.walks import Walk, strides_of
from glow_nb.llir.instructions.reduction import (
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceMinInst,
    ReduceProdInst,
    ReduceSumInst,
    ReductionInstruction,
)
from glow_nb.types import ElementKind

UNROLL = 4
"""Vectors of totals: operations on one need not wait for those on another."""

_FUNCTIONS: dict[type[ReductionInstruction], str] = {
    ReduceSumInst: "add",
    ReduceMeanInst: "add",
    ReduceProdInst: "mul",
    ReduceMaxInst: "maximum",
    ReduceMinInst: "minimum",
}


@kernel_for(ReduceSumInst, ReduceMeanInst, ReduceProdInst, ReduceMaxInst, ReduceMinInst)
def reduction_source(instruction: ReductionInstruction, target: Target) -> KernelSource:
    """Return the kernel of a reduction.

    Sums of floats are kept in several vectors of float32 (or float64) that are added at the end,
    so errors grow far slower than in one running sum. A result of one element is the work of one
    thread.
    """
    dest, source = instruction.dest, instruction.input
    kind, shape, axes = dest.type.kind, source.type.shape, instruction.axes
    wide = computed_kind(kind)
    strides = {"dest": strides_of(dest, shape, axes), "src": source.strides}
    walk = Walk.over(shape, axes, strides, UNROLL * native_lanes(target, wide))
    mean_of = None
    if isinstance(instruction, ReduceMeanInst):
        mean_of = prod(shape[axis] for axis in axes)
    function = _FUNCTIONS[type(instruction)]
    reduction = _Reduction(walk, kind, function, _neutral(function, kind), mean_of)
    out = SourceWriter()
    with out.block("def kernel(dest, src, scratch, thread, threads):"):
        if not dest.type.size:
            out.line("return")
        else:
            for block in walk.places(out):
                reduction.write(out, block)
    return KernelSource("reduction", out.text, (kind, kind))


def _neutral(function: str, kind: ElementKind) -> float:
    """Return what a total starts with, and is if there is nothing to reduce."""
    least, greatest = bounds_of(kind)
    return {"add": 0, "mul": 1, "maximum": least, "minimum": greatest}[function]


@dataclass(frozen=True)
class _Reduction:
    """The body of the kernel at one place, or at the places of a block.

    Attributes:
        walk: Its loops.
        kind: Kind of the elements.
        function: Of two vectors of totals.
        neutral: What a total starts with.
        mean_of: The total is divided by this number, if there is one.
    """

    walk: Walk
    kind: ElementKind
    function: str
    neutral: float
    mean_of: int | None

    def write(self, out: SourceWriter, place: Block | None) -> None:
        """Write the walk and the store of its total."""
        lanes = self.walk.lanes if place is None else place.lanes
        start = self._splat(self.neutral, lanes)
        out.line(f"total = {start}")
        total, chain = "total", None
        if self.function == "add" and self.kind.is_float and self.walk.is_long:
            total, chain = "part", (f"part = {start}", "total = add(total, part)")
        for block, places in self.walk.elements(out, place, chain):
            x = self._load(block, places["src"])
            out.line(f"{total} = {self.function}({total}, {x if place else block.only(x, start)})")
        if place is None:
            mean = "" if self.mean_of is None else f" / {self.mean_of}.0"
            out.line(f"put(dest, dest_at, reduce_{self.function}(total){mean})")
            return
        if self.mean_of is not None:
            out.line(f"total = div(total, {self._splat(self.mean_of, lanes)})")
        wide = computed_kind(self.kind)
        total = "total" if self.kind is wide else f"convert_{self.kind.value}(total)"
        out.line(place.store("dest", "dest_at", total))

    def _splat(self, number: float, lanes: int) -> str:
        wide = computed_kind(self.kind)
        number = float(number) if wide.is_float else number
        return f"splat_{wide.value}({number_text(number)}, {lanes})"

    def _load(self, block: Block, index: str) -> str:
        wide, x = computed_kind(self.kind), block.load("src", index)
        return x if self.kind is wide else f"convert_{wide.value}({x})"
