"""Lower bounds of each objective: no plan can be better, whatever its parts are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from glow_nb.runtime.planning.candidate_parts import Floats
from glow_nb.runtime.planning.chains import best_walk
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.units import Units


def latency_bound(fleet: Fleet) -> float:
    """Return the seconds of a request, each unit on its fastest device.

    A *synchronization point* is a unit that each other one comes before or behind. What lies
    between two points, with the second one, begins when the first point has ended, and ends before
    anything else begins, so that their seconds add up. It runs on one device, or on several ones
    side by side.
    """
    points = synchronization_points(fleet.units)
    ends = sorted({*(point + 1 for point in points), len(fleet.units.units)})
    segments = map(range, [0, *ends[:-1]], ends)
    return sum(_segment_bound(fleet, segment, points) for segment in segments)


def synchronization_points(units: Units) -> list[int]:
    """Return the units that each other unit comes before or behind, in order."""
    others = len(units.units) - 1
    related = (above | below for above, below in zip(units.above, units.below, strict=True))
    return [number for number, found in enumerate(related) if found.bit_count() == others]


def _segment_bound(fleet: Fleet, segment: range, points: Sequence[int]) -> float:
    """Return the seconds of the units of *segment*, which follows a point or ends with one.

    On one device they run one after the other. On several devices they take as long as the longest
    path, or as an even share of all of them; and a tensor goes from one device to another, on some
    path.
    """
    total = float(fleet.least[segment.start : segment.stop].sum())
    if len(segment) < 2 or len(fleet.devices) == 1:
        return total
    ends, lefts = _path_seconds(fleet, segment)
    side_by_side = max(*ends.values(), total / len(fleet.devices))
    first = segment.start - 1
    if segment[-1] in points or first in points:  # else devices need not wait for each other
        makers = segment if segment[-1] in points else range(first, segment.stop)
        crossings = [
            ends.get(maker, 0.0) + fleet.least_transfer_seconds(edge.size_bytes) + lefts[reader]
            for maker in makers
            for edge in fleet.units.made[maker]
            for reader in edge.readers
            if reader in lefts
        ]
        side_by_side = max(side_by_side, min(crossings))
    return min(total, side_by_side)


def _path_seconds(fleet: Fleet, segment: range) -> tuple[dict[int, float], dict[int, float]]:
    """Return for each unit of *segment* the seconds of the longest path to its end, and from it."""
    ends: dict[int, float] = {}
    lefts = {unit: float(fleet.least[unit]) for unit in segment}
    for unit in segment:
        before = (ends[other] for other in fleet.units.before[unit] if other in ends)
        ends[unit] = float(fleet.least[unit]) + max(before, default=0.0)
    for unit in reversed(segment):
        for other in fleet.units.before[unit]:
            if other in lefts:
                lefts[other] = max(lefts[other], float(fleet.least[other]) + lefts[unit])
    return ends, lefts


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
    for edge in units.edges:
        for reader in edge.readers:
            moved[0, reader] += edge.size_bytes * (edge.buffer in units.at_once[reader])
        if edge.producer is not None:
            moved[1, edge.producer] += edge.size_bytes
    shared = [unit.shared_bytes for unit in units.units]
    total: Floats = needed + np.maximum(moved[0], moved.sum(axis=0) - shared)
    return total


def path_bound(fleet: Fleet) -> float:
    """Return the seconds of the longest path where each device has one part and what it can hold.

    The path is cut so that each piece of it, with the largest kernel in it, finds room.
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
    devices = [fleet.kinds[kind].device for kind in range(len(fleet.kinds))]
    times = fleet.seconds + fleet.host_seconds
    costs = []
    for before in devices:
        row = []
        for kind, device in enumerate(devices):
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
        edge.size_bytes
        for edge in fleet.units.edges
        if edge.producer == source and target in edge.readers
    )


BOUNDS: Mapping[str, Callable[[Fleet], float]] = {
    "latency": latency_bound,
    "throughput": throughput_bound,
    "memory": memory_bound,
}
"""The bound of each objective."""
