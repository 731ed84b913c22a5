"""From a good placement to the smallest: the sizes and the time limits of the exact search.

The first goal is the lower bound, which most networks meet. If the search does not get there, the
gap up to the best one known is divided again and again. Each size is tried with several
strategies, since one of them often walks straight to a solution that others miss by far: all have
a few nodes at first, then in further rounds twice as many (Luby's argument for restarts).
"""

from __future__ import annotations

from math import gcd

import numpy as np

from glow_nb.llir.placement_search import (
    Budget,
    Integers,
    Search,
    SearchOutcome,
    Sections,
    Strategy,
    lowest,
    most_troubled,
)


def by_fullest_section(sections: Sections) -> Integers:
    """The buffer of the fullest section first; of equal ones the largest area."""
    live = sections.live_bytes.tolist()
    fullest = np.array([max(live[first:stop]) for first, stop in sections.spans])
    return np.lexsort((-_lengths(sections) * sections.sizes, -fullest))


def by_size(sections: Sections) -> Integers:
    """Largest first; of equal ones the longest lived."""
    return np.lexsort((-_lengths(sections), -sections.sizes))


def by_length(sections: Sections) -> Integers:
    """Longest lived first; of equal ones the largest."""
    return np.lexsort((-sections.sizes, -_lengths(sections)))


def _lengths(sections: Sections) -> Integers:
    return sections.stop - sections.first


STRATEGIES = (
    Strategy(lowest, by_length),
    Strategy(most_troubled, by_fullest_section),
    Strategy(most_troubled, by_size),
)
"""Tried in turn. Each solves sets of the MiniMalloc benchmark that the others miss."""

NODES_PER_BUFFER = 2
"""Nodes of one strategy in the first round, for each buffer; a straight walk takes one or two."""


class Tightening:
    """The search for an ever smaller placement.

    Attributes:
        sections: The instance.
        offsets: The best placement found; None while there is none better than the one given.
        size: Its size.
        possible: No placement is smaller than this: proved.
    """

    def __init__(self, sections: Sections, size: int, possible: int, budget: Budget) -> None:
        """Begin from a placement of *size* bytes and a lower bound, *possible*."""
        self.sections = sections
        self.size = size
        self.possible = possible
        self.offsets: Integers | None = None
        self._budget = budget
        self._unit = gcd(*sections.sizes.tolist())  # every address that matters is a multiple

    def run(self, goal: int) -> None:
        """Search until the size is at most *goal* or proved the smallest, or nothing is left."""
        goal -= goal % self._unit
        limit = NODES_PER_BUFFER * self.sections.count
        while self.size > max(goal, self.possible) and not self._budget.is_spent:
            self._close(max(goal, self.possible), limit)
            limit *= 2

    def _close(self, capacity: int, limit: int) -> None:
        """Try *capacity*, then sizes between the largest that failed and the best one known."""
        failed = capacity - self._unit
        while capacity < self.size and not self._budget.is_spent:
            if not self._try(capacity, limit):
                failed = capacity
            middle = (3 * failed + self.size) // 4
            capacity = max(failed + self._unit, middle - middle % self._unit)

    def _try(self, capacity: int, limit: int) -> bool:
        """Ask every strategy for a placement in *capacity* bytes; return True if one finds it."""
        for strategy in STRATEGIES:
            result = Search(self.sections, capacity, strategy).run(self._budget, limit)
            if result is SearchOutcome.IMPOSSIBLE:
                self.possible = max(self.possible, capacity + self._unit)
                return False
            if not isinstance(result, SearchOutcome):
                self.offsets = result
                self.size = int((result + self.sections.sizes).max())
                return True
        return False
