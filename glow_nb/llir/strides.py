"""Distances of elements in memory."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glow_nb.llir.program import Buffer


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of *shape*, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def pixel_stride(buffer: Buffer) -> int | None:
    """Return ``s`` if element ``c`` of pixel ``p`` lies at ``p * s + c``; None if there is none.

    A pixel is a row along the last axis; pixels are numbered row-major over the other axes.
    """
    *sizes, channels = buffer.type.shape or (1,)
    *steps, inner = buffer.strides or (1,)
    if inner != 1 and channels != 1:
        return None
    found, expected = channels, None
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        if size == 1:
            continue
        if expected is None:
            found = expected = step
        if step != expected:
            return None
        expected = step * size
    return found
