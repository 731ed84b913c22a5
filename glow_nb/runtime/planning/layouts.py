"""The ways in which the units between two meetings may run side by side.

A unit is ``BEFORE``, in the part with the first meeting; ``BEHIND``, in the part with the second
one; or in another part, on some device. Those other parts begin when the first part has ended, and
the second part begins when all of them have ended. So the units between and the second meeting add
to the seconds of a plan at least

- the units ``BEFORE`` and ``BEHIND`` and the second meeting, one after the other;
- and what one device does between, with each tensor that it takes in, or the longest path there,
  with the tensors that each unit on it takes in;
- and the tensors that the second part takes in from devices that are not its own.

A unit counts as on its fastest device, and a tensor as on the fastest way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from glow_nb.runtime.planning.stretches import Floats

BEFORE, BEHIND = -2, -1
"""Places in the parts with the meetings. Others are devices: 0 is that of the first meeting."""

MOST_DEVICES = 62
"""Devices beside each other: as many as the bits of an integer tell apart."""

MOST_CHOICES = 20_000
"""Choices of places that are looked at, between two meetings."""

ROUNDING = 1e-9
"""By which share of its time a layout must be faster, to be better."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Layout:
    """Where the units between two meetings run.

    Attributes:
        places: For each of them ``BEFORE``, ``BEHIND`` or the number of a device.
        seconds: How long they and the second meeting take, at least.
        size_bytes: What is input, output or working memory of parts because of them, at least.
        is_plain: Whether no device waits for another one in between.
    """

    places: tuple[int, ...]
    seconds: float
    size_bytes: float
    is_plain: bool


@dataclass(frozen=True)
class Crossing:
    """A value that is made by the first meeting or between.

    Attributes:
        producer: The unit between that makes it; None for the first meeting.
        readers: The units between that read it.
        is_read_last: Whether the second meeting reads it.
        is_read_behind: Whether that or any unit behind it does.
        size_bytes: Its size.
        own_bytes: What it takes in a part that has all who touch it, at least.
        seconds: How long it takes from one device to another, on the fastest way.
    """

    producer: int | None
    readers: tuple[int, ...]
    is_read_last: bool
    is_read_behind: bool
    size_bytes: int
    own_bytes: int
    seconds: float


@dataclass(frozen=True)
class Inner:
    """The units between two meetings, numbered from 0.

    Attributes:
        seconds: How long each of them takes on its fastest device.
        behind: How long the second meeting takes.
        scratch: The working memory of each of them.
        shared: Bytes that each of them both reads and writes in one place, or more.
        before: Which of them each one reads from.
        values: What they read, and what is read of them.
        devices: How many devices there are.
    """

    seconds: tuple[float, ...]
    behind: float
    scratch: tuple[float, ...]
    shared: tuple[float, ...]
    before: tuple[tuple[int, ...], ...]
    values: tuple[Crossing, ...]
    devices: int

    @property
    def total(self) -> float:
        """How long all of it takes, one after the other."""
        return sum(self.seconds) + self.behind


@dataclass(frozen=True)
class _Choices:
    """Places of the first units between, a column for each choice.

    Attributes:
        places: Of each unit, ``[unit, choice]``.
        serial: How long all units take that are ``BEFORE`` or ``BEHIND``.
        loads: What each device does, ``[device, choice]``.
        ends: When each unit is done, if it is on a device and nothing else keeps it waiting.
    """

    places: npt.NDArray[np.int8]
    serial: Floats
    loads: Floats
    ends: Floats

    @property
    def devices(self) -> npt.NDArray[np.int8]:
        """The devices up to the last one that some choice uses, as a column."""
        return np.arange(self.places.max(initial=0) + 1, dtype=np.int8)[:, None]

    def only(self, chosen: Flags) -> _Choices:
        """Return those that are *chosen*."""
        some = np.flatnonzero(chosen)
        return _Choices(
            self.places.take(some, axis=1),
            self.serial[some],
            self.loads.take(some, axis=1),
            self.ends.take(some, axis=1),
        )


