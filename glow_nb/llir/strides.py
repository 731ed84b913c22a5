"""Distances of elements in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from glow_nb.base.size import surely, symbols_of, whole_part


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
    """Return how far *count* elements, a *step* apart, reach below and above the first of them.

    There is one at least: if there may be none for some sizes, they do not matter.
    """
    span = (count - 1) * step
    if surely(step, ">=", 0):
        return 0, span
    return (span, 0) if surely(step, "<=", 0) else (min(0, span), max(0, span))


def divided(number: int, step: int) -> tuple[int, int]:
    """Return how often *step* is in *number*, and what is left over.

    Of open sizes it may be more than a step that is left over, if nothing shows that it is less.
    """
    if not symbols_of(number, step):
        return divmod(number, step)
    for times, rest in ((0, number), whole_part(number, step)):
        if surely(rest, ">=", 0) and surely(rest, "<", step):
            return times, rest
    return 0, number


def interval(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the first and the last place of a tensor that has elements, from *offset* on."""
    reaches = [reach(count, step) for count, step in zip(shape, strides, strict=True)]
    return offset + sum(below for below, _ in reaches), offset + sum(above for _, above in reaches)
