"""Tile: a copy through views, of which one repeats the tensor along a new axis of stride 0."""

from __future__ import annotations

from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.stacks.elementwise import elementwise_source
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.shape import CopyInst, TileInst
from glow_nb.llir.program import View


@kernel_for(TileInst)
def tile_source(instruction: TileInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input)`` of a tile of any rank."""
    dest, source = instruction.dest, instruction.input
    narrow: list[int] = []
    broad: list[int] = []
    for size, count in zip(source.type.shape, instruction.repeats, strict=True):
        narrow += [1, size]
        broad += [count, size]
    repeated = View("repeated", source.type.with_shape(tuple(narrow)), base=source)
    whole = View("whole", dest.type.with_shape(tuple(broad)), base=dest)
    return elementwise_source(CopyInst(whole, repeated), target)
