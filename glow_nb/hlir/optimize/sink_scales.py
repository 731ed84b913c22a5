"""Multiply the result of a product by a number instead of its operands."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import uniform
from glow_nb.hlir.ops import Broadcast, Div, MatMul, Mul, Requantize, Reshape, Transpose
from glow_nb.hlir.ops.families import NARROW_FLOATS, splat
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

SMALLEST, GREATEST = 2.0**-32, 2.0**32
"""Numbers between these make an overflow or underflow neither likelier nor less likely."""


@register_pass
def sink_scales(function: Function) -> Function:
    """Move numbers that scale an operand of a product after the product, and merge two factors.

    There the scale is fused into the product's kernel, whereas the scale of an operand, as in
    attention, is often a separate pass over memory. Reshapes, transposes and broadcasts may lie in
    between, if nothing else reads them. Only of float32 and float64: narrow kinds are scaled early
    so that the product does not overflow. The multiplier of a ``requantize`` keeps its two factors:
    another last bit of it would round sums near a half to another integer.

    ::

        %q = mul(%x, %eighth)        ->  %p = mat_mul(%x, %k)
        %y = mat_mul(%q, %k)             %y = mul(%p, %eighth)
    """
    exact = _multipliers(function)
    return rewrite(function, lambda node, rewriter: _rule(node, rewriter, exact), MatMul, Mul, Div)


def _multipliers(function: Function) -> frozenset[str]:
    """Return the names of what computes the multipliers that sums of integers are rounded by."""
    found: set[str] = set()
    for node in function.nodes:
        if isinstance(node, Requantize):
            value = node.multiplier
            while isinstance(value, Reshape | Transpose | Broadcast):
                value = value.input
            found.add(value.name)
    return frozenset(found)


def _rule(node: Node, rewriter: Rewriter, exact: frozenset[str]) -> Replacement:
    kind = node.type.kind
    if node.predicate is not None or not kind.is_float or kind in NARROW_FLOATS:
        return None
    if isinstance(node, MatMul):
        return _sink(node, rewriter)
    if isinstance(node, Mul | Div) and node.name not in exact:
        return _merge(node, rewriter)
    return None


def scale_of(value: Value) -> tuple[float, Value] | None:
    """Return ``(c, x)`` if *value* is ``c * x`` or ``x / (1 / c)`` of a moderate number ``c``."""
    if not isinstance(value, Mul | Div) or value.predicate is not None:
        return None
    for x, other in ((value.lhs, value.rhs), (value.rhs, value.lhs)):
        number = uniform(other)
        if number is None or x.type != value.type or not SMALLEST <= abs(number) <= GREATEST:
            continue
        if isinstance(value, Mul):
            return float(number), x
        if x is value.lhs:
            return 1 / number, x
    return None


def _sink(node: MatMul, rewriter: Rewriter) -> Replacement:
    if node.lhs is node.rhs:
        return None
    scales = {name: without_scale(getattr(node, name), rewriter) for name in ("lhs", "rhs")}
    found = {name: scale for name, scale in scales.items() if scale is not None}
    if not found:
        return None
    total = 1.0
    changes: dict[str, Any] = {}
    for name, (number, value) in found.items():
        total *= number
        changes[name] = value
    product = rewriter.emit(dataclasses.replace(node, **changes))
    factor = splat(rewriter, node.type, total, f"{node.name}_scale")
    return rewriter.emit(Mul(product, factor))


def without_scale(value: Value, rewriter: Rewriter) -> tuple[float, Value] | None:
    """Return the number that scales *value* and what it is without; None if nothing does."""
    if rewriter.use_count(value) != 1:
        return None
    match value:
        case Reshape(predicate=None) | Transpose(predicate=None) | Broadcast(predicate=None):
            inner = without_scale(value.input, rewriter)
            if inner is None:
                return None
            return inner[0], rewriter.emit(dataclasses.replace(value, input=inner[1]))
    return scale_of(value)


def _merge(node: Mul | Div, rewriter: Rewriter) -> Replacement:
    """Make one factor of two, if the first product has no other reader."""
    outer = scale_of(node)
    if outer is None or rewriter.use_count(outer[1]) != 1:
        return None
    inner = scale_of(outer[1])
    if inner is None:
        return None
    number = outer[0] * inner[0]
    if not SMALLEST <= abs(number) <= GREATEST:
        return None
    factor = splat(rewriter, node.type, number, f"{node.name}_scale")
    return rewriter.emit(Mul(inner[1], factor))
