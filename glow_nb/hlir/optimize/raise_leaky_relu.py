"""Recognize a leaky rectifier that an exporter has written out."""

from __future__ import annotations

import math

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import is_uniform, uniform
from glow_nb.hlir.ops import (
    Greater,
    GreaterEqual,
    LeakyRelu,
    Less,
    LessEqual,
    Maximum,
    Mul,
    Relu,
    Select,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def raise_leaky_relu(function: Function) -> Function:
    """Make the maximum of a float and a fraction of it a leaky rectifier; a choice by sign, too.

    The fraction must lie between 0 and 1, both excluded: with 0, infinity times 0 would be NaN. A
    choice takes any multiple; one of ``x < 0`` between 0 and ``x`` is a plain rectifier.

    ::

        %m = mul(%x, %tenth)       ->
        %y = maximum(%x, %m)           %y = leaky_relu(%x) {alpha = 0.1}

        %c = greater(%x, %zero)    ->
        %y = select(%c, %x, %m)        %y = leaky_relu(%x) {alpha = 0.1}
    """
    return rewrite(function, _rule, Select, Maximum)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or not node.type.kind.is_float:
        return None
    if isinstance(node, Select):
        return _choice(node, rewriter)
    if not isinstance(node, Maximum):
        return None
    for x, fraction in ((node.lhs, node.rhs), (node.rhs, node.lhs)):
        alpha = _multiple_of(fraction, x)
        if alpha is not None and 0 < alpha < 1 and x.type == node.type:
            return rewriter.emit(LeakyRelu(x, alpha=alpha))
    return None


def _choice(node: Select, rewriter: Rewriter) -> Replacement:
    """``x if x > 0 else alpha * x``, or swapped; NaN takes the multiple, as in both."""
    found = _sign_test(node.condition)
    if found is None:
        return None
    x, is_positive = found
    kept, scaled = (node.lhs, node.rhs) if is_positive else (node.rhs, node.lhs)
    if kept is not x or x.type != node.type:
        return None
    alpha = _multiple_of(scaled, x)
    if alpha is not None:
        return rewriter.emit(LeakyRelu(x, alpha=alpha))
    # Where the test fails for NaN, the choice must be x itself.
    return rewriter.emit(Relu(x)) if is_uniform(scaled, 0) and not is_positive else None


def _sign_test(condition: Value) -> tuple[Value, bool] | None:
    """Return ``(x, true)`` if *condition* is ``x > 0``, ``(x, false)`` if it is ``x < 0``."""
    if not isinstance(condition, Greater | GreaterEqual | Less | LessEqual):
        return None
    if condition.predicate is not None:
        return None
    is_greater = isinstance(condition, Greater | GreaterEqual)
    if is_uniform(condition.rhs, 0):
        return condition.lhs, is_greater
    return (condition.rhs, not is_greater) if is_uniform(condition.lhs, 0) else None


def _multiple_of(value: Value, x: Value) -> float | None:
    """Return the finite number that *value* is *x* times; None if there is none."""
    if not isinstance(value, Mul) or value.predicate is not None:
        return None
    for factor, other in ((value.lhs, value.rhs), (value.rhs, value.lhs)):
        number = uniform(factor)
        if other is x and number is not None and math.isfinite(number):
            return float(number)
    return None
