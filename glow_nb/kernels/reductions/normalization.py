"""Layer and group normalization in three walks: mean, mean of centred squares, result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from typing_extensions import override

from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.reductions.rows import Rows, RowsKernel
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import real_text
from glow_nb.kernels.writing.loops import broadcast_strides
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Site, computed_kind, native_lanes
from glow_nb.kernels.writing.walks import Walk
from glow_nb.llir.instructions.normalization import GroupNormalizationInst, LayerNormalizationInst
from glow_nb.llir.program import Buffer
from glow_nb.llir.traits import FUSES_BOTH

Strides = tuple[int, ...]


@head_kernel_for(LayerNormalizationInst, traits=FUSES_BOTH)
def layer_normalization_source(
    instruction: LayerNormalizationInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, src, scale[, bias])``, or that of the stack around it."""
    dest, axis = instruction.dest, instruction.axis
    shape = dest.type.shape
    weights = {
        buffer: (0,) * axis + buffer.strides
        for buffer in (instruction.scale, instruction.bias)
        if buffer is not None
    }

    def strides_of(buffer: Buffer) -> Strides:
        return weights.get(buffer) or broadcast_strides(buffer, shape)

    named = fusion.named(*("dest", "src", "scale", "bias")[: 2 + len(weights)])
    tensors = named.tensors(strides_of)
    axes = range(axis, len(shape))
    return _normalization_source(instruction, target, named, shape, axes, tensors)


@head_kernel_for(GroupNormalizationInst, traits=FUSES_BOTH)
def group_normalization_source(
    instruction: GroupNormalizationInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, src, scale, bias)``, or that of the stack around it.

    The axis of the channels is cut in two: groups, and the channels of one.
    """
    shape, axis = instruction.dest.type.shape, instruction.channel_axis
    weights = (instruction.scale, instruction.bias)
    size = shape[axis] // instruction.groups

    def strides_of(buffer: Buffer) -> Strides:
        if buffer in weights:
            strides = tuple(buffer.strides[0] * (each == axis) for each in range(len(shape)))
        else:
            strides = broadcast_strides(buffer, shape)
        return (*strides[:axis], strides[axis] * size, *strides[axis:])

    cut = (*shape[:axis], instruction.groups, size, *shape[axis + 1 :])
    axes = [each for each in range(1, len(cut)) if each != axis]
    named = fusion.named("dest", "src", "scale", "bias")
    tensors = named.tensors(strides_of)
    return _normalization_source(instruction, target, named, cut, axes, tensors)


def _normalization_source(
    instruction: LayerNormalizationInst | GroupNormalizationInst,
    target: Target,
    fusion: Fusion,
    shape: tuple[int, ...],
    axes: Sequence[int],
    tensors: dict[str, Strides],
) -> KernelSource:
    """Return the kernel that normalizes along *axes* of *shape*, over which *tensors* stride."""
    lanes = target.machine.unroll_vectors * native_lanes(
        target, computed_kind(instruction.dest.type.kind)
    )
    rows = Rows.of(fusion, Walk.over(shape, axes, tensors, lanes), target)
    count = prod(shape[axis] for axis in axes)
    kernel = _Normalization(rows, instruction.dest.type, count, instruction)
    return kernel.source(instruction.opcode)


@dataclass(frozen=True)
class _Normalization(RowsKernel):
    """Moments, then results.

    Attributes:
        count: Elements that are normalized together.
        instruction: Its weights, and what is added to the variance.
    """

    count: int
    instruction: LayerNormalizationInst | GroupNormalizationInst

    @override
    def write(self, out: SourceWriter, place: Site) -> None:
        """Write the three walks."""
        lanes, is_along = self.walk.width(place), self.walk.is_along
        zero = self._zero(lanes)
        total, chain = "total", None
        if self.walk.is_long:
            total, chain = "part", (f"part = {zero}", "total = add(total, part)")
        out.line(f"total = {zero}")
        for site in self.walk.elements(out, place, chain):
            x = self.rows.first(out, site)
            x = (
                site.block.only(x, self._zero(site.lanes))
                if is_along and self.fusion.prologue
                else x
            )
            out.line(f"{total} = add({total}, {x})")
        out.line(f"mean = {self._mean(lanes)}")
        out.line(f"total = {zero}")
        for site in self.walk.elements(out, place, chain):
            x = f"sub({self.rows.again(out, site)}, mean)"
            out.line(f"x = {site.block.only(x, self._zero(site.lanes)) if is_along else x}")
            out.line(f"{total} = fma(x, x, {total})")
        epsilon = f"splat_{self.wide}({number_text(self.instruction.epsilon)}, {lanes})"
        out.line(f"factor = rsqrt(add({self._mean(lanes)}, {epsilon}))")
        names = self.fusion.names
        scale, bias = self.instruction.scale, self.instruction.bias
        for site in self.walk.elements(out, place):
            centred = f"sub({self.rows.again(out, site)}, mean)"
            y = f"mul({centred}, factor)"
            y = f"mul({y}, {self._widened(site.load(names[scale]))})"
            if bias is not None:
                y = f"add({y}, {self._widened(site.load(names[bias]))})"
            self.fusion.write(out, site, self.stored(y))

    def _zero(self, lanes: int) -> str:
        return f"splat_{self.wide}(0.0, {lanes})"

    def _mean(self, lanes: int) -> str:
        """Return the mean that belongs to ``total``."""
        count = real_text(self.count)
        if self.walk.is_along:
            return f"splat_{self.wide}(reduce_add(total) / {count}, {lanes})"
        return f"div(total, splat_{self.wide}({count}, {lanes}))"

    def _widened(self, x: str) -> str:
        return x if self.type.kind.value == self.wide else f"convert_{self.wide}({x})"
