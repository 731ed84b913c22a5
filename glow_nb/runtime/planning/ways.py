"""The ways through a network, one fork after the other: as a whole, or split into branches.

A *stem* is a part that runs alone. At each fork it may go on, end so that another stem begins on
another device, or end so that branches run side by side and another stem begins behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from glow_nb.runtime.planning.cuts import Cut
from glow_nb.runtime.planning.forks import Fork
from glow_nb.runtime.planning.layouts import BEFORE, BEHIND, Layout
from glow_nb.runtime.planning.units import Units

STEM = -1
"""What makes a value that no branch makes."""

Taken = tuple[int, int]
"""What a stem takes in: the number of the branch that makes it, or ``STEM``, and its bytes."""


@dataclass(frozen=True, eq=False)
class Split:
    """A fork that runs side by side, by numbers of cuts.

    Attributes:
        before: Where the stem before it ends.
        branches: Where each branch ends, which begins there.
        behind: Where the next stem begins.
        taken: What that takes in.
    """

    before: int
    branches: tuple[int, ...]
    behind: int
    taken: tuple[Taken, ...]

    @cached_property
    def heaviest(self) -> int:
        """The branch that it takes in most of."""
        made = [0] * len(self.branches)
        for branch, size in self.taken:
            if branch != STEM:
                made[branch] += size
        return made.index(max(made))


@dataclass(frozen=True)
class Stop:
    """The place before a fork.

    Attributes:
        cut: The number of the cut there.
        taken: What a stem that begins there takes in.
        splits: How the fork may run side by side.
    """

    cut: int
    taken: tuple[Taken, ...]
    splits: tuple[Split, ...]


@dataclass(frozen=True)
class Ways:
    """All ways through a network.

    Attributes:
        cuts: Where parts begin and end.
        stops: The places before forks, in order; the first one is the begin of the network.
        end: The number of the cut behind all units.
    """

    cuts: tuple[Cut, ...]
    stops: tuple[Stop, ...]
    end: int


def ways_of(units: Units, forks: Sequence[Fork]) -> Ways:
    """Return the ways through *units*, whose *forks* run side by side by their layouts.

    Layouts in which a branch waits for another one are left out.
    """
    numbers: dict[Cut, int] = {0: 0}

    def number(cut: Cut) -> int:
        return numbers.setdefault(cut, len(numbers))

    stops = []
    for fork in forks:
        first = (1 << fork.between.start) - 1
        splits = []
        for layout in (layout for layout in fork.layouts if layout.is_plain):
            before, branches, behind = _cuts(fork, layout)
            taken = _taken(units, behind, [branch & ~before for branch in branches])
            ends = tuple(map(number, branches))
            splits.append(Split(number(before), ends, number(behind), taken))
        stops.append(Stop(number(first), _taken(units, first, []), tuple(splits)))
    end = number((1 << len(units.units)) - 1)
    return Ways(tuple(numbers), tuple(stops), end)


def _cuts(fork: Fork, layout: Layout) -> tuple[Cut, list[Cut], Cut]:
    """Return the cuts before all branches, behind each branch alone, and behind all of them."""
    places = dict(zip(fork.between, layout.places, strict=True))
    first = (1 << fork.between.start) - 1
    before = first | _bits(unit for unit, place in places.items() if place == BEFORE)
    devices = sorted({place for place in layout.places if place >= 0})
    branches = [before | _bits(u for u, place in places.items() if place == d) for d in devices]
    return before, branches, first | _bits(u for u, place in places.items() if place != BEHIND)


def _taken(units: Units, cut: Cut, branches: Sequence[Cut]) -> tuple[Taken, ...]:
    """Return what units behind *cut* read of those before it, some of which are *branches*."""
    found = []
    for value in units.values:
        maker = value.producer
        if maker is None or not cut >> maker & 1 or all(cut >> r & 1 for r in value.readers):
            continue
        made_in = (number for number, branch in enumerate(branches) if branch >> maker & 1)
        found.append((next(made_in, STEM), value.size_bytes))
    return tuple(found)


def _bits(units: Iterable[int]) -> int:
    return sum(1 << unit for unit in units)
