"""Quotients of sizes that are rounded down, which are factors of sizes as symbols are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from glow_nb.base.override import override
from glow_nb.base.polynomial import bracketed
from glow_nb.base.whole_numbers import at, bounds, parts_of, symbols_in


@dataclass(frozen=True)
class Quotient:
    """A quotient rounded down, printed ``(height + 1)/2``."""

    numerator: int
    denominator: int

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Quotient, (self.numerator, self.denominator)

    @override
    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.numerator, self.denominator))

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest quotient; the denominator is positive."""
        (least, greatest), (small, large) = bounds(self.numerator), bounds(self.denominator)
        ends = [n // d for n in (least, greatest) for d in (small, large)]
        return min(ends), max(ends)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the quotient for *sizes* by the name of the symbol."""
        return at(self.numerator, sizes) // at(self.denominator, sizes)

    def with_symbols(self, symbols: Mapping[Any, Any]) -> int:
        """Return the quotient in other *symbols*, those that are given."""
        numerator, denominator = (
            n.with_symbols(symbols) if hasattr(n, "with_symbols") else n
            for n in (self.numerator, self.denominator)
        )
        quotient: int = numerator // denominator
        return quotient

    @cached_property
    def symbols(self) -> tuple[Any, ...]:
        """The symbols in it."""
        return symbols_in((self.numerator, self.denominator))

    @cached_property
    def parts(self) -> int:
        """The number of its terms and factors."""
        return 1 + parts_of(self.numerator, self.denominator)

    @override
    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        sides = (self.numerator, self.denominator)
        return "/".join(bracketed(getattr(side, "ir_text", str(side))) for side in sides)
