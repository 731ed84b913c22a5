"""Merge what bounds its operand: Relu, Clip, and a maximum or minimum with one number."""

from __future__ import annotations

import math
from typing import Any

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import uniform
from glow_nb.hlir.ops import Clip, Maximum, Minimum, Relu
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.hlir.optimize.ranges import Range, range_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MAX_EXACT_INTEGER = 2**53
"""A bound beyond is not exact as the float that a Clip holds."""


@register_pass
def merge_clips(function: Function) -> Function:
    """Merge a chain of bounds into one Relu or Clip; drop bounds that the operand never exceeds.

    NaN passes through all of them. A range that is empty gives its upper end, as in ``Clip``.

    ::

        %a = relu(%x)                                  ->
        %b = clip(%a) {minimum = -1.0, maximum = 6.0}      %b = clip(%x) {minimum = 0.0, ...}
        %c = minimum(%b, %four)                            // with the bound 4.0
        %s = sigmoid(%c)
        %t = relu(%s)                                      // readers of %t read %s
    """
    return rewrite(function, _rule, Relu, Clip, Maximum, Minimum)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    form = _bounded(node)
    if form is None:
        return None
    value, (low, high) = form
    inner = _bounded(value)
    if inner is not None:
        value, inner_bounds = inner
        low, high = (_clamp(bound, low, high) for bound in inner_bounds)
    known_low, known_high = range_of(value)
    if known_low >= low and known_high <= high:
        return value
    if inner is None and isinstance(node, Relu | Clip) and not _is_relu(node, low, high):
        return None
    return _emit(value, low, high, rewriter)


def _bounded(value: Value) -> tuple[Value, Range] | None:
    """Return ``(x, (low, high))`` such that *value* is ``min(max(x, low), high)``, low <= high."""
    match value:
        case Relu(input=x, predicate=None):
            return x, (0.0, math.inf)
        case Clip(input=x, predicate=None):
            kind = x.type.kind
            low, high = _lower(value.bounds[0], kind), _upper(value.bounds[1], kind)
        case Maximum(predicate=None) | Minimum(predicate=None):
            found = _operand_and_bound(value)
            if found is None:
                return None
            x, bound = found
            is_lower = isinstance(value, Maximum)
            low = _lower(bound, x.type.kind) if is_lower else -math.inf
            high = math.inf if is_lower else _upper(bound, x.type.kind)
        case _:
            return None
    if not all(math.isinf(b) or abs(b) <= MAX_EXACT_INTEGER for b in (low, high)):
        return None
    if any(b == 0 and math.copysign(1.0, b) < 0 for b in (low, high)):
        return None  # 0.0 would do otherwise to zeros
    return x, (min(low, high), high)


def _operand_and_bound(node: Maximum | Minimum) -> tuple[Value, Any] | None:
    """Return the operand and the number it is compared with, None if there is no one number."""
    for value, constant in ((node.lhs, node.rhs), (node.rhs, node.lhs)):
        bound = uniform(constant)
        if bound is not None and value.type == node.type:
            return value, bound
    return None


def _lower(bound: Any, kind: ElementKind) -> float:
    """Return a lower *bound* as a float, -inf if it is the least of *kind*."""
    return -math.inf if bound <= bounds_of(kind)[0] else float(bound)


def _upper(bound: Any, kind: ElementKind) -> float:
    """Return an upper *bound* as a float, inf if it is the greatest of *kind*."""
    return math.inf if bound >= bounds_of(kind)[1] else float(bound)


def _clamp(number: float, low: float, high: float) -> float:
    return min(max(number, low), high)


def _is_relu(node: Relu | Clip, low: float, high: float) -> bool:
    """True for a Clip that a Relu says more plainly."""
    can_be_negative = node.type.kind in Relu.kinds
    return isinstance(node, Clip) and (low, high) == (0.0, math.inf) and can_be_negative


def _emit(value: Value, low: float, high: float, rewriter: Rewriter) -> Value:
    if (low, high) == (0.0, math.inf) and value.type.kind in Relu.kinds:
        return rewriter.emit(Relu(value))
    return rewriter.emit(Clip(value, minimum=low, maximum=high))
