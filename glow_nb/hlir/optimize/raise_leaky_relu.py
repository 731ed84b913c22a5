"""Recognize a leaky rectifier that an exporter has written out."""

from __future__ import annotations

import math

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import uniform
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
from glow_nb.hlir.rewriting import (
    Rewrite,
    Rules,
    any_of,
    keeps_type,
    number,
    rewrite_once,
    wildcard,
    wildcards,
)


def _is_finite(value: Value) -> bool:
    found = uniform(value)
    return found is not None and math.isfinite(found)


(x,) = wildcards("x")
alpha = wildcard("alpha", _is_finite)


@register_pass
def raise_leaky_relu(function: Function) -> Function:
    """Replace the maximum of a float and a fraction of it, or a choice by sign, by a leaky ReLU.

    The fraction must lie between 0 and 1, both excluded: with 0, infinity times 0 would be NaN. A
    choice takes any multiple; one of ``x < 0`` between 0 and ``x`` is a plain rectifier.

    ::

        %m = mul(%x, %tenth)       ->
        %y = maximum(%x, %m)           %y = leaky_relu(%x) {alpha = 0.1}

        %c = greater(%x, %zero)    ->
        %y = select(%c, %x, %m)        %y = leaky_relu(%x) {alpha = 0.1}
    """
    return rewrite_once(function, _RULES)


def _leaky(node: Node, x: Value, alpha: Value) -> Node | None:
    if not node.type.kind.is_float or not keeps_type(node, x):
        return None
    slope = float(uniform(alpha))
    return None if isinstance(node, Maximum) and not 0 < slope < 1 else LeakyRelu(x, alpha=slope)


def _is_float(node: Node, x: Value) -> bool:
    return node.type.kind.is_float and keeps_type(node, x)


# NaN takes the multiple, as in a leaky rectifier; where a test fails for it, x itself.
_POSITIVE = (
    any_of(Greater, GreaterEqual, lhs=x, rhs=number(0)),
    any_of(Less, LessEqual, lhs=number(0), rhs=x),
)
_NEGATIVE = (
    any_of(Less, LessEqual, lhs=x, rhs=number(0)),
    any_of(Greater, GreaterEqual, lhs=number(0), rhs=x),
)
_RULES = Rules(
    "raise_leaky_relu",
    Rewrite(Maximum(x, Mul(x, alpha)), _leaky),
    *(Rewrite(Select(test, x, Mul(x, alpha)), _leaky) for test in _POSITIVE),
    *(Rewrite(Select(test, Mul(x, alpha), x), _leaky) for test in _NEGATIVE),
    *(Rewrite(Select(test, number(0), x), Relu(x), when=_is_float) for test in _NEGATIVE),
)