def layouts_of(inner: Inner) -> list[Layout] | None:
    """Return the layouts that take less time than one after the other; None if too many may.

    They are those of which no other has as few seconds and bytes: that with fewer bytes first.
    Plain ones are looked for at first: there are few, and they spare most of the others.
    """
    if not inner.seconds:
        return []
    slowest = Layout((), inner.total, 0.0, is_plain=True)
    plain = _front(inner, [slowest], only_plain=True)
    found = None if plain is None else _front(inner, plain, only_plain=False)
    return None if found is None else [layout for layout in found if layout.places]


def _front(inner: Inner, known: list[Layout], *, only_plain: bool) -> list[Layout] | None:
    """Return the *known* layouts with better ones; None if there are too many choices."""
    devices = min(inner.devices, len(inner.seconds), MOST_DEVICES)
    choices = _Choices(
        np.zeros((0, 1), np.int8), np.zeros(1), np.zeros((devices, 1)), np.zeros((0, 1))
    )
    for unit in range(len(inner.seconds)):
        choices = _with_unit(inner, choices, unit, only_plain=only_plain)
        seconds = _seconds(inner, choices)
        is_fast = seconds < inner.total * (1 - ROUNDING)  # bytes take longer to count
        choices = choices.only(is_fast)
        choices = choices.only(~_is_known(seconds[is_fast], _bytes(inner, choices), known))
        if len(choices.serial) > MOST_CHOICES:
            return None
    seconds, sizes = _seconds(inner, choices), _bytes(inner, choices)
    order = np.lexsort((seconds, sizes))
    least = np.minimum.accumulate(seconds[order])
    order = order[np.flatnonzero(np.diff(least, prepend=np.inf))]  # faster than all with less
    found = [
        Layout(tuple(places), float(took), float(size), only_plain)
        for places, took, size in zip(
            choices.places[:, order].T.tolist(), seconds[order], sizes[order], strict=True
        )
    ]
    front: list[Layout] = []
    for layout in sorted([*known, *found], key=lambda layout: (layout.size_bytes, layout.seconds)):
        if not front or layout.seconds < front[-1].seconds * (1 - ROUNDING):
            front.append(layout)
    return front


def _with_unit(inner: Inner, choices: _Choices, unit: int, *, only_plain: bool) -> _Choices:
    """Return *choices* with *unit* at each place where it may be."""
    places = choices.places
    earlier = places[list(inner.before[unit])]
    opened = places.max(axis=0, initial=0)
    more = []
    for place in range(BEFORE, min(len(choices.loads), opened.max(initial=0) + 2)):
        if place == BEFORE:
            may = (earlier == BEFORE).all(axis=0)
        elif place == BEHIND:
            may = np.ones(len(opened), bool)
        else:
            may = (earlier != BEHIND).all(axis=0) & (place <= opened + 1)
            if only_plain:
                may &= ((earlier == BEFORE) | (earlier == place)).all(axis=0)
        more.append(_placed(inner, choices.only(may), unit, place))
    return _Choices(
        np.concatenate([some.places for some in more], axis=1),
        np.concatenate([some.serial for some in more]),
        np.concatenate([some.loads for some in more], axis=1),
        np.concatenate([some.ends for some in more], axis=1),
    )


def _is_known(seconds: Floats, sizes: Floats, known: Sequence[Layout]) -> Flags:
    """Return for which choices there is a layout as good; the *known* have ascending bytes."""
    place = np.searchsorted([layout.size_bytes for layout in known], sizes, side="right") - 1
    least = np.array([layout.seconds for layout in known])[place]
    found: Flags = seconds >= least * (1 - ROUNDING)
    return found


def _placed(inner: Inner, choices: _Choices, unit: int, place: int) -> _Choices:
    """Return *choices* with *unit* at *place*."""
    places, serial, loads = choices.places, choices.serial, choices.loads.copy()
    end = np.zeros(len(serial))
    if place < 0:
        serial = serial + inner.seconds[unit]
    else:
        for value in (value for value in inner.values if unit in value.readers):
            enters = _device(choices, value.producer) != place
            end += np.where(enters, value.seconds, 0.0)
            known = [places[r] == place for r in value.readers if r < unit]
            new = enters & ~np.any(known, axis=0) if known else enters
            loads[place] += np.where(new, value.seconds, 0.0)
        loads[place] += inner.seconds[unit]
        came = choices.ends[list(inner.before[unit])].max(axis=0, initial=0)
        end += came + inner.seconds[unit]
    row = np.full((1, len(serial)), place, np.int8)
    return _Choices(np.vstack([places, row]), serial, loads, np.vstack([choices.ends, end]))


