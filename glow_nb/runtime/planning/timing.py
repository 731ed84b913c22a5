"""The quality of a plan: the time of a request, the time between requests, the memory of devices.

A device does one thing after the other: it receives what a part reads from other devices and from
the host, computes, and sends the host its results. A part begins when all that it reads is made and
its device is free. The simulator (:mod:`glow_nb.runtime.planning.simulate`) goes by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from glow_nb.runtime.planning.partitioning import Part, Partitioning


@dataclass(frozen=True)
class Transfer:
    """A tensor that is sent to a part, or to the host.

    Attributes:
        name: The tensor.
        source: The device that it comes from; None for the host.
        target: The device that it goes to; None for the host.
        size_bytes: Its size.
        seconds: The time of the transfer.
    """

    name: str
    source: str | None
    target: str | None
    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class TimedPart:
    """A part, what it waits for, and what its device receives and sends for it.

    Attributes:
        part: The part.
        needs: The parts whose results it reads, by name.
        transfers: The transfers to its device, and from it to the host.
    """

    part: Part
    needs: tuple[str, ...]
    transfers: tuple[Transfer, ...]

    @property
    def seconds(self) -> float:
        """The time that its device is busy with it, for one request."""
        return self.part.seconds + sum(transfer.seconds for transfer in self.transfers)


def timed_parts(plan: Partitioning) -> list[TimedPart]:
    """Return the parts of *plan*, in their order, with what they wait for and transfer."""
    makers = {name: part for part in plan.parts for name, _ in part.outputs}
    for name, _ in plan.inputs:
        makers.pop(name, None)  # an input that is an output as well is fed by the caller
    results = {name for name, _ in plan.outputs}
    parts = []
    for part in plan.parts:
        device = plan.devices[part.device]
        transfers = []
        for name, type in part.inputs:
            maker = makers.get(name)
            if maker and maker.device == part.device:
                continue
            source = plan.devices[maker.device] if maker else None
            link = source.link_to(device.name) if source else device.link
            size = type.size_bytes
            origin = source.name if source else None
            transfers.append(Transfer(name, origin, device.name, size, link.seconds(size)))
        for name, type in part.outputs:
            if name in results:
                seconds = device.link.seconds(type.size_bytes)
                transfers.append(Transfer(name, device.name, None, type.size_bytes, seconds))
        needs = dict.fromkeys(makers[name].name for name, _ in part.inputs if name in makers)
        parts.append(TimedPart(part, tuple(needs), tuple(transfers)))
    return parts


def begins_of(parts: Sequence[TimedPart]) -> dict[str, float]:
    """Return when each part begins to receive what it reads, if there is one request alone."""
    ends: dict[str, float] = {}
    begins: dict[str, float] = {}
    free: dict[str, float] = {}
    for timed in parts:
        name, device = timed.part.name, timed.part.device
        begins[name] = max([free.get(device, 0.0), *(ends[need] for need in timed.needs)])
        ends[name] = free[device] = begins[name] + timed.seconds
    return begins


def latency(plan: Partitioning) -> float:
    """Return the seconds from a request to its last result, on devices that do nothing else."""
    parts = timed_parts(plan)
    begins = begins_of(parts)
    return max((begins[timed.part.name] + timed.seconds for timed in parts), default=0.0)


def period(plan: Partitioning) -> float:
    """Return the seconds between requests when they follow each other as fast as they can."""
    return max(busy_seconds(plan).values(), default=0.0)


def busy_seconds(plan: Partitioning) -> dict[str, float]:
    """Return how long each device works for one request."""
    busy = dict.fromkeys(plan.devices, 0.0)
    for timed in timed_parts(plan):
        busy[timed.part.device] += timed.seconds
    return busy


def memory_bytes(plan: Partitioning) -> dict[str, int]:
    """Return what the parts on each device need."""
    used = dict.fromkeys(plan.devices, 0)
    for part in plan.parts:
        used[part.device] += part.memory_bytes
    return used


def fullest(plan: Partitioning) -> float:
    """Return the bytes on the device that holds most."""
    return float(max(memory_bytes(plan).values(), default=0))


Objective = Literal["latency", "throughput", "memory"]

VALUES: Mapping[str, Callable[[Partitioning], float]] = {
    "latency": latency,
    "throughput": period,
    "memory": fullest,
}
"""The value of a plan for each objective; less is better."""
