"""Which duplicate of a network gets the next request: that whose devices have least to answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glow_nb.runtime.hosting.hosted_device import DEPTH
from glow_nb.runtime.planning.timing import TimedPart


class LeastBusy:
    """Which duplicate of a network gets the next request.

    Each duplicate can take so many requests for each of its parts as a device takes runs. A device
    can have as many to answer as the duplicates that use it take together, and a duplicate is as
    busy as all of its devices are, each by the share of what it can have.
    """

    def __init__(self, copies: Sequence[Sequence[TimedPart]]) -> None:
        """Have nothing to answer by *copies*, each with its parts."""
        names = [dict.fromkeys(timed.part.device for timed in parts) for parts in copies]
        number = {name: n for n, name in enumerate(dict.fromkeys(n for of in names for n in of))}
        uses = np.zeros((len(copies), len(number)), bool)
        # a row has the devices of a duplicate, and nowhere behind them
        self._devices = np.full((len(copies), max(map(len, names))), len(number))
        for copy, of in enumerate(names):
            devices = [number[name] for name in of]
            uses[copy, devices], self._devices[copy, : len(of)] = True, devices
        taken = [DEPTH * max(1, len(parts)) for parts in copies]
        self._room = np.append(taken @ uses, np.inf)
        self._open = np.zeros(len(self._room))
        self._touched = [
            np.flatnonzero(uses[:, uses[copy]].any(axis=1)) for copy in range(len(uses))
        ]
        self._busy = np.zeros(len(copies))

    def number(self) -> int | None:
        """Return the number of the least busy duplicate; None if none can take a request."""
        least = int(self._busy.argmin())
        return least if np.isfinite(self._busy[least]) else None

    def change(self, copy: int, by: int) -> None:
        """Let the devices of a duplicate have so many requests more to answer."""
        self._open[self._devices[copy]] += by
        touched = self._touched[copy]
        devices = self._devices[touched]
        opened, room = self._open[devices], self._room[devices]
        self._busy[touched] = np.where(opened < room, opened / room, np.inf).sum(axis=1)
