"""Recognize a layer normalization that an exporter has written out."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import is_uniform, uniform
from glow_nb.hlir.ops import (
    Add,
    Div,
    LayerNormalization,
    Mul,
    Pow,
    ReduceMean,
    Reshape,
    Sqrt,
    Sub,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def raise_layer_normalization(function: Function) -> Function:
    """Make a difference from the mean, divided by the root of its mean square, a normalization.

    The means must be over the last axes. A product and a sum that follow become its scale and bias
    if they have the normalized axes' shape. What the lowering emits, a product with the reciprocal
    of the root, is left as it is.

    ::

        %d = sub(%x, %mean)               // reduce_mean(%x) {axes = [2], keep_dims = true}
        %v = add(%variance, %epsilon)     // reduce_mean(%d * %d) {axes = [2], keep_dims = true}
        %n = div(%d, %root)               // sqrt(%v)
        %m = mul(%n, %scale)              ->
        %y = add(%m, %bias)                   %y = layer_normalization(%x, %scale, %bias) {...}
    """
    return rewrite(function, _rule, Div, Mul, Add)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case Div(lhs=Sub() as centred, rhs=Sqrt(predicate=None) as root):
            return _raise(node, centred, root, rewriter)
        case (
            Mul(lhs=LayerNormalization() as inner, rhs=factor)
            | Mul(lhs=factor, rhs=LayerNormalization() as inner)
        ) if inner.bias is None and is_uniform(inner.scale, 1):
            return _absorb(node, inner, "scale", factor, rewriter)
        case (
            Add(lhs=LayerNormalization() as inner, rhs=summand)
            | Add(lhs=summand, rhs=LayerNormalization() as inner)
        ) if inner.bias is None:
            return _absorb(node, inner, "bias", summand, rewriter)
    return None


def _raise(node: Div, centred: Sub, root: Sqrt, rewriter: Rewriter) -> Replacement:
    form = _variance_and_epsilon(root.input)
    x = centred.lhs
    if form is None or centred.predicate is not None or centred.type != x.type:
        return None
    variance, epsilon = form
    axes = _mean_axes(centred.rhs, x)
    rank = x.type.rank
    if axes is None or axes != tuple(range(rank - len(axes), rank)):
        return None
    uses = _uses_in_square(variance, centred, axes)
    if uses is None or rewriter.use_count(centred) != uses + 1:
        return None
    ones = np.ones(x.type.shape[axes[0] :], x.type.kind.dtype)
    scale = rewriter.constant(f"{node.name}_scale", ones)
    return rewriter.emit(LayerNormalization(x, scale, None, axis=axes[0], epsilon=epsilon))


def _variance_and_epsilon(value: Value) -> tuple[Value, float] | None:
    match value:
        case (
            Add(lhs=ReduceMean() as variance, rhs=constant, predicate=None)
            | Add(lhs=constant, rhs=ReduceMean() as variance, predicate=None)
        ):
            epsilon = uniform(constant)
            is_plain = epsilon is not None and value.type == variance.type
            return (variance, float(epsilon)) if is_plain else None
    return None


def _mean_axes(value: Value, source: Value) -> tuple[int, ...] | None:
    """Return the axes, in order, over which *value* is the mean of *source*, all axes kept."""
    match value:
        case ReduceMean(input=x, axes=axes, keep_dims=True, predicate=None) if x is source and axes:
            return tuple(sorted(axes))
    return None


def _uses_in_square(variance: Value, centred: Value, axes: tuple[int, ...]) -> int | None:
    """Return how often *centred* is read in its mean square over *axes*; None if it is not that."""
    square: Any = getattr(variance, "input", None)
    if _mean_axes(variance, square) != axes:
        return None
    match square:
        case Mul(lhs=lhs, rhs=rhs, predicate=None) if lhs is centred and rhs is centred:
            return 2
        case Pow(lhs=lhs, rhs=two, predicate=None) if lhs is centred and is_uniform(two, 2):
            return 1
    return None


def _absorb(
    node: Node, inner: LayerNormalization, field: str, operand: Value, rewriter: Rewriter
) -> Replacement:
    shape = inner.scale.type.shape
    wanted = (1,) * inner.axis + shape
    is_own = rewriter.use_count(inner) == 1 and inner.predicate is None
    if not is_own or node.type != inner.type or operand.type.shape != wanted:
        return None
    vector = rewriter.emit(Reshape(operand, shape))
    changes: dict[str, Any] = {field: vector}
    return rewriter.emit(dataclasses.replace(inner, name=node.name, **changes))
