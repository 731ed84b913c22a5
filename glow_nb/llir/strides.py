"""Distances of elements in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from glow_nb.base.size import surely


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of *shape*, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if size != 0 else 1  # the strides of an empty tensor mean nothing
    return tuple(reversed(strides))


def reach(count: int, step: int) -> tuple[int, int]:
    """Return how far *count* elements, a *step* apart, reach below and above the first of them."""
    span = (count - 1) * step
    goes_up = surely(count, ">=", 1) and surely(step, ">=", 0)  # the span may not show it
    below = 0 if goes_up or surely(span, ">=", 0) else min(0, span)
    return below, span - below


def interval(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last place of a tensor that has elements, from *offset* on."""
    reaches = [reach(count, step) for count, step in zip(shape, strides, strict=True)]
    return offset + sum(below for below, _ in reaches), offset + sum(above for _, above in reaches)
