"""Polynomials and limits of their arguments, for the elementary functions."""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.simd.lanes import Lanes


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's rule, the coefficient of the highest power first."""
    result = x.full(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result.multiply_add(x, coefficient)
    return result


def below(x: Lanes, high: float) -> Lanes:
    """Limit *x* from above; NaN stays."""
    return (x > high).select(high, x)


def between(x: Lanes, low: float, high: float) -> Lanes:
    """Limit *x*; NaN stays."""
    return below((x < low).select(low, x), high)
