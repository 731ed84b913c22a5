"""Which plan answers most requests on all devices of a cluster?

A network is cut for a few devices, and each part has as many copies as its work asks for: a part
that takes twice as long as another one has twice as many devices. A way is one copy of each part; a
device is on several ways where its part has fewer copies than another one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from glow_nb.errors import PartitionError
from glow_nb.hlir.graph import Function
from glow_nb.runtime import DeviceDescription, Partitioning, partition
from glow_nb.runtime.planning.timing import busy_seconds

GROUPS = (1, 2, 4, 8, 16, 32, 64)
"""For how many devices a network is cut."""


@dataclass(frozen=True, eq=False)
class Deployment:
    """A network on the devices of a cluster.

    Attributes:
        ways: The plan once for each way through the copies of its parts.
        parts: How many devices are on a way.
        pace: Requests a second, if each part is evenly busy.
        least_latency: Lower bound of the seconds of a request alone, on devices that it is cut for.
    """

    ways: tuple[Partitioning, ...]
    parts: int
    pace: float
    least_latency: float


def deployed(function: Function, devices: Sequence[DeviceDescription]) -> Deployment | None:
    """Return *function* on *devices* so that most requests are answered; None if it has no room.

    It is cut for more and more devices, until twice as many answer no more requests.
    """
    best: Deployment | None = None
    for size in (size for size in GROUPS if size <= len(devices)):
        try:
            quick = partition(function, devices[:size], objective="latency")
            often = partition(function, devices[:size], objective="throughput")
        except PartitionError:
            continue  # more devices may hold it
        found = max(
            (_copied(plan, devices, quick.lower_bound) for plan in (quick, often)),
            key=lambda deployment: deployment.pace,
        )
        if best and found.pace <= best.pace:
            break
        best = found
    return best


def _copied(
    plan: Partitioning, devices: Sequence[DeviceDescription], least_latency: float
) -> Deployment:
    """Return *plan* with its parts on all of *devices*, each on those of the speed planned for.

    The next device of a speed goes to the parts which lack one most.
    """
    busy = {name: seconds for name, seconds in busy_seconds(plan).items() if seconds}
    speeds = {name: plan.devices[name].multiply_adds_per_second for name in busy}
    places: dict[str, list[DeviceDescription]] = {name: [] for name in busy}
    for device in devices:
        alike = [name for name in busy if speeds[name] == device.multiply_adds_per_second]
        if alike:
            places[min(alike, key=lambda name: len(places[name]) / busy[name])].append(device)
    pace = min(len(places[name]) / busy[name] for name in busy)
    return Deployment(tuple(ways(plan, places)), len(busy), pace, least_latency)


def ways(
    plan: Partitioning, places: Mapping[str, Sequence[DeviceDescription]]
) -> list[Partitioning]:
    """Return *plan* once for each way through the *places* of its devices, by their names.

    The places of each lie side by side on a line of length 1; a way is a stretch of the line in
    which no place ends.
    """
    begins = {Fraction(n, len(found)) for found in places.values() for n in range(len(found))}
    return [
        moved(plan, {name: found[int(begin * len(found))] for name, found in places.items()})
        for begin in sorted(begins)
    ]


def moved(plan: Partitioning, devices: Mapping[str, DeviceDescription]) -> Partitioning:
    """Return *plan* on other *devices*, which are like its own, by the names of its own."""
    parts = [dataclasses.replace(part, device=devices[part.device].name) for part in plan.parts]
    named = {device.name: device for device in devices.values()}
    return dataclasses.replace(plan, parts=tuple(parts), devices=named)
