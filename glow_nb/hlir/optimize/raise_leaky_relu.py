"""Recognize a leaky rectifier that an exporter has written out."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import LeakyRelu, Maximum, Mul
from glow_nb.hlir.optimize.uniform import uniform
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def raise_leaky_relu(function: Function) -> Function:
    """Make the maximum of a float and a fraction of it a leaky rectifier.

    The fraction must lie between 0 and 1, both excluded: with 0, infinity times 0 would be NaN.

    ::

        %m = mul(%x, %tenth)       ->
        %y = maximum(%x, %m)           %y = leaky_relu(%x) {alpha = 0.1}
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if not isinstance(node, Maximum) or node.predicate is not None:
        return None
    if not node.type.kind.is_float:
        return None
    for x, fraction in ((node.lhs, node.rhs), (node.rhs, node.lhs)):
        alpha = _fraction_of(fraction, x)
        if alpha is not None and x.type == node.type:
            return rewriter.emit(LeakyRelu(x, alpha=alpha))
    return None


def _fraction_of(value: Value, x: Value) -> float | None:
    """Return the number between 0 and 1 that *value* is *x* times; None if there is none."""
    if not isinstance(value, Mul) or value.predicate is not None:
        return None
    for factor, other in ((value.lhs, value.rhs), (value.rhs, value.lhs)):
        number = uniform(factor)
        if other is x and number is not None and 0 < number < 1:
            return float(number)
    return None
