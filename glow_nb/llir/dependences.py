"""Which instructions must come before which: those that touch the same elements, one writing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from glow_nb.llir.overlaps import Overlaps, best_period
from glow_nb.llir.program import Buffer, Instruction, mutated, read


class _Region:
    """The instructions that accessed one region so far, by their numbers."""

    def __init__(self, windows: Iterable[Buffer]) -> None:
        period = best_period(windows)
        self.reads: Overlaps[int] = Overlaps(period)
        self.writes: Overlaps[int] = Overlaps(period)


def dependences(work: Sequence[Instruction]) -> list[list[int]]:
    """Return the instructions of *work* that must come right before each of them, by their numbers.

    An instruction comes after the writers of what it reads, and after the readers and writers of
    what it writes. Views of one region that have no element in common do not count. What must come
    before one of these anyway is left out.

    The time is that for the pairs that there are, and for sets of numbers as bits: far less than
    for a look at all pairs.
    """
    regions = _regions_of(work)
    earlier: list[int] = []  # a bit for each instruction that must come before, at any distance
    before: list[list[int]] = []
    for number, instruction in enumerate(work):
        reads, writes = read(instruction), mutated(instruction)
        found: set[int] = set()
        for buffer in (b for b in (*reads, *writes) if b.root in regions):
            found.update(regions[buffer.root].writes.overlapping(buffer))
        for buffer in writes:
            found.update(regions[buffer.root].reads.overlapping(buffer))
        known, nearest = _nearest(found, earlier)
        earlier.append(known)
        before.append(nearest)
        for buffer in (b for b in reads if b.root in regions):
            regions[buffer.root].reads.add(buffer, number)
        for buffer in writes:
            regions[buffer.root].writes.add(buffer, number)
    return before


def _regions_of(work: Sequence[Instruction]) -> dict[Buffer, _Region]:
    """Return the regions that are written: no order is needed between those that only read."""
    windows: dict[Buffer, dict[Buffer, None]] = {}
    for instruction in work:
        for buffer in mutated(instruction):
            windows.setdefault(buffer.root, {})[buffer] = None
    for instruction in work:
        for buffer in read(instruction):
            if buffer.root in windows:
                windows[buffer.root][buffer] = None
    return {root: _Region(found) for root, found in windows.items()}


def _nearest(found: Iterable[int], earlier: Sequence[int]) -> tuple[int, list[int]]:
    """Return a bit for all that comes before, and those of *found* that come before no other."""
    known = 0
    nearest = []
    for number in sorted(found, reverse=True):
        if not known >> number & 1:
            nearest.append(number)
            known |= earlier[number] | 1 << number
    return known, nearest[::-1]
