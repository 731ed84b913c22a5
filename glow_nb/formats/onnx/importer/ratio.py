"""Floats that are computed of open sizes: exact quotients, on their way to a size again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

from glow_nb.base.size import Size, surely

_LARGEST_DENOMINATOR = 1 << 20
"""Of numbers of a model that sizes are multiplied with: floats have the product exactly, then."""


@dataclass(frozen=True)
class Ratio:
    """The quotient of two whole numbers, either of which may be an open size.

    Exporters convert a size to float, scale it, round it and convert it back. Sums and products of
    such floats are exact, as are their floor and ceiling, for all sizes below 2**24.

    Attributes:
        numerator: The number above.
        denominator: The number below, at least 1.
    """

    numerator: int
    denominator: int = 1

    @property
    def is_exact(self) -> bool:
        """Whether a float is this number, without rounding: it has few binary places."""
        below = self.denominator
        return not isinstance(below, Size) and not below & (below - 1)

    @property
    def floor(self) -> int:
        """The greatest whole number that is not above it."""
        return self.numerator // self.denominator

    @property
    def ceil(self) -> int:
        """The least whole number that is not below it."""
        return -(-self.numerator // self.denominator)

    @property
    def truncated(self) -> int | None:
        """It without its fraction; None if an open one may be negative."""
        if surely(self.numerator, ">=", 0):
            return self.floor
        return self.ceil if surely(self.numerator, "<=", 0) else None

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number for all sizes."""
        return self.floor * self.denominator == self.numerator

    def __float__(self) -> float:
        """Return the nearest float64; sizes must be known."""
        return self.numerator / self.denominator


Number = int | Ratio
"""An element of a tensor: whole, or of a tensor of floats a ratio."""


def as_ratio(number: Number) -> Ratio:
    """Return a *number* as a ratio."""
    return number if isinstance(number, Ratio) else Ratio(number)


def whole_numbers(numbers: Iterable[Number]) -> tuple[int, ...]:
    """Return the whole numbers that *numbers* are made of."""
    ratios = map(as_ratio, numbers)
    return tuple(n for each in ratios for n in (each.numerator, each.denominator))


def ratio_of(number: float) -> Ratio | None:
    """Return a *number* of a model as a ratio; None if it has many binary places."""
    if not isfinite(number):
        return None
    fraction = Fraction(number)
    known = Ratio(fraction.numerator, fraction.denominator)
    return known if fraction.denominator <= _LARGEST_DENOMINATOR else None


def divided(left: Ratio, right: Ratio) -> Ratio | None:
    """Return the quotient, which a float has rounded; None if it is not that of exact numbers."""
    above, below = left.numerator * right.denominator, left.denominator * right.numerator
    if surely(below, "<", 0):
        above, below = -above, -below
    return Ratio(above, below) if _are_exact(left, right) and below > 0 else None


def added(left: Ratio, right: Ratio) -> Ratio | None:
    """Return the sum of exact numbers."""
    above = left.numerator * right.denominator + right.numerator * left.denominator
    return _exact(left, right, above)


def subtracted(left: Ratio, right: Ratio) -> Ratio | None:
    """Return the difference of exact numbers."""
    return added(left, Ratio(-right.numerator, right.denominator))


def multiplied(left: Ratio, right: Ratio) -> Ratio | None:
    """Return the product of exact numbers."""
    return _exact(left, right, left.numerator * right.numerator)


def compared(
    relation: Callable[[int, int], bool],
) -> Callable[[Ratio, Ratio], bool | None]:
    """Return the function that says whether the *relation* holds between exact numbers."""

    def compare(left: Ratio, right: Ratio) -> bool | None:
        above, other = left.numerator * right.denominator, right.numerator * left.denominator
        return relation(above, other) if _are_exact(left, right) else None

    return compare


def _are_exact(left: Ratio, right: Ratio) -> bool:
    return left.is_exact and right.is_exact


def _exact(left: Ratio, right: Ratio, numerator: int) -> Ratio | None:
    found = Ratio(numerator, left.denominator * right.denominator)
    return found if _are_exact(left, right) else None
