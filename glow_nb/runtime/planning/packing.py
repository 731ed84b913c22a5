"""Plans that run side by side where memory is short: the best ways found, fork by fork.

A state says where the stem runs, where it began, and what room is left on each device. At each stop
all states go on in all ways, and those stay that look best: by the time up to here, and what is
left for the room that is left (:mod:`glow_nb.runtime.planning.outlook`). That is a beam search.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from heapq import heappop, heappush
from itertools import permutations
from typing import NamedTuple, TypeAlias

import numpy as np

from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.outlook import End, Outlook
from glow_nb.runtime.planning.spread import Placed
from glow_nb.runtime.planning.stretches import Floats, Stretches, Traffic
from glow_nb.runtime.planning.ways import STEM, Split, Stop, Taken, Ways

MOST_STATES, FEWEST_STATES, ALL_STATES = 60, 24, 2250
"""States that stay at a stop, between two bounds, and at all stops together. Where there are few
stops, they are those of large forks, and from each there are more ways to go on."""

GRAINS = 256
"""How many amounts of room are told apart on the largest device."""

MOST_WORSE = 1.08
"""How much later a request may end from a state than from the best one at the stop before."""

MOST_OPEN = 4
"""Devices that are looked at: that of the stem, and those with most room."""

Packed = tuple[int, int, int]
"""A part: the cuts before and behind it, and the number of its device."""

Chain: TypeAlias = "tuple[Packed, Chain | None]"
"""Parts, the last one first."""


class Branch(NamedTuple):
    """What a branch takes on some device: memory, and time, with what comes from the stem."""

    size_bytes: float
    seconds: float


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


class Option(NamedTuple):
    """A way in which a state may go on.

    Attributes:
        end: When a request may end then, at best.
        follow: Returns how it goes on in detail.
    """

    end: float
    follow: Callable[[], Iterable[Option | State]]


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
        self._most_states = states_at_each_of(len(ways.stops))
        self._kind = fleet.kind_of_device
        self._memory, self._seconds = memory, seconds
        devices = fleet.devices
        self._links = [[one.link_to(other.name) for other in devices] for one in devices]
        self._rooms = tuple(float(fleet.kinds[kind].memory_bytes) for kind in self._kind)
        self._grain = max(1.0, *self._rooms) / GRAINS
        self._branches: dict[tuple[int, int, Split], list[Branch]] = {}
        self._alikes: dict[Split, tuple[int, ...]] = {}
        self._leasts: dict[Split, Branch] = {}
        kept = stretches.kept_bytes[:, ways.end]
        self._kept_from: list[float] = kept.tolist()
        runs = np.min(memory, axis=0) - stretches.kept_bytes
        free = sum(self._rooms) - kept[0]
        least = np.min(seconds, axis=0)
        self._outlook = Outlook(ways, runs, least, stretches.taken, fleet.way_seconds, free)

    def best(self, reserve: float) -> Packing | None:
        """Return the best plan found; None if there is none.

        *reserve* is the share of the weights to come that is kept free beside them: where parts are
        large, some room stays empty.
        """
        self._branches.clear()  # the memory of parts may have been corrected
        self._alikes.clear()
        self._leasts.clear()
        kept = [size * (1 + reserve) for size in self._kept_from]
        states = [State(0.0, self._rooms, device, 0) for device in self._new_devices()]
        limit = np.inf
        for number, stop in enumerate(self._ways.stops, 1):
            end = self._outlook.ends(number, kept)
            options = [option for state in states for option in self._options(state, stop, end)]
            states = self._first_unlike(options, number, end, limit)
            limit = MOST_WORSE * min((self._end_of(one, end) for one in states), default=np.inf)
        whole = [self._ended(state, self._ways.end) for state in states]
        best = min((one for one in whole if one), key=lambda one: one.seconds, default=None)
        return None if best is None else Packing(best.seconds, _in_order(best))

    def _new_devices(self) -> list[int]:
        """Return the first device of each kind."""
        return [self._kind.index(kind) for kind in dict.fromkeys(self._kind)]

    @staticmethod
    def _end_of(state: State, end: End) -> float:
        return end(state.seconds, state.first, sum(state.room))

    def _has_room(self, state: State, stop: int) -> bool:
        """Return whether the stem of *state* finds room up to the *stop*."""
        stops = self._ways.stops
        here = stops[stop].cut if stop < len(stops) else self._ways.end
        needed = self._memory[self._kind[state.device]].item(state.first, here)
        return needed <= state.room[state.device]

    def _first_unlike(
        self, options: Iterable[Option | State], stop: int, end: End, limit: float
    ) -> list[State]:
        """Return the states from which a request ends first, of those that go on alike one.

        Among them are the *options*, and what these lead to. Later than at the *limit* none ends.
        """
        found: dict[object, State] = {}
        waiting: list[tuple[float, int, Option | State]] = []
        count = itertools.count()
        while True:
            for one in options:
                ends = one.end if isinstance(one, Option) else self._end_of(one, end)
                if ends <= limit and (isinstance(one, Option) or self._has_room(one, stop)):
                    heappush(waiting, (ends, next(count), one))
            if not waiting or len(found) == self._most_states or waiting[0][0] == np.inf:
                return list(found.values())
            *_, first = heappop(waiting)
            options = first.follow() if isinstance(first, Option) else ()
            if isinstance(first, State):
                found.setdefault(self._likeness(first), first)

    def _likeness(self, state: State) -> object:
        """Return what states have in common that go on alike, on devices that are alike."""
        rooms = [
            (kind, int(n / self._grain)) for kind, n in zip(self._kind, state.room, strict=True)
        ]
        others = sorted(pair for device, pair in enumerate(rooms) if device != state.device)
        return state.first, rooms[state.device], tuple(others)

    def _options(self, state: State, stop: Stop, end: End) -> Iterator[Option | State]:
        """Yield how *state* may go on: its stem does, or ends, or ends and branches follow."""
        yield state
        ended = self._ended(state, stop.cut)
        if ended and ended is not state:
            yield Option(self._end_of(ended, end), partial(self._moved, ended, stop))
        ended_at = {stop.cut: ended}
        for split in stop.splits:
            if split.before not in ended_at:  # many splits begin at one cut
                ended_at[split.before] = self._ended(state, split.before)
            ended = ended_at[split.before]
            if ended:
                size, seconds = self._least(split)
                ends = end(ended.seconds + seconds, split.behind, sum(ended.room) - size)
                yield Option(ends, partial(self._split, ended, split, end))

    def _least(self, split: Split) -> Branch:
        """Return what all branches of *split* take at least, side by side."""
        if split not in self._leasts:
            place = split.before, list(split.branches)
            sizes = np.min([table[place] for table in self._memory], axis=0)
            seconds = np.min([table[place] for table in self._seconds], axis=0)
            self._leasts[split] = Branch(float(sizes.sum()), float(seconds.max()))
        return self._leasts[split]

    def _moved(self, state: State, stop: Stop) -> list[State]:
        """Return *state* with its next stem, which begins at *stop*, on other devices."""
        others = self._open_devices(state)[1:]
        return [self._begun(state, device, stop.taken, ()) for device in others]

    def _ended(self, state: State, cut: int) -> State | None:
        """Return *state* behind its stem, which ends at *cut*; None if there is no room for it."""
        if state.first == cut:
            return state
        kind, device = self._kind[state.device], state.device
        left = state.room[device] - self._memory[kind].item(state.first, cut)
        if not left >= 0:
            return None
        room = (*state.room[:device], left, *state.room[device + 1 :])
        seconds = state.seconds + self._seconds[kind].item(state.first, cut)
        return State(seconds, room, device, cut, ((state.first, cut, device), state.packed))

    def _open_devices(self, state: State) -> list[int]:
        """Return the device of the stem, and others with most room, of those alike the first."""
        room = state.room
        others = sorted((d for d in range(len(room)) if d != state.device), key=lambda d: -room[d])
        unlike = {(self._kind[device], room[device]): device for device in reversed(others)}
        return [state.device, *list(unlike.values())[::-1][: MOST_OPEN - 1]]

    def _split(self, state: State, split: Split, end: End) -> Iterator[Option]:
        """Yield how *state* may go on with *split*: each branch has a device of its own."""
        open_devices, room = self._open_devices(state), sum(state.room)
        branches = {device: self._on(device, state.device, split) for device in open_devices}
        for places in _arrangements(self._alike(split), len(open_devices)):
            devices = [open_devices[place] for place in places]
            size = longest = 0.0
            for number, device in enumerate(devices):
                own, seconds = branches[device][number]
                if own > state.room[device]:
                    break
                size, longest = size + own, max(longest, seconds)
            else:
                ends = end(state.seconds + longest, split.behind, room - size)
                taken = [branches[device][number] for number, device in enumerate(devices)]
                yield Option(ends, partial(self._behind, state, split, devices, taken))

    def _alike(self, split: Split) -> tuple[int, ...]:
        """Return for each branch of *split* the first one that takes and gives the same."""
        if split not in self._alikes:
            place, taken = (split.before, list(split.branches)), self._stretches.taken
            tables = (*self._memory, *self._seconds, taken.count, taken.size_bytes)
            rows = zip(*(table[place].tolist() for table in tables), strict=True)
            made = ([s for n, s in split.taken if n == b] for b in range(len(split.branches)))
            keys = list(zip(rows, made, strict=True))
            self._alikes[split] = tuple(map(keys.index, keys))
        return self._alikes[split]

    def _on(self, device: int, stem: int, split: Split) -> list[Branch]:
        """Return the branches of *split* on *device*, behind a stem on another or the same one."""
        key = device, stem, split
        if key not in self._branches:
            kind, link = self._kind[device], self._links[stem][device]
            place = split.before, list(split.branches)
            seconds = self._seconds[kind][place]
            if device != stem:
                taken = self._stretches.taken
                seconds = seconds + Traffic(taken.count[place], taken.size_bytes[place]).seconds(
                    link
                )
            sizes = self._memory[kind][place]
            self._branches[key] = list(map(Branch, sizes.tolist(), seconds.tolist()))
        return self._branches[key]

    def _behind(
        self, state: State, split: Split, devices: Sequence[int], taken: Sequence[Branch]
    ) -> Iterator[State]:
        """Yield *state* with a stem behind the branches of *split*, *taken* to *devices*."""
        room, packed, longest = list(state.room), state.packed, 0.0
        for last, device, branch in zip(split.branches, devices, taken, strict=True):
            room[device] -= branch.size_bytes
            packed, longest = ((split.before, last, device), packed), max(longest, branch.seconds)
        after = State(state.seconds + longest, tuple(room), state.device, split.behind, packed)
        alike = self._alike(split)
        heaviest = [
            d for d, one in zip(devices, alike, strict=True) if one == alike[split.heaviest]
        ]
        near = (state.device, *heaviest, *self._open_devices(state)[1:2])
        for device in dict.fromkeys(near):
            yield self._begun(after, device, split.taken, devices)

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


def states_at_each_of(stops: int) -> int:
    """Return how many states stay at each of so many *stops*."""
    return max(FEWEST_STATES, min(MOST_STATES, ALL_STATES // stops))


@cache
def _arrangements(alike: tuple[int, ...], places: int) -> list[tuple[int, ...]]:
    """Return how each branch gets a place of its own; those that are *alike* in one order."""
    found: dict[object, tuple[int, ...]] = {}
    for chosen in permutations(range(places), len(alike)):
        found.setdefault(tuple(sorted(zip(chosen, alike, strict=True))), chosen)
    return list(found.values())


def _in_order(state: State) -> tuple[Packed, ...]:
    """Return the parts of *state* in the order in which they begin."""
    found: list[Packed] = []
    packed = state.packed
    while packed:
        part, packed = packed
        found.append(part)
    return tuple(reversed(found))
