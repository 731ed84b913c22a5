"""What a host counts: requests, batches and latencies of networks, memory and runs of devices."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

BUCKETS = tuple(round(step * 10.0**power, 9) for power in range(-5, 2) for step in (1, 2, 5))
"""The upper bounds of the buckets of latencies in seconds: from 10 microseconds to 50 seconds."""


class Histogram:
    """How often which seconds came: as many as each bucket of :data:`BUCKETS` holds, and more.

    Attributes:
        counts: For each bucket, and last for all that is longer.
        total: The sum of all seconds.
    """

    def __init__(self) -> None:
        """Have seen nothing."""
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count *seconds*."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def copy(self) -> Histogram:
        """Return what there is now."""
        other = Histogram()
        other.counts, other.total = list(self.counts), self.total
        return other

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)


@dataclass
class NetworkCounters:
    """The counters of the requests of a network.

    Attributes:
        answered: Requests with outputs as their answer.
        failed: Requests with an error as their answer, those beyond their deadline among them.
        late: Requests whose answer was not there by their deadline.
        cancelled: Requests that were taken back.
        refused: Requests that were not taken.
        retried: Runs that were done again, as their device was lost.
        batches: The number of runs of each batch size.
        latency: Seconds from submission to answer.
        waiting: Seconds in the queue of those that left it for a device.
    """

    answered: int = 0
    failed: int = 0
    late: int = 0
    cancelled: int = 0
    refused: int = 0
    retried: int = 0
    batches: Counter[int] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=Histogram)
    waiting: Histogram = field(default_factory=Histogram)


@dataclass(frozen=True)
class NetworkStatistics:
    """The counters of the requests of a network, and the numbers of requests in each state.

    Attributes:
        counters: The counters so far; a copy.
        queued: Requests that wait.
        running: Requests that have left the queue and have no answer.
    """

    counters: NetworkCounters
    queued: int
    running: int


@dataclass(frozen=True)
class DeviceStatistics:
    """The statistics of a device.

    Attributes:
        running: Runs that the host has given it.
        memory_used_bytes: Memory of the networks on it.
        memory_bytes: The limit of their memory.
        restarts: The number of restarts.
        alive: Whether it answers.
    """

    running: int
    memory_used_bytes: int
    memory_bytes: int
    restarts: int
    alive: bool


@dataclass(frozen=True)
class Statistics:
    """All that a host counts, at one time.

    Attributes:
        networks: The counters of the requests of each network, by its name.
        devices: The statistics of each device, by its name.
    """

    networks: Mapping[str, NetworkStatistics]
    devices: Mapping[str, DeviceStatistics]
