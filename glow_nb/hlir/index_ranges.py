"""Ranges of indices that a slice takes, of which the ends may be open sizes."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.size import surely, symbols_of


@dataclass(frozen=True)
class OpenRange:
    """The range ``range(start, stop, step)`` with an open size, as a slice has it."""

    start: int
    stop: int
    step: int = 1


IndexRange = range | OpenRange


def index_range(start: int, stop: int, step: int = 1) -> IndexRange:
    """Return the range of these numbers; a Python one if they are plain."""
    is_open = symbols_of(start, stop, step)
    return OpenRange(start, stop, step) if is_open else range(start, stop, step)


def whole(size: int) -> IndexRange:
    """Return all indices of an axis of *size*."""
    return index_range(0, size)


def count_of(indices: IndexRange) -> int:
    """Return how many indices there are."""
    if isinstance(indices, range):
        return len(indices)
    length, step = indices.stop - indices.start, indices.step
    return (length + step - 1) // step if surely(step, ">", 0) else (length + step + 1) // step


def ascending(indices: IndexRange) -> IndexRange:
    """Return the same indices, the least one first."""
    if surely(indices.step, ">", 0):
        return indices
    least = indices.start + (count_of(indices) - 1) * indices.step
    return index_range(least, indices.start + 1, -indices.step)


def taken_of(indices: IndexRange, places: IndexRange) -> IndexRange | None:
    """Return the elements of *indices* at *places*, as a range that a slice may have.

    None if that depends on sizes.
    """
    if isinstance(indices, range) and isinstance(places, range):
        return _taken_of(indices, places)
    if places == whole(count_of(indices)):
        return indices
    return places if indices.start == 0 and indices.step == 1 else None


def _taken_of(indices: range, places: range) -> range:
    if not places:
        return range(0)
    first, step = indices[places[0]], indices.step * places.step
    if len(places) == 1:
        return range(first, first + 1)
    last = indices[places[-1]]
    return range(first, last + (1 if step > 0 else -1), step)
