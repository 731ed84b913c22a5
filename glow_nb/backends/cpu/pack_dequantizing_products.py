"""Lay out low-bit weights as the kernels of the cpu read them."""

from __future__ import annotations

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import is_uniform
from glow_nb.hlir.ops import Add, Broadcast, ConvertTo, DequantizingMatMul
from glow_nb.hlir.ops.dequantizing_products import lower_dequantizing_mat_mul
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.operators import PackedDequantizingMatMul
from glow_nb.kernels.operators.dequantizing import BYTE_BITS, INT8, codes_of_element, pack_codes
from glow_nb.kernels.operators.panels import pack_matrix, pad_end
from glow_nb.kernels.products.coded_weights import columns_of_panel
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.open_extents import example_size
from glow_nb.kernels.target import Target


@register_pass
def pack_dequantizing_products(function: Function, *, target: Target | None = None) -> Function:
    """Pack the weights of products that dequantize them, into panels for this *target*.

    By default, that is this processor. Rows are added, zeros that meet zeros of the left operand,
    so that blocks are whole. Weights of fewer than 8 bits whose blocks are no whole words take a
    byte each.

    ::

        %y = dequantizing_mat_mul(%x, %w : uint4<768 x 3072>, %scale, none) {block = 32}
        ->
        %w_panels = ... convert, shift, reshape and transpose of %w     // uint8<48 x 96 x 256>
        %scales = ... of %scale                                         // float32<48 x 24 x 64>
        %y = packed_dequantizing_mat_mul(%x, %w_panels, %scales, %offsets) {bits = 4, ...}
    """
    chosen = target or Target.host()

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        return _packed(node, rewriter, chosen) if isinstance(node, DequantizingMatMul) else None

    return rewrite(function, rule)


def _packed(node: DequantizingMatMul, rewriter: Rewriter, target: Target) -> Replacement:
    inner, depth = node.weights.type.shape
    if node.weights.type.size == 0:
        return lower_dequantizing_mat_mul(node, rewriter)
    blocks, bits = node.scale.type.shape[0], node.weights.type.kind.bits
    size = min(node.block, inner)
    if blocks > 1 and size % codes_of_element(bits):
        bits = BYTE_BITS
    size = size if blocks > 1 else -(-inner // codes_of_element(bits)) * codes_of_element(bits)
    missing = blocks * size - inner
    shape = MatMulShape.of(node.lhs.type.shape, depth, is_batched=False)
    block = columns_of_panel(example_size(shape.rows), blocks * size, depth, target)
    codes = pad_end(rewriter, _signed(node.weights, rewriter), 0, missing)
    offset = _signed_offset(node, rewriter)
    return rewriter.emit(
        PackedDequantizingMatMul(
            pad_end(rewriter, node.lhs, node.lhs.type.rank - 1, missing),
            pack_codes(rewriter, codes, block, bits),
            pack_matrix(rewriter, node.scale, block),
            None if offset is None else pack_matrix(rewriter, offset, block),
            depth=depth,
            block=block,
            bits=bits,
            size=size,
            predicate=node.predicate,
        )
    )


def _half(kind: ElementKind) -> int:
    """Return by how much codes with a sign are less than numbers of *kind*."""
    return 0 if kind.is_signed else 1 << (kind.bits - 1)


def _signed(stored: Value, rewriter: Rewriter) -> Value:
    """Emit integers as int8, unsigned ones less half of their range."""
    half = _half(stored.type.kind)
    bytes = stored if stored.type.kind is INT8 else rewriter.emit(ConvertTo(stored, INT8))
    if not half:
        return bytes
    lowered = rewriter.number(bytes.type, -half)
    return rewriter.emit(Add(bytes, lowered))


def _signed_offset(node: DequantizingMatMul, rewriter: Rewriter) -> Value | None:
    """Emit the offset of signed codes; None if it is 0 everywhere."""
    half = _half(node.weights.type.kind)
    if node.offset is not None:
        return None if is_uniform(node.offset, half) else _signed(node.offset, rewriter)
    if not half:
        return None
    one = rewriter.constant("offset", np.full((1, 1), -half, np.int8), is_weight=False)
    return rewriter.emit(Broadcast(one, node.scale.type.shape))
