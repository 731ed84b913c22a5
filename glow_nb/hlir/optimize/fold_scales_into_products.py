"""Fold per-column scales and shifts into the weights of the dense layer before them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import FullyConnected, MatMul
from glow_nb.hlir.optimize.fold_batch_normalization import AFFINE, affine_forms, folded_name
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def fold_scales_into_products(function: Function) -> Function:
    """Scale the columns of constant weights, and shift the bias, instead of the result.

    For a batch normalization, or an Add, Sub, Mul or Div by a constant that varies along the
    columns only. ``weights' = weights * scale``, ``bias' = bias * scale + shift``, the bias in
    float64. A product of two matrices that is shifted becomes a fully connected layer; one of more
    dimensions takes a scale only. Nothing else may read the result in between, or the weights.

    ::

        %p = mat_mul(%x, %w)                                 ->
        %y = batch_normalization(%p, %scale, %shift, ...)        %y = fully_connected(%x, %w', %b')
    """
    # Weights may be anything: a negative variance gives NaN here as it does at run time.
    with np.errstate(all="ignore"):
        return rewrite(function, _rule, *AFFINE)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    for value, scale, shift in affine_forms(node):
        if not isinstance(value, MatMul | FullyConnected) or value.predicate is not None:
            continue
        is_own = rewriter.use_count(value) == 1 and value.type == node.type
        if is_own and value.type.kind.is_float:
            return _fold(value, scale, shift, rewriter)
    return None


def _fold(
    product: MatMul | FullyConnected, scale: Any, shift: Any, rewriter: Rewriter
) -> Replacement:
    lhs, rhs = product.factors
    weights = array_of(rhs)
    if weights is None or weights.ndim != 2 or rewriter.use_count(rhs) > 1:
        return None
    dtype, depth = weights.dtype, weights.shape[-1]
    old_bias = _bias(product)
    if old_bias is None:
        return None
    bias = np.broadcast_to(old_bias * scale + shift, (depth,)).astype(dtype)
    if np.all(np.asarray(scale) == 1):
        scaled = rhs
    else:
        factors = np.broadcast_to(scale, (depth,)).astype(dtype)
        scaled = rewriter.constant(folded_name(rhs), weights * factors)
    if isinstance(product, MatMul) and not np.any(bias):
        return rewriter.emit(dataclasses.replace(product, rhs=scaled))
    if lhs.type.rank != 2:
        return None
    vector = rewriter.constant(f"{rhs.name}_bias", bias)
    return rewriter.emit(FullyConnected(lhs, scaled, vector))


def _bias(product: MatMul | FullyConnected) -> Array | float | None:
    """Return the bias in float64, 0 if there is none, None if it is not known."""
    if isinstance(product, MatMul):
        return 0.0
    bias = array_of(product.bias)
    return None if bias is None else bias.astype(np.float64)
