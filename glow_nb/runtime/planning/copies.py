"""Copies of parts: on which device a part runs is decided when it is ready."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from glow_nb.runtime.planning.timing import TimedPart

AWAY = 1e9
"""The load that stands for a device that is away: more than that of any other."""


class Copies:
    """The devices that have the same part, and what each has to do.

    Parts of several duplicates are copies of one part if they have the same program and take the
    same time, each on a device that has no other part: then what they receive comes from elsewhere,
    on whichever of the devices they run.
    """

    def __init__(self, parts: Iterable[TimedPart], names: Iterable[str]) -> None:
        """Find the copies among *parts*, those of all duplicates, on devices of these *names*."""
        devices: defaultdict[object, dict[str, None]] = defaultdict(dict)
        held: defaultdict[str, set[object]] = defaultdict(set)
        for timed in parts:
            devices[_part_of(timed)][timed.part.device] = None
            held[timed.part.device].add(_part_of(timed))
        self._names = list(names)
        self._number = {name: number for number, name in enumerate(self._names)}
        self._to_do = np.zeros(len(self._names))
        self._places = {
            part: np.array([self._number[name] for name in found])
            for part, found in devices.items()
            if all(len(held[name]) == 1 for name in found)
        }

    def device(self, timed: TimedPart) -> str:
        """Return the device with a copy of the part that has least to do."""
        places = self._places.get(_part_of(timed))
        if places is None:
            return timed.part.device
        return self._names[int(places[self._to_do[places].argmin()])]

    def change(self, device: str, by: float) -> None:
        """Let a device have so much more to do: 1 for each run, ``AWAY`` while it is away."""
        self._to_do[self._number[device]] += by


def _part_of(timed: TimedPart) -> object:
    """Return what copies of one part have in common."""
    return id(timed.part.program), timed.seconds
