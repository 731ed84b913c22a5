"""Fold per-channel scales and shifts into the convolution or normalization before them."""

from __future__ import annotations

import dataclasses

import numpy as np

from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.known import is_known
from glow_nb.hlir.ops import Add, BatchNormalization, Convolution, Div, Mul, Neg, Sub
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.recipe import folded
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

AFFINE: tuple[type[Node], ...] = (Add, BatchNormalization, Div, Mul, Neg, Sub)
"""What may be a scale and shift of its operand (:func:`affine_forms`)."""


@register_pass
def fold_batch_normalization(function: Function) -> Function:
    """Scale the filters and shift the bias of a convolution instead of its result.

    With ``a = scale / sqrt(variance + epsilon)``, in float64: ``filter'[k] = filter[k] * a[k]`` and
    ``bias' = (bias - mean) * a + shift``. The same for an Add, Sub, Mul or Div by a constant that
    varies along the channels only, which also folds into a batch normalization. Requires that
    nothing else reads the result in between and that the weights are constants.

    ::

        %c = convolution(%x, %w, %b)                       ->
        %n = batch_normalization(%c, %scale, %shift, ...)      %n = convolution(%x, %w', %b')
    """
    # Weights may be anything: an infinity or NaN is folded like any other number.
    with np.errstate(all="ignore"):
        return rewrite(function, _rule, *AFFINE)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if not any(_is_foldable(value, node, rewriter) for value in operands_of(node)):
        return None  # before numbers are looked at
    for value, scale, shift in affine_forms(node):
        if not _is_foldable(value, node, rewriter):
            continue
        if isinstance(value, Convolution):
            return _fold_into_convolution(value, scale, shift, rewriter)
        if isinstance(value, BatchNormalization):
            return _fold_into_normalization(value, scale, shift, rewriter)
    return None


def affine_forms(node: Node) -> list[tuple[Value, Array | float, Array | float]]:
    """Return ``(value, scale, shift)`` such that *node* is ``value * scale + shift``."""
    match node:
        case BatchNormalization(input=value) if node.channel_axis == value.type.rank - 1:
            operands = (node.scale, node.bias, node.mean, node.variance)
            if not all(map(is_known, operands)):
                return []
            scale, bias, mean, variance = (_wide(v) for v in operands)
            factor = scale / np.sqrt(variance + node.epsilon)
            return [(value, factor, bias - mean * factor)]
        case Add(lhs=value, rhs=Constant() as c) | Add(lhs=Constant() as c, rhs=value):
            return [(value, 1.0, v) for v in _per_channel(c)]
        case Sub(lhs=value, rhs=Constant() as c):
            return [(value, 1.0, -v) for v in _per_channel(c)]
        case Sub(lhs=Constant() as c, rhs=value):
            return [(value, -1.0, v) for v in _per_channel(c)]
        case Neg(input=value):
            return [(value, -1.0, 0.0)]
        case Mul(lhs=value, rhs=Constant() as c) | Mul(lhs=Constant() as c, rhs=value):
            return [(value, v, 0.0) for v in _per_channel(c)]
        case Div(lhs=value, rhs=Constant() as c):
            return [(value, 1.0 / v, 0.0) for v in _per_channel(c) if np.all(v != 0)]
    return []


def _wide(value: Value) -> Array:
    assert isinstance(value, Constant)
    return value.array.astype(np.float64)


def _per_channel(constant: Constant) -> list[Array]:
    """Return the constant as a vector over the last axis, if it varies along that axis alone."""
    if constant.payload is None or any(n != 1 for n in constant.type.shape[:-1]):
        return []
    return [constant.array.reshape(-1).astype(np.float64)]


def _is_foldable(value: Value, node: Node, rewriter: Rewriter) -> bool:
    match value:
        case Convolution(filter=first, bias=bias, wide=False):
            pass
        case BatchNormalization(scale=first, bias=bias) if not isinstance(node, BatchNormalization):
            if value.channel_axis != value.type.rank - 1:
                return False
        case _:
            return False
    constants = is_known(first) and is_known(bias)
    same = (
        value.type.kind.is_float and value.type == node.type and value.predicate is node.predicate
    )
    return constants and same and rewriter.use_count(value) == 1


def _fold_into_convolution(
    convolution: Convolution, scale: Array | float, shift: Array | float, rewriter: Rewriter
) -> Value:
    kind = convolution.type.kind
    filter, bias = convolution.filter, _wide(convolution.bias)
    depth, *rest = filter.type.shape
    scale, shift = np.broadcast_to(scale, (depth,)), np.broadcast_to(shift, (depth,))
    factors = scale.astype(kind.dtype).reshape(depth, *(1 for _ in rest))
    scaled = Mul(filter, Constant.of("factors", factors))
    return rewriter.emit(
        dataclasses.replace(
            convolution,
            filter=folded(scaled, rewriter.unique_name(folded_name(filter))),
            bias=rewriter.constant(
                folded_name(convolution.bias), (bias * scale + shift).astype(kind.dtype)
            ),
        )
    )


def _fold_into_normalization(
    normalization: BatchNormalization,
    scale: Array | float,
    shift: Array | float,
    rewriter: Rewriter,
) -> Value:
    dtype = normalization.type.kind.dtype
    old_scale, old_bias = _wide(normalization.scale), _wide(normalization.bias)
    return rewriter.emit(
        dataclasses.replace(
            normalization,
            scale=rewriter.constant(
                folded_name(normalization.scale), (old_scale * scale).astype(dtype)
            ),
            bias=rewriter.constant(
                folded_name(normalization.bias), (old_bias * scale + shift).astype(dtype)
            ),
        )
    )


def folded_name(constant: Value) -> str:
    """Return the name for what *constant* becomes when something is folded into it."""
    return constant.name.removesuffix("_folded") + "_folded"
