"""Layer normalization in three walks: the mean, the mean of centred squares, the result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.fuse.expression import number_text
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.kernels.vectors import Block, computed_kind, native_lanes
from glow_nb.kernels.walks import Walk
from glow_nb.llir.instructions.normalization import LayerNormalizationInst
from glow_nb.llir.program import kernel_operands
from glow_nb.types import ElementKind

UNROLL = 4
"""Vectors at a time: additions of a sum need not wait for each other."""


@kernel_for(LayerNormalizationInst)
def layer_normalization_source(instruction: LayerNormalizationInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, src, scale[, bias])`` of a layer normalization."""
    dest, source, axis = instruction.dest, instruction.input, instruction.axis
    kind, shape = dest.type.kind, dest.type.shape
    tensors = {"dest": dest.strides, "src": source.strides}
    tensors["scale"] = (*(0,) * axis, *instruction.scale.strides)
    if instruction.bias is not None:
        tensors["bias"] = (*(0,) * axis, *instruction.bias.strides)
    walk = Walk.over(
        shape,
        range(axis, len(shape)),
        tensors,
        UNROLL * native_lanes(target, computed_kind(kind)),
    )
    body = _LayerNormalization(walk, kind, prod(shape[axis:]), instruction.epsilon)
    out = SourceWriter()
    with out.block(f"def kernel({', '.join(tensors)}, scratch, thread, threads):"):
        if not dest.type.size:
            out.line("return")
        else:
            for block in walk.places(out):
                body.write(out, block)
    kinds = tuple(buffer.type.kind for buffer in kernel_operands(instruction))
    return KernelSource("layer_normalization", out.text, kinds)


@dataclass(frozen=True)
class _LayerNormalization:
    """The body of the kernel at one place, or at the places of a block.

    Attributes:
        walk: Its loops.
        kind: Kind of the elements.
        count: Elements that are normalized together.
        epsilon: Added to the variance.
    """

    walk: Walk
    kind: ElementKind
    count: int
    epsilon: float

    @property
    def wide(self) -> str:
        """Name of the kind that is computed in."""
        return computed_kind(self.kind).value

    def write(self, out: SourceWriter, place: Block | None) -> None:
        """Write the three walks."""
        lanes = self.walk.lanes if place is None else place.lanes
        zero = f"splat_{self.wide}(0.0, {lanes})"
        total, chain = "total", None
        if self.walk.is_long:
            total, chain = "part", (f"part = {zero}", "total = add(total, part)")
        out.line(f"total = {zero}")
        for block, places in self.walk.elements(out, place, chain):
            out.line(f"{total} = add({total}, {self._load(block, 'src', places)})")
        out.line(f"mean = {self._mean(place, lanes)}")
        out.line(f"total = {zero}")
        for block, places in self.walk.elements(out, place, chain):
            centred = f"sub({self._load(block, 'src', places)}, mean)"
            out.line(f"x = {centred if place else block.only(centred, zero)}")
            out.line(f"{total} = fma(x, x, {total})")
        epsilon = f"splat_{self.wide}({number_text(self.epsilon)}, {lanes})"
        out.line(f"factor = rsqrt(add({self._mean(place, lanes)}, {epsilon}))")
        for block, places in self.walk.elements(out, place):
            y = f"mul(sub({self._load(block, 'src', places)}, mean), factor)"
            y = f"mul({y}, {self._weight(block, place, 'scale', places)})"
            if "bias" in self.walk.names:
                y = f"add({y}, {self._weight(block, place, 'bias', places)})"
            y = y if self.kind.value == self.wide else f"convert_{self.kind.value}({y})"
            out.line(block.store("dest", places["dest"], y))

    def _mean(self, place: Block | None, lanes: int) -> str:
        """Return the mean that belongs to ``total``."""
        if place is None:
            return f"splat_{self.wide}(reduce_add(total) / {self.count}.0, {lanes})"
        return f"div(total, splat_{self.wide}({self.count}.0, {lanes}))"

    def _load(self, block: Block, name: str, places: dict[str, str]) -> str:
        x = block.load(name, places[name])
        return x if self.kind.value == self.wide else f"convert_{self.wide}({x})"

    def _weight(self, block: Block, place: Block | None, name: str, places: dict[str, str]) -> str:
        """Return scale or bias, which are the same for all places."""
        if place is None:
            return self._load(block, name, places)
        x = f"broadcast({name}, {places[name]}, {block.lanes})"
        return x if self.kind.value == self.wide else f"convert_{self.wide}({x})"
