"""Lower bounds of each objective: no plan can be better, whatever its parts are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from glow_nb.runtime.planning.chains import best_walk
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.forks import steps_of
from glow_nb.runtime.planning.stretches import Floats


def latency_bound(fleet: Fleet) -> float:
    """Return the seconds of a request: what forks take, or an even share of all units."""
    return max(fork_bound(fleet), float(fleet.least.sum()) / len(fleet.devices))


def fork_bound(fleet: Fleet) -> float:
    """Return the seconds that any plan takes for a request.

    All parts together have no more bytes than the devices hold beside the weights, each of which is
    somewhere. The fewest seconds for so many bytes are those of a knapsack, in which each fork has
    several layouts to choose from; what is returned are those of its linear relaxation.
    """
    seconds, room = sum(fork.seconds for fork in fleet.forks), fleet.free_bytes
    for step in steps_of(fleet.forks):
        share = min(1.0, max(room, 0.0) / step.size_bytes) if step.size_bytes else 1.0
        seconds, room = seconds - share * step.seconds, room - share * step.size_bytes
        if share < 1:
            break
    return seconds


def throughput_bound(fleet: Fleet) -> float:
    """Return the seconds that the busiest device must work for a request.

    It has the longest unit, or an even share of all work. The share supposes that each device works
    as fast on all units as on the unit that suits it best.
    """
    times = fleet.seconds + fleet.host_seconds
    least = times.min(axis=0)
    if not len(least):
        return 0.0
    ratio = np.divide(least, times, out=np.ones_like(times), where=times > 0).max(axis=1)
    pace = sum(ratio[kind] for kind in fleet.kind_of_device)
    return float(max(least.sum() / pace, least.max()))


def memory_bound(fleet: Fleet) -> float:
    """Return the bytes of an even share of what is kept, or of the largest unit by itself."""
    kept = fleet.units.kept
    total = sum(buffer.type.size_bytes for buffer in kept)
    return float(max(total / len(fleet.devices), unit_bytes(fleet).max(initial=0.0)))


def unit_bytes(fleet: Fleet) -> Floats:
    """Return what a device needs at least to run each unit: what it keeps, and reads or writes."""
    units = fleet.units
    needed = np.array([unit.inner_bytes for unit in units.units], np.float64)
    for buffer, users in units.kept.items():
        needed[list(users)] += buffer.type.size_bytes
    moved = np.zeros((2, len(needed)))
    for value in units.values:
        for reader in value.readers:
            moved[0, reader] += value.size_bytes * (value.buffer in units.at_once[reader])
        if value.producer is not None:
            moved[1, value.producer] += value.size_bytes
    shared = [unit.shared_bytes for unit in units.units]
    total: Floats = needed + np.maximum(moved[0], moved.sum(axis=0) - shared)
    return total


def path_bound(fleet: Fleet) -> float:
    """Return the seconds of the longest path where each device has one part and what it can hold.

    The path is cut so that each stretch of it, with the largest kernel in it, finds room.
    """
    path = longest_path(fleet)
    count = len(path) + 1
    kept = np.zeros(len(fleet.units.units))
    for buffer, users in fleet.units.kept.items():
        if len(users) == 1:
            kept[users[0]] += buffer.type.size_bytes
    kept_before = np.cumsum([0, *kept[path]])
    runs = (unit_bytes(fleet) - kept)[path]
    held = np.full((count, count), np.inf)
    for first in range(count - 1):
        most = np.maximum.accumulate(np.maximum(runs[first:], 0))
        held[first, first + 1 :] = kept_before[first + 1 :] - kept_before[first] + most
    sizes = [0, *(_way_bytes(fleet, *pair) for pair in pairwise(path)), 0]
    ways = [fleet.kinds[kind].device for kind in range(len(fleet.kinds))]
    times = fleet.seconds + fleet.host_seconds
    costs = []
    for before in ways:
        row = []
        for kind, device in enumerate(ways):
            barred = np.cumsum([0, *np.isinf(times[kind, path])])
            spent = np.cumsum([0, *np.where(np.isinf(times[kind, path]), 0, times[kind, path])])
            entered = np.array([before.link_to(device.name).seconds(size) for size in sizes])
            entered[[0, -1]] = 0
            total = spent[None] - spent[:, None] + entered[:, None]
            total[held > fleet.kinds[kind].memory_bytes] = np.inf
            total[barred[None] > barred[:, None]] = np.inf
            row.append(total)
        costs.append(row)
    walk = best_walk(costs, [len(kind.devices) for kind in fleet.kinds], np.add)
    return walk.value if walk and walk.is_exact else 0.0


def longest_path(fleet: Fleet) -> list[int]:
    """Return the units of the path that takes longest, each on its fastest device."""
    least = fleet.least
    end = np.zeros(len(least))
    came: list[int | None] = [None] * len(least)
    for unit, before in enumerate(fleet.units.before):
        came[unit] = max(before, key=lambda other: float(end[other]), default=None)
        end[unit] = least[unit] + max((end[other] for other in before), default=0.0)
    path: list[int] = []
    place: int | None = int(end.argmax()) if len(end) else None
    while place is not None:
        path.append(place)
        place = came[place]
    return path[::-1]


def _way_bytes(fleet: Fleet, source: int, target: int) -> int:
    """Return the fewest bytes that *target* reads of *source*."""
    return min(
        value.size_bytes
        for value in fleet.units.values
        if value.producer == source and target in value.readers
    )


BOUNDS: Mapping[str, Callable[[Fleet], float]] = {
    "latency": latency_bound,
    "throughput": throughput_bound,
    "memory": memory_bound,
}
"""The bound of each objective."""
