"""Polynomials with whole coefficients in factors of any kind, which sizes are made of.

A polynomial is a dict of its coefficients by what they are multiplied with: a tuple of factors in
the order of their text, empty for the constant. No coefficient is 0.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeVar

from glow_nb.base.override import override

MOST_PARTS = 256
"""The most terms and factors of a size, those inside of quotients included; sizes of networks have
some ten, and the text of one doubles with each product of two."""

MOST_DIGITS = 99
"""The most digits of a coefficient."""


class Factor(Hashable, Protocol):
    """What a polynomial is made of: it has a text, which no other factor has."""

    @property
    def parts(self) -> int:
        """The number of its terms and factors."""

    @override
    def __str__(self) -> str:
        """Return its text."""


F = TypeVar("F", bound=Factor)
Terms = dict[tuple[F, ...], int]


def parts_of(terms: Terms[F]) -> int:
    """Return how many terms and factors *terms* are made of."""
    return sum(1 + sum(factor.parts for factor in factors) for factors in terms)


def is_simple(terms: Terms[F]) -> bool:
    """Return whether *terms* are no more, and no larger, than any network needs."""
    largest = 10**MOST_DIGITS
    return parts_of(terms) <= MOST_PARTS and all(-largest < n < largest for n in terms.values())


def total(terms: Terms[F], more: Terms[F], times: int = 1) -> Terms[F]:
    """Return the sum of *terms* and *more*, the latter multiplied by *times*."""
    found = dict(terms)
    for factors, coefficient in more.items():
        found[factors] = found.get(factors, 0) + coefficient * times
    return {factors: coefficient for factors, coefficient in found.items() if coefficient}


def product(terms: Terms[F], more: Terms[F]) -> Terms[F]:
    """Return the product of two polynomials."""
    found: Terms[F] = {}
    for factors, coefficient in terms.items():
        for others, times in more.items():
            both = tuple(sorted((*factors, *others), key=str)) if others else factors
            found[both] = found.get(both, 0) + coefficient * times
    return {factors: coefficient for factors, coefficient in found.items() if coefficient}


def divided(terms: Terms[F], divisor: Terms[F]) -> tuple[Terms[F], Terms[F]]:
    """Return a quotient and a rest: ``terms = quotient * divisor + rest``.

    What the leading term of the *divisor* divides without a rest is in the quotient.
    """
    lead, coefficient = max(divisor.items(), key=_degree)
    quotient: Terms[F] = {}
    rest = terms
    for _ in range(MOST_PARTS):
        found = (_step(term, lead, coefficient) for term in rest.items())
        step = next(filter(None, found), None)
        if step is None:
            break
        quotient, rest = total(quotient, step), total(rest, product(step, divisor), -1)
    return quotient, rest


def _step(term: tuple[tuple[F, ...], int], lead: tuple[F, ...], coefficient: int) -> Terms[F]:
    """Return how often ``coefficient * lead`` is in *term*, without a rest but for a number."""
    factors, times = term
    others = _without(factors, lead)
    if others is None or (lead and times % coefficient):
        return {}
    return {others: times // coefficient} if times // coefficient else {}


def _degree(term: tuple[tuple[F, ...], int]) -> tuple[int, tuple[str, ...]]:
    return len(term[0]), tuple(map(str, term[0]))


def _without(factors: tuple[F, ...], removed: tuple[F, ...]) -> tuple[F, ...] | None:
    """Return *factors* without those *removed*, None if it does not have them all."""
    left = list(factors)
    for factor in removed:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def text_of(terms: Terms[F]) -> str:
    """Return *terms* as they are written, those of the most factors first: ``2*n*m + n - 1``."""
    ordered = sorted(terms.items(), key=lambda term: (-len(term[0]), *map(str, term[0])))
    text = ""
    for factors, coefficient in ordered:
        sign = (" - " if coefficient < 0 else " + ") if text else "-" * (coefficient < 0)
        written = [str(abs(coefficient))] if abs(coefficient) != 1 or not factors else []
        # Python rounds a quotient after a sign in front of it, and not before.
        is_alone = len(written) + len(factors) == 1 and sign != "-"
        written += [str(factor) if is_alone else bracketed(str(factor)) for factor in factors]
        text += sign + "*".join(written)
    return text


def bracketed(text: str) -> str:
    """Return the *text* of a size as it stands in a product: in brackets if it is not one word."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"
