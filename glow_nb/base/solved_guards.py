"""The consequences of guards for single symbols: equal sizes, and ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import gcd, prod

from glow_nb.base.quotient import Quotient
from glow_nb.base.size import Guard, Size, Symbol


def solved(left: int, right: int, symbols: Sequence[Symbol]) -> tuple[Symbol, int] | None:
    """Return a symbol, and what it must be for two sizes to be equal; None if nothing is found.

    Of several the last of *symbols*. It is a factor of one term only, with the coefficient 1 or -1.
    """
    difference = left - right
    if not isinstance(difference, Size):
        return None
    difference = _without_common_factors(difference)
    for symbol in reversed(symbols):
        sign = difference.terms.get((symbol,))
        if sign not in (1, -1):
            continue
        size = symbol.size - sign * difference
        if isinstance(size, Size):
            if symbol not in size.symbols:
                return symbol, size
        elif symbol.low <= size <= symbol.high:
            return symbol, size
    return None


def _without_common_factors(size: Size) -> Size:
    """Return *size* divided by what divides all of its terms, but for what may be 0."""
    first, *others = map(list, size.terms)
    common: list[Symbol | Quotient] = []
    for factor in first:
        if factor.bounds[0] > 0 and all(factor in each for each in others):
            common.append(factor)
            for each in others:
                each.remove(factor)
    quotient = size // (prod(Size({(factor,): 1}) for factor in common) * gcd(*size.terms.values()))
    return quotient if isinstance(quotient, Size) else size


def range_where(symbol: Symbol, guards: Iterable[Guard]) -> tuple[int, int]:
    """Return the least and the greatest size of *symbol* around its hint that *guards* allow.

    Those count that order sizes of this symbol alone, and hold on one side of a size.
    """
    low, high = symbol.bounds
    for guard in guards:
        if guard.symbols != (symbol,) or guard.relation in ("==", "!="):
            continue
        holds = partial(_holds, guard, symbol)
        low = max(low, _last(holds, symbol.hint, symbol.low))
        high = min(high, _last(holds, symbol.hint, symbol.high))
    return low, high


def _holds(guard: Guard, symbol: Symbol, size: int) -> bool:
    return guard.holds({symbol.name: size})


def _last(holds: Callable[[int], bool], begin: int, end: int) -> int:
    """Return the number nearest to *end* for which it *holds*, as it does for *begin*."""
    if holds(end):
        return end
    while abs(end - begin) > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if holds(middle) else (begin, middle)
    return begin
