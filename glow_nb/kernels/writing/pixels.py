"""Tensors that are visited pixel by pixel, a block of channels at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.errors import UnsupportedError
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import broadcast_strides
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, Site
from glow_nb.llir.program import Buffer
from glow_nb.llir.windows import pixel_stride


def elements_between_pixels(buffer: Buffer) -> int:
    """Return the elements from pixel to pixel of *buffer*, which may be a window of a wider one.

    Raises:
        UnsupportedError: Its pixels do not lie at equal distances, one after the other.
    """
    channels = buffer.type.shape[-1] if buffer.type.shape else 1
    if buffer.is_contiguous or not buffer.type.size:
        return channels
    step = pixel_stride(buffer)
    if step is None or step <= 0:
        raise UnsupportedError(
            f"{buffer!r} : {buffer.type} has strides {list(buffer.strides)}, but the kernel walks "
            "over pixels at equal distances; copy it to a place without gaps"
        )
    return step


@dataclass(frozen=True)
class Pixels:
    """Where the elements of a result, and of what is computed with it, lie in memory.

    Attributes:
        strides: Strides of each pointer over the result, in elements; 0 where it is broadcast.
    """

    strides: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, pointers: Sequence[tuple[str, Buffer]], shape: tuple[int, ...]) -> Pixels:
        """Return those of *pointers* whose tensors broadcast to a result of *shape*."""
        return cls(
            {
                name: broadcast_strides(buffer, shape)
                for name, buffer in pointers
                if buffer.type.rank == len(shape)
                and all(n in (1, size) for n, size in zip(buffer.type.shape, shape, strict=True))
            }
        )

    @property
    def are_dense(self) -> bool:
        """Return whether the channels of a block can be loaded and stored as a vector."""
        return all(strides[-1] in (0, 1) for strides in self.strides.values())

    def write_places(self, out: SourceWriter, indices: Sequence[str]) -> dict[str, str]:
        """Write the index of the pixel's channel 0 in each tensor; returns the names of them."""
        names: dict[str, str] = {}
        for strides in self.strides.values():
            text = index_text(indices, strides[:-1])
            if text not in names:
                names[text] = f"pixel{len(names) or ''}"
                out.line(f"{names[text]} = {text}")
        return {name: names[index_text(indices, s[:-1])] for name, s in self.strides.items()}

    def site(self, block: Block, places: dict[str, str]) -> Site:
        """Return where a block of channels of the pixel at *places* lies in each tensor."""
        steps = {name: strides[-1] for name, strides in self.strides.items()}
        return Site(
            block,
            {
                name: plus(p, index_text([block.column], [steps[name]]))
                for name, p in places.items()
            },
            frozenset(name for name, step in steps.items() if not step),
        )
