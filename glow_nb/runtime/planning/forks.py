"""A lower bound of latency for networks that fork and join: other devices need transfers.

A meeting is a unit that all paths go through. Each piece from one meeting to the next has a bound
of its own, and these add up. In a piece, some units run on the device of the second meeting, one
after the other, with the transfers that they need; the others run elsewhere, at best in even
shares. A path from one side to the other has a transfer. No plan is faster than the best choice of
sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.stretches import Floats
from glow_nb.runtime.planning.units import Value

MOST_BETWEEN = 12
"""Units between two meetings of which all choices are tried; for more, the longest path counts."""


def fork_bound(fleet: Fleet) -> float:
    """Return the seconds that any plan takes for a request."""
    least = (fleet.seconds + fleet.host_seconds).min(axis=0)
    meetings = _meetings(fleet.units.before)
    if not meetings:
        return _longest(fleet, least, range(len(least)))
    read_by: list[list[Value]] = [[] for _ in fleet.units.units]
    for value in fleet.units.values:
        for reader in value.readers if value.producer is not None else ():
            read_by[reader].append(value)
    total = _longest(fleet, least, range(meetings[0] + 1))
    for first, last in pairwise(meetings):
        between = range(first + 1, last + 1)
        if len(between) > MOST_BETWEEN:
            total += _longest(fleet, least, between)
        else:
            total += _fastest_choice(fleet, least, read_by, between)
    return total + _longest(fleet, least, range(meetings[-1] + 1, len(least)))


def _meetings(before: Sequence[set[int]]) -> list[int]:
    """Return the units that all others come before or behind, in order."""
    count = len(before)
    above, below = [0] * count, [0] * count
    for number, found in enumerate(before):
        for other in found:
            above[number] |= above[other] | 1 << other
    for number in reversed(range(count)):
        for other in before[number]:
            below[other] |= below[number] | 1 << number
    met = (
        number
        for number in range(count)
        if (above[number] | below[number]).bit_count() == count - 1
    )
    return list(met)


def _longest(fleet: Fleet, least: Floats, units: range) -> float:
    """Return the seconds of the longest path through *units*, without transfers."""
    end: dict[int, float] = {}
    for unit in units:
        earlier = (end[other] for other in fleet.units.before[unit] if other in end)
        end[unit] = float(least[unit]) + max(earlier, default=0.0)
    return max(end.values(), default=0.0)


def _fastest_choice(
    fleet: Fleet, least: Floats, read_by: Sequence[Sequence[Value]], between: range
) -> float:
    """Return the least seconds from the end of a meeting to that of the last unit *between*.

    ``here[unit]`` says for each choice whether a unit is on the device of the last one.
    """
    choices, first = np.arange(1 << len(between)), between[0] - 1
    names = [first, *between[:-1]]
    here = {unit: (choices >> place & 1).astype(bool) for place, unit in enumerate(names)}
    here[between[-1]] = np.ones(len(choices), bool)
    alone = np.zeros(len(choices))  # what the device of the last unit does one after the other
    away = np.zeros(len(choices))  # what the others do, with a transfer behind it
    others, transfers = max(1, len(fleet.devices) - 1), [np.inf]
    entering = {unit: np.zeros(len(choices)) for unit in between}
    ways: dict[int, list[tuple[int, Floats]]] = {unit: [] for unit in between}
    for value, readers in _values(read_by, between):
        source, seconds = value.producer, _least_seconds(fleet, value)
        assert source is not None
        transfers.append(seconds)
        if source not in here:
            continue  # it was there before the fork
        taken = np.zeros(len(choices), bool)
        for reader in readers:
            crosses = here[source] != here[reader]
            ways[reader].append((source, np.where(crosses, seconds, 0.0)))
            entering[reader] = np.maximum(entering[reader], ways[reader][-1][1])
            taken |= crosses & here[reader]
        alone += np.where(taken, seconds, 0.0)
    end = {first: np.zeros(len(choices))}
    for unit in between:
        came = [end[source] for source, _ in ways[unit]]
        end[unit] = np.max(came, axis=0) + entering[unit] + least[unit]
        alone += np.where(here[unit], least[unit], 0.0)
        away += np.where(here[unit], 0.0, least[unit] / others)
    away = np.where(away > 0, away + min(transfers) + least[between[-1]], 0.0)
    return float(np.maximum.reduce([end[between[-1]], alone, away]).min())


def _values(
    read_by: Sequence[Sequence[Value]], between: range
) -> Iterator[tuple[Value, list[int]]]:
    """Yield what units *between* read of others, with those that read it."""
    for value in dict.fromkeys(value for unit in between for value in read_by[unit]):
        yield value, [reader for reader in value.readers if reader in between]


def _least_seconds(fleet: Fleet, value: Value) -> float:
    """Return how long *value* takes on the fastest way between two devices."""
    devices = [kind.device for kind in fleet.kinds]
    links = [link for device in devices for link in (device.link, *device.links.values())]
    return min(link.seconds(value.size_bytes) for link in links)
