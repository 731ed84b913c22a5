"""Intervals of whole numbers, each with a thing that it belongs to, found by what they overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class _Class(Generic[T]):
    """Intervals of about one length, sorted by their begins."""

    begins: list[int] = field(default_factory=list)
    rest: list[tuple[int, T]] = field(default_factory=list)


class Spans(Generic[T]):
    """Intervals ``[begin, end)``; to ask for those that overlap another takes no look at all.

    They are kept in classes, one for each power of two of their lengths, sorted by their begins:
    what overlaps an interval begins no further before it than the class is long.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self._classes: dict[int, _Class[T]] = {}

    def add(self, begin: int, end: int, thing: T) -> None:
        """Let ``[begin, end)`` belong to *thing*; an empty interval overlaps nothing."""
        if begin >= end:
            return
        same = self._classes.setdefault((end - begin).bit_length(), _Class())
        place = bisect_right(same.begins, begin)
        same.begins.insert(place, begin)
        same.rest.insert(place, (end, thing))

    def overlapping(self, begin: int, end: int) -> Iterator[T]:
        """Yield what the intervals belong to that share a number with ``[begin, end)``."""
        if begin >= end:
            return
        for bits, same in self._classes.items():
            first = bisect_right(same.begins, begin - (1 << bits))
            for place in range(first, bisect_left(same.begins, end)):
                own_end, thing = same.rest[place]
                if own_end > begin:
                    yield thing