def _device(choices: _Choices, producer: int | None) -> npt.NDArray[np.int8]:
    """Return where what *producer* makes is: on a device, or ``BEHIND``."""
    if producer is None:
        return np.zeros(len(choices.serial), np.int8)
    made = choices.places[producer]
    return np.where(made == BEFORE, np.int8(0), made)


def _seconds(inner: Inner, choices: _Choices) -> Floats:
    """Return how long *choices* take at least, whatever follows."""
    between = np.maximum(choices.loads.max(axis=0, initial=0), choices.ends.max(axis=0, initial=0))
    total: Floats = choices.serial + between + _taken_behind(inner, choices) + inner.behind
    return total


def _taken_behind(inner: Inner, choices: _Choices) -> Floats:
    """Return how long the part with the second meeting takes in what others have made.

    It is on the device that has most of it.
    """
    total = np.zeros(len(choices.serial))
    devices = choices.devices
    present: Floats = np.zeros((len(devices), len(total)))
    for value in _made(inner, choices):
        device = _device(choices, value.producer)
        is_taken = _is_read_behind(choices, value, value.is_read_last) & (device != BEHIND)
        taken = np.where(is_taken, value.seconds, 0.0)
        total += taken
        present += np.where(device == devices, taken, 0.0)
    least: Floats = total - present.max(axis=0, initial=0)
    return least


def _bytes(inner: Inner, choices: _Choices) -> Floats:
    """Return the bytes of what each part takes and gives, and of what its largest unit needs.

    A value is an output of the part that makes it, and an input of each part that reads it. One
    that a device makes and reads for itself alone is in memory while units there touch it: in the
    arena, or as an input and an output of several parts.
    """
    devices = choices.devices
    needs = np.array(inner.scratch[: len(choices.places)])[:, None] + _inside(inner, choices)
    total: Floats = np.zeros(len(choices.serial))
    for device in devices:
        total += np.where(choices.places == device, needs, 0.0).max(axis=0, initial=0)
    alone = np.where(choices.places < 0, 0, 1 << np.maximum(choices.places, 0).astype(np.int64))
    for value in _made(inner, choices):
        is_given = _is_read_behind(choices, value, value.is_read_behind)
        readers = np.bitwise_or.reduce(alone[_placed_readers(choices, value)], axis=0)
        if value.producer is not None:
            is_given &= choices.places[value.producer] != BEHIND
            readers &= ~alone[value.producer]
        count = is_given + np.bitwise_count(readers).astype(np.int64)
        total += value.size_bytes * (count + (count > 0))
    return total


def _inside(inner: Inner, choices: _Choices) -> Floats:
    """Return what each unit needs, at least, of values that its device makes for itself alone."""
    total: Floats = np.zeros(choices.places.shape)
    count = len(choices.places)
    for value in inner.values:
        if value.producer is None or max((value.producer, *value.readers)) >= count:
            continue
        place = choices.places[value.producer]
        alone = (_places(choices, value) == place).all(axis=0) & (not value.is_read_behind)
        total[[value.producer, *value.readers]] += np.where(alone, value.own_bytes, 0)
    needed: Floats = np.maximum(total - np.array(inner.shared[:count])[:, None], 0)
    return needed


def _made(inner: Inner, choices: _Choices) -> list[Crossing]:
    """Return the values that are made by units that have a place."""
    count = len(choices.places)
    return [value for value in inner.values if value.producer is None or value.producer < count]


def _places(choices: _Choices, value: Crossing) -> npt.NDArray[np.int8]:
    """Return where those readers of *value* are that have a place."""
    return choices.places[_placed_readers(choices, value)]


def _placed_readers(choices: _Choices, value: Crossing) -> list[int]:
    """Return the readers of *value* that have a place."""
    return [reader for reader in value.readers if reader < len(choices.places)]


def _is_read_behind(choices: _Choices, value: Crossing, is_read: bool) -> Flags:
    """Return whether the second meeting, if *is_read*, or a unit ``BEHIND`` reads *value*."""
    found: Flags = (_places(choices, value) == BEHIND).any(axis=0) | is_read
    return found
