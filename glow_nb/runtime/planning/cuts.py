"""Where a network can be cut. A cut is the set of units before it.

With each unit, the set holds all units that it reads from; a part is what lies between two cuts. A
network with few cuts is planned by all of them, so that no part is forgotten. Of a network with too
many, only the cuts between units that follow each other in its order are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from glow_nb.runtime.planning.units import Units

Cut = int
"""Bit mask of the units before the cut."""

MOST_PAIRS = 150_000_000
"""The most pairs of cuts, times units and edges, that are searched: about a second of work."""

FEWEST_MERGED, MOST_MERGED, MERGED_PER_DEVICE = 400, 1000, 12
"""The number of units that those of a larger network are merged to: this number for each device,
between two bounds. A search over more units takes minutes and gigabytes."""


def all_cuts(units: Units) -> list[Cut] | None:
    """Return all cuts of *units*, smaller ones first; None if there are too many."""
    before = [sum(1 << number for number in found) for found in units.before]
    readers: list[list[int]] = [[] for _ in units.units]
    for number, found in enumerate(units.before):
        for other in found:
            readers[other].append(number)
    sources = [number for number, found in enumerate(before) if not found]
    most = most_cuts(units)
    cuts: dict[Cut, None] = {0: None}
    frontier = {0: sources}
    while frontier:
        following: dict[Cut, list[int]] = {}
        for cut, ready in frontier.items():
            for unit in ready:
                larger = cut | 1 << unit
                if larger not in following:
                    freed = [r for r in readers[unit] if not before[r] & ~larger]
                    following[larger] = [*(r for r in ready if r != unit), *freed]
        cuts.update(dict.fromkeys(following))
        if len(cuts) > most:
            return None
        frontier = following
    return list(cuts)


def ordered_cuts(units: Units) -> list[Cut]:
    """Return the cuts between units that follow each other."""
    return list(accumulate((1 << number for number in range(len(units.units))), initial=0))


def most_cuts(units: Units) -> int:
    """Return of how many cuts all pairs can be looked at."""
    return int((MOST_PAIRS / (len(units.units) + len(units.edges) + 1)) ** 0.5) + 2


def most_units(devices: int) -> int:
    """Return how many units a network for *devices* devices may have."""
    return min(MOST_MERGED, max(FEWEST_MERGED, MERGED_PER_DEVICE * devices))


def neighbours(units: Units, count: int, weights: Sequence[float]) -> list[int]:
    """Return for each unit the number of its group: at most *count* groups of neighbours.

    The order is divided into segments of about equal *weights*, and each is cut once, where the
    fewest bytes go on.
    """
    if len(units.units) <= count:
        return list(range(len(units.units)))
    crossing = np.zeros(len(units.units) + 1)
    for edge in units.edges:
        if edge.producer is not None and edge.readers:
            crossing[edge.producer + 1] += edge.size_bytes
            crossing[edge.readers[-1] + 1] -= edge.size_bytes
    crossing = np.cumsum(crossing)  # bytes that cross in front of each unit
    share = np.cumsum(weights) / max(float(np.sum(weights)), 1e-30)
    segment = np.minimum((share * count).astype(int), count - 1)
    groups = np.zeros(len(units.units), int)
    for number in range(1, count):
        inside = np.flatnonzero(segment == number)
        if len(inside):
            groups[inside[np.argmin(crossing[inside])] :] += 1
    found: list[int] = groups.tolist()
    return found
