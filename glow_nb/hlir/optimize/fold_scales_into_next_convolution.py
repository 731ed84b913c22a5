"""Fold per-channel scales and shifts into the convolution that reads them."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Any

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node
from glow_nb.hlir.known import is_known
from glow_nb.hlir.ops import Convolution
from glow_nb.hlir.optimize.fold_batch_normalization import affine_forms, folded_name
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def fold_scales_into_next_convolution(function: Function) -> Function:
    """Scale a convolution's filter by input channel instead of the input.

    For an input that is a batch normalization, or an Add, Sub, Mul or Div by a constant that varies
    along the channels only: ``filter'[k, t, c] = filter[k, t, c] * scale[c]`` and ``bias'[k] =
    bias[k] + sum over t, c of filter[k, t, c] * shift[c]``, summed in float64. A shift folds only
    without padding, whose cells stay 0. The convolution must be the only reader.

    ::

        %s = mul(%x, %scale)                        ->
        %y = convolution(%s, %w, %b)                    %y = convolution(%x, %w', %b)
    """
    return rewrite(function, _rule, Convolution)


def _rule(node: Convolution, rewriter: Rewriter) -> Replacement:
    if not node.type.kind.is_float:
        return None
    affine: Any = node.input
    if not isinstance(affine, Node) or affine.predicate is not None:
        return None
    if not (is_known(node.filter) and is_known(node.bias)) or rewriter.use_count(affine) != 1:
        return None
    for value, scale, shift in affine_forms(affine):
        if value.type == affine.type and not (np.any(shift) and any(node.pads)):
            assert isinstance(node.filter, Constant)
            assert isinstance(node.bias, Constant)
            scaled, extra = _fold(node, node.filter.array, scale, shift)
            bias = node.bias.array
            new_bias = (bias.astype(np.float64) + extra).astype(bias.dtype)
            return rewriter.emit(
                dataclasses.replace(
                    node,
                    input=value,
                    filter=rewriter.constant(folded_name(node.filter), scaled),
                    bias=rewriter.constant(folded_name(node.bias), new_bias),
                )
            )
    return None


def _fold(node: Convolution, filter: Array, scale: Any, shift: Any) -> tuple[Array, Array]:
    """Return the scaled filter and what the shift adds to the bias."""
    channels, depth, group = node.input.type.shape[-1], filter.shape[0], node.group
    inner = channels // group
    wide = filter.astype(np.float64).reshape(group, depth // group, prod(node.kernel), inner)
    scales, shifts = (
        np.broadcast_to(np.asarray(v, np.float64), (channels,)).reshape(group, 1, 1, inner)
        for v in (scale, shift)
    )
    extra = (wide * shifts).sum(axis=(2, 3)).reshape(depth)
    return (wide * scales).reshape(filter.shape).astype(filter.dtype), extra
