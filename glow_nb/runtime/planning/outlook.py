"""What is left of a request's time, by the bytes that are free for runs.

All devices are taken as one, whose memory holds any parts: so what is left is that of the best way
on, by dynamic programming from the end of the network to its begin, for some numbers of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glow_nb.runtime.planning.stretches import Floats, Traffic
from glow_nb.runtime.planning.ways import STEM, Split, Ways

LEVELS = 256
"""How many numbers of free bytes are told apart."""

End = Callable[[float, int, float], float]
"""When a request may end, by the seconds so far, the cut where a stem begins, and the room left."""


class Outlook:
    """The seconds that are left, for each cut where a stem begins, and each stop behind it."""

    def __init__(
        self,
        ways: Ways,
        runs: Floats,
        seconds: Floats,
        taken: Traffic,
        way: Callable[[int], float],
        free_bytes: float,
    ) -> None:
        """Look from the end of *ways* to their begin.

        Args:
            ways: The ways through the network.
            runs: What a run of the part between two cuts takes, ``[cut before, cut behind]``.
            seconds: How long it takes.
            taken: What it takes in from other parts.
            way: How long so many bytes take between devices.
            free_bytes: What is free for runs of all parts.
        """
        self._ways, self._runs, self._seconds = ways, runs, seconds
        self._taken, self._way = taken, way
        self._level = max(free_bytes, 1.0) / (LEVELS - 1)
        splits = {split for stop in ways.stops for split in stop.splits}
        self._sides = {split: self._side_by_side(split) for split in splits}
        self._left: dict[int, Floats] = {}
        begins = {stop.cut for stop in ways.stops}
        begins |= {split.behind for stop in ways.stops for split in stop.splits}
        for cut in sorted(begins, key=lambda number: -ways.cuts[number].bit_count()):
            self._left[cut] = self._left_from(cut)

    def ends(self, stop: int, kept: Sequence[float]) -> End:
        """Return when requests may end whose stem gets to a *stop*, and ends there or behind.

        What is *kept* from each cut on is not free for runs.
        """
        size, left = self._level, {first: rows[stop] for first, rows in self._left.items()}

        def end(seconds: float, first: int, room: float) -> float:
            level = int((room - kept[first]) / size)
            return seconds + left[first].item(min(level, LEVELS - 1)) if level >= 0 else np.inf

        return end

    def _left_from(self, first: int) -> Floats:
        """Return what is left for a stem that begins at *first*, ``[stop, level]``."""
        stops = self._ways.stops
        left = np.full((len(stops) + 1, LEVELS), np.inf)
        self._end(left[-1], first, self._ways.end, 0.0, 0.0, None)
        for row, stop in zip(left, stops, strict=False):
            if self._is_behind(first, stop.cut):
                seconds = sum(self._way(size) for _, size in stop.taken)
                self._end(row, first, stop.cut, seconds, 0.0, stop.cut)
            for split in stop.splits:
                if first == split.before or self._is_behind(first, split.before):
                    seconds, size = self._sides[split]
                    self._end(row, first, split.before, seconds, size, split.behind)
        backwards: Floats = np.minimum.accumulate(left[::-1], axis=0)[::-1]
        return backwards

    def _is_behind(self, first: int, last: int) -> bool:
        before, behind = self._ways.cuts[first], self._ways.cuts[last]
        return before != behind and not before & ~behind

    def _end(
        self, row: Floats, first: int, last: int, seconds: float, size: float, then: int | None
    ) -> None:
        """Let the stem from *first* to *last* be in *row*, with what comes behind it."""
        if first != last:
            seconds += self._seconds[first, last]
            size += self._runs[first, last]
        levels = max(0, round(size / self._level)) if np.isfinite(size) else LEVELS
        if levels < LEVELS:
            behind = self._left[then][0] if then is not None else np.zeros(LEVELS)
            np.minimum(row[levels:], behind[: LEVELS - levels] + seconds, out=row[levels:])

    def _side_by_side(self, split: Split) -> tuple[float, float]:
        """Return the seconds of the branches and of the ways, and the bytes of the branches.

        The longest branch stays on the device of the stem before it; so does the stem behind it.
        """
        ends = list(split.branches)
        alone = self._seconds[split.before, ends]
        count, size = (
            self._taken.count[split.before, ends],
            self._taken.size_bytes[split.before, ends],
        )
        way = (
            self._way(0) * count + np.array([self._way(int(each)) for each in size]) - self._way(0)
        )
        longest = int((alone + way).argmax())
        way[longest] = 0
        near = (STEM, longest)
        seconds = sum(self._way(size) for branch, size in split.taken if branch not in near)
        return float((alone + way).max() + seconds), float(self._runs[split.before, ends].sum())
