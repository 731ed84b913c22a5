"""The best plan in which each device has at most one part: a dynamic program over cuts.

A state of the search is how many devices of each kind have a part, and the kind of the last one;
for each cut it knows the best value of what comes before. For a chain that is the classic dynamic
program; over all cuts of a graph it is that of Tarnawski and others (Efficient Algorithms for
Device Placement of DNN Graph Operators, 2020). It is exact, unless there are so many kinds that
their devices are taken in one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from glow_nb.runtime.planning.candidate_parts import Floats

MOST_WORK = 3_000_000_000
"""The most pairs of cuts, over all states, that the exact search looks at: some seconds of work."""

Combine = Callable[[Floats, Floats], Floats]
"""How the value of a plan follows from those of its parts: ``np.add`` or ``np.maximum``."""

SearchState = tuple[tuple[int, ...], int]
"""How many devices of each kind have a part, and the kind of the last one."""

Came = dict[SearchState, tuple[npt.NDArray[np.intp], list[int]]]
"""Where the last part begins for each cut after it, and the kind of the device before it."""


@dataclass(frozen=True)
class Stage:
    """A part: between which cuts, and on a device of which kind."""

    first: int
    last: int
    kind: int


@dataclass(frozen=True)
class Walk:
    """A plan in which each device has at most one part: a path through the cuts.

    Attributes:
        value: Its value, by the costs that the search was given.
        stages: The parts in order.
        is_exact: Whether no other path is better.
    """

    value: float
    stages: tuple[Stage, ...]
    is_exact: bool


def best_walk(
    costs: Sequence[Sequence[Floats]], counts: Sequence[int], combine: Combine
) -> Walk | None:
    """Return the best path; None if there is none.

    Args:
        costs: ``costs[before][kind][first cut, last cut]``: the value of a part on a device of one
            *kind* behind a part on a device of the kind *before*; infinite where no part may lie.
        counts: The number of devices of each kind.
        combine: The function that combines the values of parts to that of a plan.
    """
    pairs = costs[0][0].size
    states = prod(count + 1 for count in counts)
    if states * len(counts) ** 2 * pairs <= MOST_WORK:
        return _exact_walk(costs, counts, combine)
    return _walk_in_order(costs, counts, combine)


def _exact_walk(
    costs: Sequence[Sequence[Floats]], counts: Sequence[int], combine: Combine
) -> Walk | None:
    """Return the best path over all orders of the devices."""
    size, kinds = len(costs[0][0]), range(len(counts))
    start = np.full(size, np.inf)
    start[0] = 0
    none = (0,) * len(counts)
    best: dict[SearchState, Floats] = {(none, kind): start for kind in kinds[:1]}
    came: Came = {}
    for used in sorted(product(*(range(count + 1) for count in counts)), key=sum):
        for kind in kinds:
            if not used[kind]:
                continue
            earlier = tuple(n - (k == kind) for k, n in enumerate(used))
            sources = [k for k in kinds if (earlier, k) in best]
            if not sources:
                continue
            options = [_through(best[earlier, k], costs[k][kind], combine) for k in sources]
            values = np.stack([value for value, _ in options])
            if not np.isfinite(values).any():
                continue
            chosen = values.argmin(axis=0)
            places = np.arange(size)
            best[used, kind] = values[chosen, places]
            firsts = np.stack([first for _, first in options])[chosen, places]
            came[used, kind] = (firsts, [sources[k] for k in chosen])
    ends = [key for key in best if np.isfinite(best[key][-1]) and any(key[0])]
    if not ends:
        return None
    end = min(ends, key=lambda key: (best[key][-1], sum(key[0])))
    return Walk(float(best[end][-1]), tuple(_traced(end, came, size - 1)), is_exact=True)


def _through(
    before: Floats, costs: Floats, combine: Combine
) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Return the best value after each cut, and the cut where the last part begins."""
    reached = np.flatnonzero(np.isfinite(before))
    values = combine(before[reached, None], costs[reached])
    first = values.argmin(axis=0)
    return values[first, np.arange(values.shape[1])], reached[first]


def _traced(
    key: SearchState,
    came: Came,
    cut: int,
) -> Sequence[Stage]:
    """Return the stages that led to *cut* in the state *key*."""
    stages: list[Stage] = []
    while key in came:
        used, kind = key
        firsts, kinds = came[key]
        first = int(firsts[cut])
        stages.append(Stage(first, cut, kind))
        earlier = tuple(n - (k == kind) for k, n in enumerate(used))
        key, cut = (earlier, kinds[cut]), first
    return stages[::-1]


def _walk_in_order(
    costs: Sequence[Sequence[Floats]], counts: Sequence[int], combine: Combine
) -> Walk | None:
    """Return the best path found for devices in orders of their kinds, each once or not at all."""
    found = [walk for order in _orders(counts) if (walk := _in_order(costs, order, combine))]
    return min(found, key=lambda walk: walk.value, default=None)


def _orders(counts: Sequence[int]) -> Iterator[list[int]]:
    """Yield orders of kinds: as given, from behind, and in turn."""
    given = [kind for kind, count in enumerate(counts) for _ in range(count)]
    yield given
    yield given[::-1]
    turns = [(turn / count, kind) for kind, count in enumerate(counts) for turn in range(count)]
    yield [kind for _, kind in sorted(turns)]


def _in_order(
    costs: Sequence[Sequence[Floats]], order: Sequence[int], combine: Combine
) -> Walk | None:
    """Return the best path for devices in *order*; before each stands one of its own kind."""
    size = len(costs[0][0])
    best = np.full(size, np.inf)
    best[0] = 0
    came: list[npt.NDArray[np.intp]] = []
    for kind in order:
        through, begins = _through(best, costs[kind][kind], combine)
        better = through < best
        came.append(np.where(better, begins, -1))
        best = np.where(better, through, best)
    if not np.isfinite(best[-1]):
        return None
    stages, cut = [], size - 1
    for kind, firsts in zip(reversed(order), reversed(came), strict=True):
        first = int(firsts[cut])
        if first >= 0:
            stages.append(Stage(first, cut, kind))
            cut = first
    return Walk(float(best[-1]), tuple(reversed(stages)), is_exact=False)
