"""Layer normalization in three walks: the mean, the mean of centred squares, the result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.reductions.rows import Rows
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.loops import broadcast_strides
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Site, computed_kind, native_lanes
from glow_nb.kernels.writing.walks import Walk
from glow_nb.llir.instructions.normalization import LayerNormalizationInst
from glow_nb.llir.traits import FUSES_BOTH


@head_kernel_for(LayerNormalizationInst, traits=FUSES_BOTH)
def layer_normalization_source(
    instruction: LayerNormalizationInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, src, scale[, bias])``, or that of the stack around it."""
    weights = [b for b in (instruction.scale, instruction.bias) if b is not None]
    names = ("dest", "src", "scale", "bias")[: 2 + len(weights)]
    fusion = fusion.named(*names)
    dest, axis = instruction.dest, instruction.axis
    kind, shape = dest.type.kind, dest.type.shape
    tensors = fusion.tensors(
        lambda buffer: (
            (0,) * axis + buffer.strides if buffer in weights else broadcast_strides(buffer, shape)
        )
    )
    lanes = target.machine.unroll_vectors * native_lanes(target, computed_kind(kind))
    walk = Walk.over(shape, range(axis, len(shape)), tensors, lanes)
    body = _LayerNormalization(
        fusion, walk, Rows.of(fusion, walk, target), kind, prod(shape[axis:]), instruction
    )
    out = SourceWriter()
    with out.block(fusion.header):
        if not dest.type.size:
            out.line("return")
        else:
            for place in body.rows.places(out):
                body.write(out, place)
    return KernelSource("layer_normalization", out.text, fusion.kinds, body.rows.scratch_bytes)


@dataclass(frozen=True)
class _LayerNormalization:
    """The body of the kernel at one place, or at the places of a block.

    Attributes:
        fusion: What stands around it.
        walk: Its loops.
        rows: How it comes by its input.
        kind: Kind of the elements.
        count: Elements that are normalized together.
        instruction: Its weights, and what is added to the variance.
    """

    fusion: Fusion
    walk: Walk
    rows: Rows
    kind: ElementKind
    count: int
    instruction: LayerNormalizationInst

    @property
    def wide(self) -> str:
        """Name of the kind that is computed in."""
        return computed_kind(self.kind).value

    def write(self, out: SourceWriter, place: Site) -> None:
        """Write the three walks."""
        lanes, is_along = self.walk.width(place), self.walk.is_along
        zero = f"splat_{self.wide}(0.0, {lanes})"
        total, chain = "total", None
        if self.walk.is_long:
            total, chain = "part", (f"part = {zero}", "total = add(total, part)")
        out.line(f"total = {zero}")
        for site in self.walk.elements(out, place, chain):
            x = self.rows.first(out, site)
            x = site.block.only(x, zero) if is_along and self.fusion.prologue else x
            out.line(f"{total} = add({total}, {x})")
        out.line(f"mean = {self._mean(lanes)}")
        out.line(f"total = {zero}")
        for site in self.walk.elements(out, place, chain):
            centred = f"sub({self.rows.again(out, site)}, mean)"
            out.line(f"x = {site.block.only(centred, zero) if is_along else centred}")
            out.line(f"{total} = fma(x, x, {total})")
        epsilon = f"splat_{self.wide}({number_text(self.instruction.epsilon)}, {lanes})"
        out.line(f"factor = rsqrt(add({self._mean(lanes)}, {epsilon}))")
        names = self.fusion.names
        scale, bias = self.instruction.scale, self.instruction.bias
        for site in self.walk.elements(out, place):
            y = f"mul(sub({self.rows.again(out, site)}, mean), factor)"
            y = f"mul({y}, {self._widened(site.load(names[scale]))})"
            if bias is not None:
                y = f"add({y}, {self._widened(site.load(names[bias]))})"
            y = y if self.kind.value == self.wide else f"convert_{self.kind.value}({y})"
            self.fusion.write(out, site, y)

    def _mean(self, lanes: int) -> str:
        """Return the mean that belongs to ``total``."""
        if self.walk.is_along:
            return f"splat_{self.wide}(reduce_add(total) / {self.count}.0, {lanes})"
        return f"div(total, splat_{self.wide}({self.count}.0, {lanes}))"

    def _widened(self, x: str) -> str:
        return x if self.kind.value == self.wide else f"convert_{self.wide}({x})"
