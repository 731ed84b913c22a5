"""Comparisons that hold where something was made: two sides, numbers or sizes, and a relation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from glow_nb.base.override import override
from glow_nb.base.whole_numbers import at, symbols_in

Interval = tuple[float, float]
"""The least and the greatest number, infinite where there is none."""

RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
"""Each relation, and the one that holds where it does not."""

_INFINITE = float("inf")
_DIFFERENCES: dict[str, Interval] = {
    "<": (-_INFINITE, -1),
    "<=": (-_INFINITE, 0),
    ">": (1, _INFINITE),
    ">=": (0, _INFINITE),
    "==": (0, 0),
    "!=": (-_INFINITE, _INFINITE),
}


def _difference_where(relation: str, shift: int, sign: int) -> Interval:
    """Return where ``sign * (d + shift)`` lies if ``d <relation> 0``."""
    ends = [sign * (end + shift) for end in _DIFFERENCES[relation]]
    return min(ends), max(ends)


def decided(relation: str, interval: Interval) -> bool | None:
    """Return whether the *relation* to 0 holds for all of an *interval*, or for nothing of it."""
    least, greatest = interval
    holds = RELATIONS[relation]
    is_order = relation not in ("==", "!=")
    if not least <= 0 <= greatest or least == greatest:
        return holds(least, 0)
    return holds(least, 0) if is_order and holds(least, 0) == holds(greatest, 0) else None


@dataclass(frozen=True)
class Guard:
    """A comparison that was answered by hints: what is made of the answer holds where it holds.

    Attributes:
        left: The size on the left.
        relation: One of ``==``, ``!=``, ``<``, ``<=``, ``>`` and ``>=``.
        right: The size on the right.
    """

    left: int
    relation: str
    right: int

    @override
    def __str__(self) -> str:
        return f"{self.left!s} {self.relation} {self.right!s}"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Guard, (self.left, self.relation, self.right)

    @cached_property
    def symbols(self) -> tuple[Any, ...]:
        """The symbols of sizes in it."""
        return symbols_in((self.left, self.right))

    @cached_property
    def _difference(self) -> int:
        return self.left - self.right

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether it is so for *sizes* by the name of the symbol."""
        return RELATIONS[self.relation](at(self.left, sizes), at(self.right, sizes))

    def decides(self, relation: str, difference: int) -> bool | None:
        """Return whether ``difference <relation> 0`` where it holds; None if it does not say."""
        for sign in (1, -1):
            shift = difference * sign - self._difference
            if not isinstance(shift, int):
                continue
            if shift == 0 and self.relation == "!=" and relation in ("==", "!="):
                return relation == "!="
            return decided(relation, _difference_where(self.relation, shift, sign))
        return None
