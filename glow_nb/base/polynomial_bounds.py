"""Bounds of polynomials in factors that have some, as sizes are (:mod:`glow_nb.base.size`)."""

from __future__ import annotations

from math import prod
from typing import Protocol, TypeVar

from glow_nb.base.polynomial import Factor, Terms, product, total

MOST_EXPANDED = 6
"""The most factors of a term whose product is written out."""


class Bounded(Factor, Protocol):
    """A factor that is never below and never above some numbers."""

    @property
    def bounds(self) -> tuple[int, int]:
        """The two numbers."""


F = TypeVar("F", bound=Bounded)


def bounds_of(terms: Terms[F]) -> tuple[int, int]:
    """Return numbers that the sum of *terms* is never below and never above."""
    least, greatest = 0, 0
    for factors, coefficient in terms.items():
        low, high = coefficient, coefficient
        for factor in factors:
            ends = [n * m for n in (low, high) for m in factor.bounds]
            low, high = min(ends), max(ends)
        least, greatest = least + low, greatest + high
    if 1 < max(map(len, terms)) <= MOST_EXPANDED:
        low, high = _bounds_above_least(terms)
        return max(least, low), min(greatest, high)
    return least, greatest


def _bounds_above_least(terms: Terms[F]) -> tuple[int, int]:
    """Return bounds of *terms* as a polynomial in what each factor is more than its least.

    So it is seen that ``n*m - m``, which is ``(n - 1)*m``, is never below 0.
    """
    above: Terms[F] = {}
    for factors, coefficient in terms.items():
        expanded: Terms[F] = {(): coefficient}
        for factor in factors:
            low, _ = factor.bounds
            expanded = product(expanded, {(factor,): 1} | ({(): low} if low else {}))
        above = total(above, expanded)
    least = greatest = above.pop((), 0)
    for factors, coefficient in above.items():
        most = coefficient * prod(high - low for low, high in (f.bounds for f in factors))
        least, greatest = least + min(most, 0), greatest + max(most, 0)
    return least, greatest
