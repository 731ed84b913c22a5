"""Recognize products of floats with weights that are stored as low-bit integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import array_of, is_known
from glow_nb.hlir.ops import (
    Add,
    AsQuantized,
    ConvertTo,
    Dequantize,
    DequantizeLinear,
    DequantizingMatMul,
    FullyConnected,
    MatMul,
    Reshape,
    Slice,
    Transpose,
)
from glow_nb.hlir.optimize.block_scales import Layout
from glow_nb.hlir.optimize.dequantized import Moved, followed
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

FLOAT32 = ElementKind.FLOAT32
LEAST_BLOCK = 8
"""Rows that share a scale, at least: with fewer, scales take more memory than bytes save."""


_MOVES = (Transpose, Reshape, Slice)


@register_pass
def raise_dequantizing_products(function: Function) -> Function:
    """Keep constant dequantized weights of a product as integers.

    There is one scale for all weights, one for each column, or one for some neighbouring rows of a
    column. Transposes and reshapes of the weights are folded into the integers.

    ::

        %w = dequantize_linear(%stored : uint4<24 x 2 x 16>, %scale : float32<24 x 2 x 1>, %zero)
        %r = reshape(%w) {shape = [24, 32]}
        %t = transpose(%r) {permutation = [1, 0]}
        %y = mat_mul(%x, %t)
        ->
        %y = dequantizing_mat_mul(%x, %stored', %scale' : float32<2 x 24>, %zero') {block = 16}

    The pass belongs at the beginning of a pipeline, since ``fold_constants`` converts the weights
    to floats, and after ``raise_quantized_products``, which handles quantized activations.
    """
    return rewrite(function, _rule, MatMul, FullyConnected)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case MatMul(lhs=lhs, rhs=weights):
            return _product(lhs, weights, rewriter)
        case FullyConnected(input=lhs, weights=weights, bias=bias):
            product = _product(lhs, weights, rewriter)
            if product is None:
                return None
            row = rewriter.emit(Reshape(bias, (1, *bias.type.shape)))
            return rewriter.emit(Add(product, row))
    return None


def _product(lhs: Value, weights: Value, rewriter: Rewriter) -> Value | None:
    """Emit the product of *lhs* with the integers behind *weights*; None if there are none."""
    found = _Stored.behind(weights)
    if found is None or lhs.type.kind not in DequantizingMatMul.lhs_kinds:
        return None
    layout: Layout | None = Layout.of(found.integers.source.type.shape)
    for move in found.integers.moves:
        layout = layout.moved(move) if layout else None
    blocks = layout.by_blocks(found.scale, found.offset) if layout else None
    if blocks is None:
        return None
    block, (scale, offset) = blocks
    if block < min(LEAST_BLOCK, weights.type.shape[0]) or not scale.size:
        return None
    has_offset = offset.astype(np.int32).any()
    operands = (
        found.integers.emit(rewriter),
        rewriter.constant("scales", scale, is_weight=False),
        rewriter.constant("offsets", offset, is_weight=False) if has_offset else None,
    )
    return rewriter.emit(DequantizingMatMul(lhs, *operands, block=block))


@dataclass(frozen=True)
class _Stored:
    """Known integers, moved like the floats that they represent, and the nodes that make these."""

    integers: Moved
    scale: Array
    offset: Array

    @classmethod
    def behind(cls, value: Value) -> _Stored | None:
        """Return what *value* is the dequantization of, if that is known."""
        value, moves = followed(value, *_MOVES)
        match value:  # of numbers that were rounded to 16 bits before, integers tell nothing
            case ConvertTo(input=wide, predicate=None) if wide.type.kind is FLOAT32:
                value, earlier = followed(wide, *_MOVES)
                moves = earlier + moves
        scale: Array | None
        offset: Array | None
        match value:
            case Dequantize(input=AsQuantized(input=integers) as typed, predicate=None):
                one = (1,) * integers.type.rank
                number, zero = typed.type.quantization
                scale = np.full(one, number, np.float32)
                offset = np.full(one, zero, integers.type.kind.dtype)
            case DequantizeLinear(input=integers, predicate=None):
                scale, offset = array_of(value.scale), array_of(value.offset)
            case _:
                return None
        is_kind = integers.type.kind in DequantizingMatMul.weight_kinds
        if not (is_kind and is_known(integers)) or scale is None or offset is None:
            return None
        return cls(Moved(integers, moves), scale, offset)
