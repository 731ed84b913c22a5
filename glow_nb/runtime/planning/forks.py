"""Where paths fork and meet again, and how much time is won for how much memory.

A *meeting* is a unit that all others come before or behind; from one meeting to the next, there is
a *fork*. A part that has both meetings has all units between, since other parts would both wait for
it and be waited for: they run one after the other. If the meetings are in two parts, the units
between may run side by side (:mod:`glow_nb.runtime.planning.layouts`); a part that has no meeting
has units of one fork alone. So both the seconds of a plan and the bytes of its parts are at least
sums over all forks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from glow_nb.runtime.planning.layouts import Crossing, Inner, Layout, layouts_of
from glow_nb.runtime.planning.live import copiers_of
from glow_nb.runtime.planning.units import Unit, Units, Value


@dataclass(frozen=True)
class Fork:
    """What lies between two meetings.

    Attributes:
        between: The units between, without the meetings.
        last: The second meeting; None behind the last one.
        seconds: How long these units take one after the other; of a fork that has too many
            layouts, how long the longest path takes.
        layouts: In which other ways they take less time, that with the fewest bytes first; each
            takes less time than the one before.
    """

    between: range
    last: int | None
    seconds: float
    layouts: tuple[Layout, ...]


def forks_of(
    units: Units,
    least: Sequence[float],
    scratch: Sequence[float],
    devices: int,
    way: Callable[[int], float],
) -> list[Fork]:
    """Return the forks in order. There is one before the first meeting, and one behind the last.

    Args:
        units: What runs.
        least: How long each unit takes on its fastest device.
        scratch: The working memory of each unit, at least.
        devices: How many devices there are.
        way: How long so many bytes take on the fastest way between two devices.
    """
    before, made = units.before, units.made
    known: dict[Inner, list[Layout] | None] = {}
    forks = []
    for first, last in pairwise([None, *_meetings(units), None]):
        between = range(0 if first is None else first + 1, len(before) if last is None else last)
        view = _View(units, between, last, way)
        values = [] if first is None else [view.crossing(value, None) for value in made[first]]
        values += [view.crossing(value, unit) for unit in between for value in made[unit]]
        inner = Inner(
            seconds=tuple(least[unit] for unit in between),
            behind=0.0 if last is None else least[last],
            scratch=tuple(scratch[unit] for unit in between),
            shared=tuple(_shared(units.units[unit]) for unit in between),
            before=tuple(
                tuple(n - between.start for n in sorted(before[u]) if n in between) for u in between
            ),
            values=tuple(values),
            devices=devices,
        )
        if inner not in known:
            known[inner] = layouts_of(inner)
        seconds = _longest(inner) if known[inner] is None else inner.total
        forks.append(Fork(between, last, seconds, tuple(known[inner] or ())))
    return _with_what_follows(forks, units, scratch)


@dataclass(frozen=True)
class _View:
    """Values of *units* as they are seen from those *between* two meetings."""

    units: Units
    between: range
    last: int | None
    way: Callable[[int], float]

    def crossing(self, value: Value, unit: int | None) -> Crossing:
        """Return *value*, made by *unit*, or by the first meeting if that is None."""
        begin, end = self.between.start, self.between.stop
        is_elsewhere = value.buffer in self.units.aliased or copiers_of(self.units, value)
        return Crossing(
            producer=None if unit is None else unit - begin,
            readers=tuple(reader - begin for reader in value.readers if begin <= reader < end),
            is_read_last=self.last in value.readers,
            is_read_behind=any(reader >= end for reader in value.readers),
            size_bytes=value.size_bytes,
            own_bytes=0 if is_elsewhere else value.size_bytes,
            seconds=self.way(value.size_bytes),
        )


def _with_what_follows(forks: Sequence[Fork], units: Units, scratch: Sequence[float]) -> list[Fork]:
    """Return *forks* with layouts that count what the units need up to the next fork with layouts.

    If a fork runs side by side, parts begin behind it that have none of the units before it.
    """
    found: list[Fork] = []
    stop = len(units.units)
    for fork in reversed(forks):
        found.append(fork)
        if fork.layouts:
            needed = bytes_of_stretch(units, range(fork.between.stop, stop), scratch)
            layouts = (
                dataclasses.replace(x, size_bytes=x.size_bytes + needed) for x in fork.layouts
            )
            found[-1] = dataclasses.replace(fork, layouts=tuple(layouts))
            stop = fork.between.start
    return found[::-1]


def bytes_of_stretch(units: Units, stretch: range, scratch: Sequence[float]) -> float:
    """Return the bytes of a run that a part has at least, if it has any unit of the *stretch*.

    Values that come from the forks at both ends, or go there, are not counted.
    """
    needs = (_bytes_within(units, unit, stretch) + scratch[unit] for unit in stretch)
    return max(needs, default=0.0)


def _bytes_within(units: Units, unit: int, stretch: range) -> float:
    """Return what *unit* needs for values that units of the *stretch* make, and they alone read."""
    adjacent = [*units.made[unit], *units.read[unit]]
    total = sum(
        value.size_bytes
        for value in adjacent
        if value.producer in stretch
        and value.buffer not in units.aliased
        and all(n in stretch and not units.units[n].shared_bytes for n in value.readers)
    )
    one = units.units[unit]
    return max(0.0, one.inner_bytes + total - one.shared_bytes)


@dataclass(frozen=True)
class Step:
    """From one layout of a fork to a faster one.

    Attributes:
        fork: The number of the fork.
        layout: The faster one.
        seconds: What it saves.
        size_bytes: What it takes beside what the other one takes.
    """

    fork: int
    layout: Layout
    seconds: float
    size_bytes: float

    @property
    def rate(self) -> float:
        """Seconds that are saved for a byte."""
        return self.seconds / self.size_bytes if self.size_bytes else np.inf


def steps_of(forks: Sequence[Fork]) -> list[Step]:
    """Return the steps of all *forks*, those that save most for a byte first.

    The first ones that fit into some bytes, and a share of the next, save at least as much as any
    layouts that do, or any mixture of them: they are on the lower convex hull of each fork.
    """
    found = [step for number, fork in enumerate(forks) for step in _hull(number, fork)]
    return sorted(found, key=lambda step: -step.rate)


def _hull(number: int, fork: Fork) -> list[Step]:
    """Return the steps of one fork, each with a smaller rate than the one before."""
    steps: list[Step] = []
    seconds, size = fork.seconds, 0.0
    for layout in fork.layouts:
        step = Step(number, layout, seconds - layout.seconds, layout.size_bytes - size)
        seconds, size = layout.seconds, layout.size_bytes
        while steps and steps[-1].rate <= step.rate:
            less = steps.pop()
            step = Step(
                number, layout, step.seconds + less.seconds, step.size_bytes + less.size_bytes
            )
        steps.append(step)
    return steps


def _shared(unit: Unit) -> float:
    """Return what *unit* need not have in memory twice, or at once if it is several kernels."""
    return unit.shared_bytes if len(unit.instructions) == 1 else np.inf


def _longest(inner: Inner) -> float:
    """Return the seconds of the longest path, without transfers."""
    ends: list[float] = []
    for seconds, before in zip(inner.seconds, inner.before, strict=True):
        ends.append(seconds + max((ends[other] for other in before), default=0.0))
    return max(ends, default=0.0) + inner.behind


def _meetings(units: Units) -> list[int]:
    """Return the units that all others come before or behind, in order."""
    others = len(units.units) - 1
    related = (above | below for above, below in zip(units.above, units.below, strict=True))
    return [number for number, found in enumerate(related) if found.bit_count() == others]
