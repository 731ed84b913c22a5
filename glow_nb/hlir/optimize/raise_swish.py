"""Recognize a swish, smooth or piecewise, that an exporter has written out."""

from __future__ import annotations

import math
from typing import Any

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import tolerance_of, uniform
from glow_nb.hlir.ops import Add, Clip, Div, HardSigmoid, HardSwish, Mul, Sigmoid, Swish
from glow_nb.hlir.optimize.polynomials import factors_of, polynomial_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MAX_SLOPE = 2.0**16
"""Lines that are steeper are left as they are written."""


@register_pass
def raise_swish(function: Function) -> Function:
    """Replace ``x * sigmoid(a * x)`` by a Swish, ``clip(x + 3, 0, 6) / 6 * x`` by a HardSwish.

    Without the last factor it is a HardSigmoid; so is any line that is clipped to 0..m and divided
    by m. The factors may stand in any order. Nothing else may read the sigmoid or clip.

    ::

        %s = sigmoid(%x)             ->
        %y = mul(%x, %s)                 %y = swish(%x) {alpha = 1.0}
    """
    return rewrite(function, _rule, Mul, Div)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if not isinstance(node, Mul | Div) or node.predicate is not None:
        return None
    if not node.type.kind.is_float:
        return None
    scale, factors = factors_of(node, rewriter)
    if len(factors) == 1:
        return _hard_sigmoid(node, factors[0], scale, rewriter)
    if len(factors) != 2:
        return None
    for x, gate in (factors, factors[::-1]):
        if gate.type != node.type or x.type != node.type or rewriter.use_count(gate) != 1:
            continue
        if isinstance(gate, Sigmoid) and scale == 1:
            alpha = _slope(gate, x)
            return None if alpha is None else rewriter.emit(Swish(x, alpha=alpha))
        if _is_swish_gate(gate, x, scale):
            return rewriter.emit(HardSwish(x))
    return None


def _slope(gate: Sigmoid, x: Value) -> float | None:
    """Return ``a`` if the operand of *gate* is ``a * x``."""
    if gate.predicate is not None or gate.input.type != x.type:
        return None
    polynomial = polynomial_of(gate.input, x)
    if polynomial is None or set(polynomial) != {1} or abs(polynomial[1]) > MAX_SLOPE:
        return None
    return polynomial[1]


def _is_swish_gate(gate: Value, x: Value, scale: float) -> bool:
    """Return whether *gate* times *scale* is ``min(max(x / 6 + 1 / 2, 0), 1)``."""
    line = _line(gate, x, scale)
    if line is None:
        return False
    tolerance = 4 * tolerance_of(x.type.kind)
    return all(
        math.isclose(found, wanted, rel_tol=tolerance)
        for found, wanted in zip(line, (1 / 6, 0.5), strict=True)
    )


def _hard_sigmoid(node: Node, gate: Value, scale: float, rewriter: Rewriter) -> Replacement:
    if not isinstance(gate, Clip) or rewriter.use_count(gate) != 1:
        return None
    x = _variable(gate.input)
    line = None if x is None or x.type != node.type else _line(gate, x, scale)
    if x is None or line is None:
        return None
    return rewriter.emit(HardSigmoid(x, alpha=line[0], beta=line[1]))


def _line(gate: Value, x: Value, scale: float) -> tuple[float, float] | None:
    """Return ``(a, b)`` such that *gate* times *scale* is ``min(max(a * x + b, 0), 1)``."""
    match gate:
        case HardSigmoid(input=value, predicate=None) if value is x and scale == 1:
            return gate.alpha, gate.beta
        case Clip(input=value, predicate=None) if value.type == x.type:
            pass
        case _:
            return None
    low, high = gate.bounds
    is_unit = low == 0 and math.isclose(high * scale, 1, rel_tol=tolerance_of(x.type.kind))
    polynomial: Any = polynomial_of(value, x) if is_unit else None
    if polynomial is None or 1 not in polynomial or set(polynomial) - {0, 1}:
        return None
    slope, offset = polynomial[1] * scale, polynomial.get(0, 0.0) * scale
    return (slope, offset) if max(abs(slope), abs(offset)) <= MAX_SLOPE else None


def _variable(value: Value) -> Value | None:
    """Return ``x`` if *value* is ``x`` plus a number, or a multiple of it plus a number."""
    while isinstance(value, Add | Mul) and value.predicate is None:
        if uniform(value.rhs) is not None:
            value = value.lhs
        elif uniform(value.lhs) is not None:
            value = value.rhs
        else:
            break
    return value
