"""Windows on one region of memory, found by what they may overlap.

Most windows of a region lie side by side along one axis: in the order of its elements, or, as the
parts of a concat do, within each of many equal *periods*. There they are intervals, and those that
overlap one are found without a look at the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from glow_nb.base.size import surely, symbols_of
from glow_nb.base.spans import Spans
from glow_nb.base.types import MAX_TENSOR_BYTES
from glow_nb.llir.program import Buffer
from glow_nb.llir.verify import element_interval, may_overlap, part_of_period

T = TypeVar("T")

PERIODS = 4
"""How many periods are compared for a region: the most frequent strides of its windows."""


class Overlaps(Generic[T]):
    """Windows on one region that come one by one, each with a thing that it belongs to."""

    def __init__(self, period: int = 0) -> None:
        """Tell windows apart within each *period* (see :func:`best_period`), if it is not 0."""
        self._period = period
        self._by_elements: Spans[tuple[Buffer, T]] = Spans()
        self._by_parts: Spans[tuple[Buffer, T]] = Spans()
        self._others: Spans[tuple[Buffer, T]] = Spans()

    def add(self, window: Buffer, thing: T) -> None:
        """Let *window* belong to *thing*."""
        if surely(window.type.size, "==", 0):
            return
        first, last = _interval(window)
        part = _part(window, self._period)
        self._by_elements.add(first, last + 1, (window, thing))
        if part is None:
            self._others.add(first, last + 1, (window, thing))
        else:
            self._by_parts.add(part[0], part[1] + 1, (window, thing))

    def overlapping(self, window: Buffer) -> Iterator[T]:
        """Yield what the windows belong to that may overlap *window*, as ``may_overlap`` says."""
        if not surely(window.type.size, "==", 0):
            yield from (thing for near, thing in self._near(window) if may_overlap(near, window))

    def _near(self, window: Buffer) -> Iterator[tuple[Buffer, T]]:
        first, last = _interval(window)
        part = _part(window, self._period)
        if part is None:
            yield from self._by_elements.overlapping(first, last + 1)
        else:
            yield from self._by_parts.overlapping(part[0], part[1] + 1)
            yield from self._others.overlapping(first, last + 1)


def _interval(window: Buffer) -> tuple[int, int]:
    """Return the elements that *window* may touch; all that there are if its sizes are open."""
    first, last = element_interval(window)
    return (0, MAX_TENSOR_BYTES) if symbols_of(first, last) else (first, last)


def best_period(windows: Iterable[Buffer]) -> int:
    """Return the period within which *windows* of one region cover the least; 0 for the region."""
    gapped = [w for w in windows if not _is_open(w) and w.type.size and not w.is_contiguous]
    strides = Counter(abs(stride) for window in gapped for stride in window.strides)
    periods = [0, *(stride for stride, _ in strides.most_common(PERIODS) if stride)]
    return min(periods, key=lambda period: sum(_share(window, period) for window in gapped))


def _is_open(window: Buffer) -> bool:
    sizes = (window.root.type.size, window.offset, *window.strides, *window.type.shape)
    return bool(symbols_of(*sizes))


def _share(window: Buffer, period: int) -> float:
    """Return the share of each period, or of the region, between the ends of *window*."""
    part = _part(window, period)
    if part is None:
        first, last = element_interval(window)
        return (last + 1 - first) / window.root.type.size
    return (part[1] + 1 - part[0]) / period


def _part(window: Buffer, period: int) -> tuple[int, int] | None:
    """Return the part of each *period* that *window* touches; None if that is not one of its own.

    ``may_overlap`` compares two windows within the strides of both.
    """
    if not period or _is_open(window) or period not in map(abs, window.strides):
        return None
    return part_of_period(window, period)
