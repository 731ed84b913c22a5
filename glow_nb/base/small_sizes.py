"""Comparisons that bounds leave open for small sizes alone, which are few enough to be tried."""

from __future__ import annotations

from typing import Any

from glow_nb.base.guards import RELATIONS, decided
from glow_nb.base.whole_numbers import bounds

TRIED = 16
"""Sizes from the least one that are tried."""


def decided_by_small(relation: str, difference: Any, symbol: Any) -> bool | None:
    """Return whether *difference*, a size of *symbol* alone, is in the *relation* to 0 or never is.

    So ``height + height%2 >= 2``: 1 is tried, and for larger sizes the bounds tell.
    """
    end = min(symbol.low + TRIED, symbol.high + 1)
    holds = RELATIONS[relation]
    answers = {holds(difference.at({symbol.name: n}), 0) for n in range(symbol.low, end)}
    if len(answers) > 1:
        return None
    (answer,) = answers
    if end > symbol.high:
        return answer
    larger = type(symbol)(symbol.name, end, end, symbol.high)
    rest = decided(relation, bounds(difference.with_symbols({symbol: larger})))
    return answer if rest is answer else None
