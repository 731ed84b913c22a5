"""Arithmetic with numbers on one value, read as a polynomial, however it is written."""

from __future__ import annotations

import math
from collections.abc import Mapping

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.known import tolerance_of, uniform
from glow_nb.hlir.ops import Add, Div, Mul, Neg, Pow, Sub
from glow_nb.hlir.rewrite import Rewriter

Polynomial = dict[int, float]
"""Coefficients by degree; those that are 0 are left out."""

MAX_DEPTH = 8
MAX_DEGREE = 4


def polynomial_of(value: Value, variable: Value, depth: int = MAX_DEPTH) -> Polynomial | None:
    """Return the polynomial of *variable* that *value* computes, None if it is none."""
    if value is variable:
        return {1: 1.0}
    number = uniform(value)
    if number is not None:
        return {0: float(number)} if number else {}
    if depth == 0 or not isinstance(value, Node) or value.predicate is not None:
        return None
    match value:
        case Neg(input=x):
            return _product(polynomial_of(x, variable, depth - 1), {0: -1.0})
        case Pow(lhs=base, rhs=exponent):
            return _power(polynomial_of(base, variable, depth - 1), uniform(exponent))
        case Add(lhs=lhs, rhs=rhs) | Sub(lhs=lhs, rhs=rhs):
            p, q = (polynomial_of(v, variable, depth - 1) for v in (lhs, rhs))
            return _sum(p, q if isinstance(value, Add) else _product(q, {0: -1.0}))
        case Mul(lhs=lhs, rhs=rhs):
            p, q = (polynomial_of(v, variable, depth - 1) for v in (lhs, rhs))
            return _product(p, q)
        case Div(lhs=lhs, rhs=rhs):
            divisor = uniform(rhs)
            return _product(
                polynomial_of(lhs, variable, depth - 1), {0: 1 / divisor} if divisor else None
            )
    return None


def _sum(p: Polynomial | None, q: Polynomial | None) -> Polynomial | None:
    if p is None or q is None:
        return None
    return {degree: p.get(degree, 0.0) + q.get(degree, 0.0) for degree in {**p, **q}}


def _product(p: Polynomial | None, q: Polynomial | None) -> Polynomial | None:
    if p is None or q is None or max(p, default=0) + max(q, default=0) > MAX_DEGREE:
        return None
    product: Polynomial = {}
    for i, a in p.items():
        for j, b in q.items():
            product[i + j] = product.get(i + j, 0.0) + a * b
    return product


def _power(p: Polynomial | None, exponent: float | None) -> Polynomial | None:
    if exponent not in range(1, MAX_DEGREE + 1):
        return None
    result: Polynomial | None = {0: 1.0}
    for _ in range(int(exponent or 0)):
        result = _product(result, p)
    return result


def is_close(p: Polynomial | None, wanted: Mapping[int, float], kind: ElementKind) -> bool:
    """Return whether *p* has the *wanted* coefficients, as exactly as *kind* can hold them."""
    if p is None or set(p) != set(wanted):
        return False
    tolerance = 4 * tolerance_of(kind)
    return all(math.isclose(p[degree], wanted[degree], rel_tol=tolerance) for degree in p)


def factors_of(value: Value, rewriter: Rewriter) -> tuple[float, list[Value]]:
    """Return ``(c, values)`` such that *value* is ``c`` times the product of the values.

    Products and quotients that something else reads, too, count as one factor, but for *value*.
    """
    return _factors(value, rewriter, is_root=True)


def _factors(value: Value, rewriter: Rewriter, *, is_root: bool) -> tuple[float, list[Value]]:
    number = uniform(value)
    if number is not None:
        return float(number), []
    is_own = is_root or rewriter.use_count(value) == 1
    match value:
        case Mul(lhs=lhs, rhs=rhs, predicate=None) if is_own:
            c, left = _factors(lhs, rewriter, is_root=False)
            d, right = _factors(rhs, rewriter, is_root=False)
            return c * d, left + right
        case Div(lhs=lhs, rhs=rhs, predicate=None) if is_own and uniform(rhs):
            c, left = _factors(lhs, rewriter, is_root=False)
            return c / uniform(rhs), left
    return 1.0, [value]
