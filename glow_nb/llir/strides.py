"""Distances of elements in memory."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of *shape*, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if size != 0 else 1  # the strides of an empty tensor mean nothing
    return tuple(reversed(strides))
