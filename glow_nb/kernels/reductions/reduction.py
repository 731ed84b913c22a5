"""Reductions over any axes: sums, means, products and extremes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.size import hinted
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import real_text
from glow_nb.kernels.writing.loops import broadcast_strides
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Site, computed_kind, native_lanes
from glow_nb.kernels.writing.walks import Walk, strides_of
from glow_nb.llir.instructions.reduction import (
    ReduceMaxInst,
    ReduceMeanInst,
    ReduceMinInst,
    ReduceProdInst,
    ReduceSumInst,
)
from glow_nb.llir.program import Instruction
from glow_nb.llir.traits import FUSES_BOTH

LEAST_PIECES = 4

_FUNCTIONS: dict[type[Instruction], str] = {
    ReduceSumInst: "add",
    ReduceMeanInst: "add",
    ReduceProdInst: "mul",
    ReduceMaxInst: "maximum",
    ReduceMinInst: "minimum",
}


@head_kernel_for(
    ReduceSumInst, ReduceMeanInst, ReduceProdInst, ReduceMaxInst, ReduceMinInst, traits=FUSES_BOTH
)
def reduction_source(
    instruction: ReduceSumInst | ReduceMeanInst | ReduceProdInst | ReduceMaxInst | ReduceMinInst,
    target: Target,
    fusion: Fusion,
) -> KernelSource:
    """Return the kernel of a reduction, with the stack that stands around it.

    Sums of floats are kept in several vectors of float32 (or float64) that are added at the end,
    so errors grow far slower than in one running sum. A result of one element is the work of one
    thread.
    """
    fusion = fusion.named("dest", "src")
    kind, shape, axes = instruction.dest.type.kind, instruction.input.type.shape, instruction.axes
    wide = computed_kind(kind)
    tensors = fusion.tensors(
        lambda b: broadcast_strides(b, shape), lambda b: strides_of(b, shape, axes)
    )
    lanes = target.machine.unroll_vectors * native_lanes(target, wide)
    walk = Walk.over(shape, axes, tensors, lanes)
    is_far = hinted(instruction.input.type.size_bytes) > target.machine.l2_bytes
    if is_far and fusion.prologue is None and not walk.is_along:
        walk = Walk.over(
            shape, axes, tensors, _lanes_across(hinted(instruction.dest.type.size), wide, target)
        )
    mean_of = None
    if isinstance(instruction, ReduceMeanInst):
        mean_of = prod(shape[axis] for axis in axes)
    function = _FUNCTIONS[type(instruction)]
    neutral = _neutral(function, kind)
    out = SourceWriter()
    with out.block(fusion.header):
        if instruction.dest.type.size == 0:
            out.line("return")
        else:
            for each in walk.by_length(out):
                reduction = _Reduction(fusion, each, kind, function, neutral, mean_of)
                for place in each.places(out):
                    reduction.write(out, place)
    return KernelSource("reduction", out.text, fusion.kinds)


def _lanes_across(results: int, kind: ElementKind, target: Target) -> int:
    """Return the elements of a piece of a row, computed in *kind*."""
    lanes = native_lanes(target, kind)
    widths = [lanes * vectors for vectors in target.machine.reduced_vectors]
    return next((width for width in widths if results >= LEAST_PIECES * width), widths[-1])


def _neutral(function: str, kind: ElementKind) -> float:
    """Return what a total starts with, and is if there is nothing to reduce."""
    least, greatest = bounds_of(kind)
    neutral: dict[str, float] = {"add": 0, "mul": 1, "maximum": least, "minimum": greatest}
    return neutral[function]


@dataclass(frozen=True)
class _Reduction:
    """The body of the kernel at one place, or at the places of a block.

    Attributes:
        fusion: The fused prologue and epilogue.
        walk: Its loops.
        kind: Kind of the elements.
        function: The function that combines two vectors of totals.
        neutral: The initial total.
        mean_of: The total is divided by this number, if there is one.
    """

    fusion: Fusion
    walk: Walk
    kind: ElementKind
    function: str
    neutral: float
    mean_of: int | None

    def write(self, out: SourceWriter, place: Site) -> None:
        """Write the walk and the store of its total."""
        lanes = self.walk.width(place)
        start = self._splat(self.neutral, lanes)
        out.line(f"total = {start}")
        total, chain = "total", None
        if self.function == "add" and self.kind.is_float and self.walk.is_long:
            total, chain = "part", (f"part = {start}", "total = add(total, part)")
        for site in self.walk.elements(out, place, chain):
            x = self._widened(self.fusion.read(out, site))
            x = (
                site.block.only(x, self._splat(self.neutral, site.lanes))
                if self.walk.is_along
                else x
            )
            out.line(f"{total} = {self.function}({total}, {x})")
        self.fusion.write(out, place, self._result(place))

    def _result(self, place: Site) -> str:
        """Return the vector of results that belongs to ``total``."""
        wide = computed_kind(self.kind)
        if self.walk.is_along:
            mean = "" if self.mean_of is None else f" / {real_text(self.mean_of)}"
            result = f"splat_{wide.value}(reduce_{self.function}(total){mean}, 1)"
        elif self.mean_of is None:
            result = "total"
        else:
            count = real_text(self.mean_of) if wide.is_float else self.mean_of
            result = f"div(total, splat_{wide.value}({count}, {place.lanes}))"
        return result if self.kind is wide else f"convert_{self.kind.value}({result})"

    def _splat(self, number: float, lanes: int) -> str:
        wide = computed_kind(self.kind)
        number = float(number) if wide.is_float else number
        return f"splat_{wide.value}({number_text(number)}, {lanes})"

    def _widened(self, x: str) -> str:
        wide = computed_kind(self.kind)
        return x if self.kind is wide else f"convert_{wide.value}({x})"
