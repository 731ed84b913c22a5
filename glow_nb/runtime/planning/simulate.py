"""A simulation: requests go through plans in virtual time, and no network is computed.

The rules are those of :mod:`glow_nb.runtime.planning.timing`, and of a host. Requests wait in the
order in which they come. The first of them goes to the duplicate of its network that has the fewest
to answer, as soon as one has less than its devices can take. A part that several duplicates have in
common runs on that of their devices which has least to do. A device takes what has become ready
first of the requests that came first, and does one thing after the other. A device that fails loses
what it was doing, and does it again when it is back. Devices that share a machine are slower while
others of it work.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

import numpy as np

from glow_nb.base.errors import OptionError
from glow_nb.runtime.hosting.hosted_device import DEPTH
from glow_nb.runtime.planning.copies import AWAY, Copies
from glow_nb.runtime.planning.partitioning import Partitioning
from glow_nb.runtime.planning.timing import TimedPart, timed_parts


@dataclass(frozen=True)
class Load:
    """The requests for one network.

    Attributes:
        duplicates: Plans that answer its requests; several may use one device. Parts with the same
            program and the same time are copies of one part, if their devices have no other part.
        arrivals: When each request comes, in seconds, ascending.
    """

    duplicates: tuple[Partitioning, ...]
    arrivals: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.duplicates or list(self.arrivals) != sorted(self.arrivals):
            raise OptionError("load: give a plan at least, and the times of requests in order")


@dataclass(frozen=True)
class Outage:
    """A device that does nothing for a while.

    Attributes:
        device: Its name.
        begin: When it fails.
        seconds: The length of the outage.
    """

    device: str
    begin: float
    seconds: float


@dataclass(frozen=True)
class Machine:
    """Devices that share the memory and the clock of one machine.

    Attributes:
        devices: Their names.
        slowdown: The factor by which everything takes longer while all of them work. Each idle one
            removes an equal share of the difference.
    """

    devices: tuple[str, ...]
    slowdown: float

    def __post_init__(self) -> None:
        if not self.slowdown >= 1:
            raise OptionError(f"machine: slowdown={self.slowdown}: give 1 or more")

    def pace(self, busy: int) -> float:
        """Return how many times longer everything takes while *busy* devices work."""
        others = max(1, len(self.devices) - 1)
        return 1 + (self.slowdown - 1) * (busy - 1) / others


@dataclass(frozen=True)
class Simulation:
    """The results of some simulated requests.

    Attributes:
        latencies: For each load the seconds of each request, from its arrival to its last result.
        seconds: When the last request was answered.
        busy: The time that each device worked.
        repeated: Runs of parts that were done again, since their device failed.
    """

    latencies: tuple[tuple[float, ...], ...]
    seconds: float
    busy: Mapping[str, float] = field(repr=False)
    repeated: int = 0

    @property
    def throughput(self) -> float:
        """Requests answered in a second, from the beginning to the last answer."""
        answered = sum(map(len, self.latencies))
        return answered / self.seconds if self.seconds else 0.0


def simulate(
    loads: Sequence[Load],
    *,
    slowdown: Mapping[str, float] | None = None,
    outages: Sequence[Outage] = (),
    machines: Sequence[Machine] = (),
) -> Simulation:
    """Return what comes of the requests of *loads*.

    Args:
        loads: Networks with their requests.
        slowdown: The factor by which everything takes longer on some devices, by name.
        outages: When devices fail; those of one device do not overlap.
        machines: Devices that share a machine; a device that is on none has one of its own.

    Raises:
        OptionError: A device that no plan knows is slow, fails or is on a machine, or it is on two.
    """
    known = {name for load in loads for plan in load.duplicates for name in plan.devices}
    shared = [name for machine in machines for name in machine.devices]
    for name in (*(slowdown or {}), *(outage.device for outage in outages), *shared):
        if name not in known:
            raise OptionError(f"simulation: no plan has a device {name!r}")
        if shared.count(name) > 1:
            raise OptionError(f"simulation: the device {name!r} is on several machines")
    return _World(loads, slowdown or {}, machines, known).run(outages)


@dataclass(eq=False)
class _Request:
    """One request: which parts are still to be done.

    Attributes:
        load: The number of its load.
        order: Its place among all requests.
        arrival: When it came.
        copy: The number of its duplicate.
        waits: For each part, how many of the parts that it needs are not done.
        left: The number of parts that are not done.
    """

    load: int
    order: int
    arrival: float
    copy: int
    waits: list[int]
    left: int


class _Action(Protocol):
    """An event at a point of time."""

    def __call__(self, now: float) -> None: ...


@dataclass(eq=False)
class _Device:
    """A device: what it does, and what waits for it.

    Attributes:
        machine: The machine of the device.
        ready: A heap of parts that could run, those of the earliest request first.
        running: The number of the part that runs, its request, and since when; None if none does.
        left: The time that this would still take from *seen* on if no other device worked.
        seen: When that was looked at.
        pace: The factor by which it takes longer since then.
        ends: Counts the ends that were foreseen: only the last one comes.
        is_up: Whether it is there.
        busy: The time that it worked.
    """

    machine: Machine
    ready: list[tuple[int, int, _Request]] = field(default_factory=list)
    running: tuple[int, _Request, float] | None = None
    left: float = 0.0
    seen: float = 0.0
    pace: float = 1.0
    ends: int = 0
    is_up: bool = True
    busy: float = 0.0


class _World:
    """The state of a simulation."""

    def __init__(
        self,
        loads: Sequence[Load],
        slowdown: Mapping[str, float],
        machines: Sequence[Machine],
        devices: set[str],
    ) -> None:
        self._loads, self._slowdown = loads, slowdown
        shared = {name: machine for machine in machines for name in machine.devices}
        self._devices = {n: _Device(shared.get(n) or Machine((n,), 1.0)) for n in devices}
        self._parts = [[timed_parts(plan) for plan in load.duplicates] for load in loads]
        self._followers = [[_followers(parts) for parts in copies] for copies in self._parts]
        every = (part for copies in self._parts for parts in copies for part in parts)
        self._copies = Copies(every, devices)
        self._open = [np.zeros(len(load.duplicates)) for load in loads]
        self._room = [
            np.array([DEPTH * max(1, len(parts)) for parts in copies]) for copies in self._parts
        ]
        self._waiting: list[deque[tuple[int, float]]] = [deque() for _ in loads]
        self._latencies: list[list[float]] = [[] for _ in loads]
        self._events: list[tuple[float, int, _Action]] = []
        self._numbers = count()
        self._end, self._repeated = 0.0, 0

    def run(self, outages: Sequence[Outage]) -> Simulation:
        """Let everything happen."""
        for outage in outages:
            self._at(outage.begin, partial(self._fail, outage))
        arrivals = sorted(
            (time, load) for load, of in enumerate(self._loads) for time in of.arrivals
        )
        for order, (time, load) in enumerate(arrivals):
            self._at(time, partial(self._arrive, load, order))
        while self._events:
            now, _, action = heapq.heappop(self._events)
            action(now)
        return Simulation(
            tuple(map(tuple, self._latencies)),
            self._end,
            {name: device.busy for name, device in sorted(self._devices.items())},
            self._repeated,
        )

    def _at(self, time: float, action: _Action) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), action))

    def _arrive(self, load: int, order: int, now: float) -> None:
        self._waiting[load].append((order, now))
        if len(self._waiting[load]) == 1:  # where others wait, there is no room
            self._admit(load, now)

    def _admit(self, load: int, now: float) -> None:
        """Let requests that wait begin, as long as a duplicate has room."""
        opened, room = self._open[load], self._room[load]
        while self._waiting[load]:
            copy = int((opened / room).argmin())
            if opened[copy] == room[copy]:
                return
            opened[copy] += 1
            self._start(load, copy, *self._waiting[load].popleft(), now)

    def _start(self, load: int, copy: int, order: int, arrival: float, now: float) -> None:
        parts = self._parts[load][copy]
        waits = [len(timed.needs) for timed in parts]
        request = _Request(load, order, arrival, copy, waits, len(parts))
        if not parts:
            self._answer(request, now)
        for number, missing in enumerate(waits):
            if not missing:
                self._queue(request, number, now)

    def _part(self, request: _Request, number: int) -> TimedPart:
        return self._parts[request.load][request.copy][number]

    def _queue(self, request: _Request, number: int, now: float) -> None:
        name = self._copies.device(self._part(request, number))
        self._copies.change(name, 1)
        heapq.heappush(self._devices[name].ready, (request.order, number, request))
        self._begin(name, now)

    def _begin(self, name: str, now: float) -> None:
        """Let a device begin what is ready, if it is free."""
        device = self._devices[name]
        if device.running or not device.ready or not device.is_up:
            return
        _, number, request = heapq.heappop(device.ready)
        device.running, device.seen = (number, request, now), now
        device.left = self._part(request, number).seconds * self._slowdown.get(name, 1.0)
        self._foresee(device.machine, now)

    def _foresee(self, machine: Machine, now: float) -> None:
        """Say anew when the devices of *machine* will have done what they do."""
        busy = {n: self._devices[n] for n in machine.devices if self._devices[n].running}
        for name, device in busy.items():
            device.left -= (now - device.seen) / device.pace
            device.seen, device.pace = now, machine.pace(len(busy))
            device.ends += 1
            self._at(now + device.left * device.pace, partial(self._finish, name, device.ends))

    def _stop(self, device: _Device, now: float) -> tuple[int, _Request]:
        """Let *device* do nothing; return what it was doing."""
        assert device.running is not None
        number, request, begun = device.running
        device.running, device.ends = None, device.ends + 1
        device.busy += now - begun
        self._foresee(device.machine, now)
        return number, request

    def _finish(self, name: str, end: int, now: float) -> None:
        device = self._devices[name]
        if device.ends != end:
            return  # it failed meanwhile, or another device began or ended
        number, request = self._stop(device, now)
        self._copies.change(name, -1)
        request.left -= 1
        if not request.left:
            self._answer(request, now)
        for follower in self._followers[request.load][request.copy][number]:
            request.waits[follower] -= 1
            if not request.waits[follower]:
                self._queue(request, follower, now)
        self._begin(name, now)

    def _answer(self, request: _Request, now: float) -> None:
        self._open[request.load][request.copy] -= 1
        self._latencies[request.load].append(now - request.arrival)
        self._end = max(self._end, now)
        self._admit(request.load, now)

    def _fail(self, outage: Outage, now: float) -> None:
        device = self._devices[outage.device]
        device.is_up = False
        self._copies.change(outage.device, AWAY)
        if device.running is not None:
            number, request = self._stop(device, now)
            heapq.heappush(device.ready, (request.order, number, request))
            self._repeated += 1
        self._at(now + outage.seconds, partial(self._come_back, outage.device))

    def _come_back(self, name: str, now: float) -> None:
        self._devices[name].is_up = True
        self._copies.change(name, -AWAY)
        self._begin(name, now)


def _followers(parts: Sequence[TimedPart]) -> list[list[int]]:
    """Return, for each part, the parts that need it."""
    number = {timed.part.name: index for index, timed in enumerate(parts)}
    found: list[list[int]] = [[] for _ in parts]
    for index, timed in enumerate(parts):
        for need in timed.needs:
            found[number[need]].append(index)
    return found
