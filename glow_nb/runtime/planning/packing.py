"""Plans that run side by side where memory is short: the best ways found, fork by fork.

A state says where the stem runs, where it began, and what room is left on each device. At each stop
all states go on in all ways, and those stay that look best: by the time up to here, and what is
left for the room that is left (:mod:`glow_nb.runtime.planning.outlook`). That is a beam search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.outlook import Outlook
from glow_nb.runtime.planning.spread import Placed
from glow_nb.runtime.planning.stretches import Floats, Stretches
from glow_nb.runtime.planning.ways import STEM, Split, Stop, Taken, Ways

MOST_STATES = 40
"""States that stay at a stop."""

MOST_WORSE = 1.08
"""How much later a request may end from a state than from the best one at the stop before."""

MOST_OPEN = 4
"""Devices that are looked at: that of the stem, and those with most room."""

Packed = tuple[int, int, int]
"""A part: the cuts before and behind it, and the number of its device."""

Chain: TypeAlias = "tuple[Packed, Chain | None]"
"""Parts, the last one first."""


class State(NamedTuple):
    """How far a plan has come.

    Attributes:
        seconds: When the stem begins.
        room: Bytes that are left on each device, without the stem.
        device: The device of the stem.
        first: The number of the cut where it begins.
        packed: The parts before it.
    """

    seconds: float
    room: tuple[float, ...]
    device: int
    first: int
    packed: Chain | None = None


@dataclass(frozen=True)
class Packing:
    """A plan.

    Attributes:
        seconds: How long a request takes, estimated: a value that passes a meeting is taken to come
            from the device of the last stem.
        parts: The parts in order.
    """

    seconds: float
    parts: tuple[Packed, ...]

    def placed(self, stretches: Stretches) -> list[Placed]:
        """Return the parts with their units."""
        return [
            Placed(tuple(stretches.members(first, last)), device)
            for first, last, device in self.parts
        ]


class Packer:
    """Looks for a plan of the ways through a network on the devices of a fleet."""

    def __init__(
        self,
        fleet: Fleet,
        ways: Ways,
        stretches: Stretches,
        memory: Sequence[Floats],
        seconds: Sequence[Floats],
    ) -> None:
        """Prepare to pack parts; *memory* and *seconds* are theirs on a device of each kind.

        The memory of a part may be corrected later.
        """
        self._ways, self._stretches = ways, stretches
        self._kind = fleet.kind_of_device
        self._memory, self._seconds = memory, seconds
        devices = fleet.devices
        self._links = [[one.link_to(other.name) for other in devices] for one in devices]
        self._rooms = tuple(float(fleet.kinds[kind].memory_bytes) for kind in self._kind)
        self._kept = stretches.kept_bytes[:, ways.end]
        runs = np.min(memory, axis=0) - stretches.kept_bytes
        free = sum(self._rooms) - self._kept[0]
        least = np.min(seconds, axis=0)
        self._outlook = Outlook(ways, runs, least, stretches.taken, fleet.way_seconds, free)

    def best(self, reserve: float) -> Packing | None:
        """Return the best plan found; None if there is none.

        *reserve* is the share of the weights to come that is kept free beside them: where parts are
        large, some room stays empty.
        """
        states = [State(0.0, self._rooms, device, 0) for device in self._new_devices()]
        limit = np.inf
        for number, stop in enumerate(self._ways.stops, 1):

            def is_good(state: State, number: int = number, limit: float = limit) -> bool:
                return self._end(state, number, reserve) <= limit

            followers = [s for state in states for s in self._followers(state, stop, is_good)]
            followers = [one for one in followers if self._has_room(one, number)]
            ends = np.array([self._end(one, number, reserve) for one in followers])
            limit = MOST_WORSE * ends.min(initial=np.inf)
            states = self._unlike(followers, ends)
        whole = [self._ended(state, self._ways.end) for state in states]
        best = min((one for one in whole if one), key=lambda one: one.seconds, default=None)
        return None if best is None else Packing(best.seconds, _in_order(best))

    def _new_devices(self) -> list[int]:
        """Return the first device of each kind."""
        return [self._kind.index(kind) for kind in dict.fromkeys(self._kind)]

    def _end(self, state: State, stop: int, reserve: float) -> float:
        """Return when a request may end that is in *state* and goes on to the *stop*."""
        free = sum(state.room) - self._kept[state.first] * (1 + reserve)
        return state.seconds + self._outlook.seconds(state.first, stop, free)

    def _has_room(self, state: State, stop: int) -> bool:
        """Return whether the stem of *state* finds room up to the *stop*."""
        stops = self._ways.stops
        here = stops[stop].cut if stop < len(stops) else self._ways.end
        needed = self._memory[self._kind[state.device]][state.first, here]
        return bool(needed <= state.room[state.device])

    def _unlike(self, states: Sequence[State], ends: Floats) -> list[State]:
        """Return those of *states* with the earliest *ends*, of those that go on alike one."""
        found: dict[object, State] = {}
        for number in ends.argsort():
            if len(found) == MOST_STATES or not np.isfinite(ends[number]):
                break
            found.setdefault(self._likeness(states[number]), states[number])
        return list(found.values())

    def _likeness(self, state: State) -> object:
        """Return what states have in common that go on alike, on devices that are alike."""
        rooms = zip(self._kind, state.room, strict=True)
        others = sorted(pair for device, pair in enumerate(rooms) if device != state.device)
        own = self._kind[state.device], state.room[state.device]
        return state.first, own, tuple(others)

    def _followers(
        self, state: State, stop: Stop, is_good: Callable[[State], bool]
    ) -> Iterator[State]:
        """Yield *state*, whose stem goes on, and the good states in which it ends at *stop*."""
        yield state
        ended = self._ended(state, stop.cut)
        if ended and ended is not state and is_good(ended):
            for device in self._open_devices(ended)[1:]:
                yield self._begun(ended, device, stop.taken, ())
        for split in stop.splits:
            ended = self._ended(state, split.before)
            if ended:
                yield from self._split(ended, split, is_good)

    def _ended(self, state: State, cut: int) -> State | None:
        """Return *state* behind its stem, which ends at *cut*; None if there is no room for it."""
        if state.first == cut:
            return state
        kind, device = self._kind[state.device], state.device
        left = state.room[device] - self._memory[kind][state.first, cut]
        if not left >= 0:
            return None
        room = (*state.room[:device], left, *state.room[device + 1 :])
        seconds = state.seconds + self._seconds[kind][state.first, cut]
        return State(seconds, room, device, cut, ((state.first, cut, device), state.packed))

    def _open_devices(self, state: State) -> list[int]:
        """Return the device of the stem, and others with most room, of those alike the first."""
        room = state.room
        others = sorted((d for d in range(len(room)) if d != state.device), key=lambda d: -room[d])
        unlike = {(self._kind[device], room[device]): device for device in reversed(others)}
        return [state.device, *list(unlike.values())[::-1][: MOST_OPEN - 1]]

    def _split(
        self, state: State, split: Split, is_good: Callable[[State], bool]
    ) -> Iterator[State]:
        """Yield *state* behind *split*, each branch of which has a device of its own."""
        open_devices = self._open_devices(state)
        for devices in permutations(open_devices, len(split.branches)):
            after = self._with_branches(state, split, devices)
            if after and is_good(after):
                near = (state.device, devices[split.heaviest], *open_devices[1:2])
                for device in dict.fromkeys(near):
                    yield self._begun(after, device, split.taken, devices)

    def _with_branches(self, state: State, split: Split, devices: Sequence[int]) -> State | None:
        """Return *state* behind the branches of *split*; None if there is no room for one."""
        taken, first = self._stretches.taken, split.before
        room, packed, longest = list(state.room), state.packed, 0.0
        for last, device in zip(split.branches, devices, strict=True):
            kind = self._kind[device]
            room[device] -= self._memory[kind].item(first, last)
            if not room[device] >= 0:
                return None
            seconds = self._seconds[kind].item(first, last)
            if device != state.device:
                link = self._links[state.device][device]
                seconds += taken.count.item(first, last) * link.latency_seconds
                seconds += taken.size_bytes.item(first, last) / link.bytes_per_second
            packed, longest = ((first, last, device), packed), max(longest, seconds)
        return State(state.seconds + longest, tuple(room), state.device, split.behind, packed)

    def _begun(
        self, state: State, device: int, taken: Sequence[Taken], devices: Sequence[int]
    ) -> State:
        """Return *state* with a stem on *device*, which takes in what the last parts have made.

        Branches were on *devices*.
        """
        seconds = state.seconds
        for branch, size in taken:
            source = state.device if branch == STEM else devices[branch]
            if source != device:
                seconds += self._links[source][device].seconds(size)
        return State(seconds, state.room, device, state.first, state.packed)


def _in_order(state: State) -> tuple[Packed, ...]:
    """Return the parts of *state* in the order in which they begin."""
    found: list[Packed] = []
    packed = state.packed
    while packed:
        part, packed = packed
        found.append(part)
    return tuple(reversed(found))
