"""The product with low-bit weights, which lie in panels of words or bytes.

The codes of the weights have a sign, those of unsigned weights are less by half of their range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import in_float32
from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops import (
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    ConvertTo,
    DequantizeLinear,
    DequantizingMatMul,
    Reshape,
    Slice,
)
from glow_nb.hlir.ops.families import fitted, require_kind, widest
from glow_nb.hlir.ops.matrix import matrix_product_cost
from glow_nb.kernels.operators.panels import check_block, pack_matrix, panels_of, unpacked_matrix
from glow_nb.llir.instructions.derived import derive_instruction

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8
WORD_BYTES, BYTE_BITS = 4, 8
CODE_BITS = (2, 4, BYTE_BITS)


def codes_of_element(bits: int) -> int:
    """Return how many codes of *bits* of a column lie together: a word of them, or a byte."""
    return 1 if bits == BYTE_BITS else WORD_BYTES * BYTE_BITS // bits


@define_node("packed_dequantizing_mat_mul")
class PackedDequantizingMatMul(Node):
    """Multiply like :class:`DequantizingMatMul`, with the weights packed into panels.

    With ``panels = ceil(depth / block)``: ``lhs`` is ``[batch..., M, K]``, ``rhs`` of int8
    ``[panels, K, block]`` or, of fewer *bits*, of uint8 ``[panels, K * bits / 32, block * 4]``: of
    each column a word with the codes of neighbouring rows, the first in the lowest bits. ``scale``
    is ``[panels, K / size, block]``, ``offset``, of int8, likewise or absent. The result is
    ``[batch..., M, depth]``.

    Attributes:
        depth: Columns of the result.
        block: Columns in a panel.
        bits: Bits of a code: 2, 4 or 8.
        size: Neighbouring rows that share a scale, whole words of them.
    """

    lhs: Value
    rhs: Value
    scale: Value
    offset: Value | None
    depth: int
    block: int
    bits: int
    size: int

    @override
    def infer_type(self) -> TensorType:
        lhs, scale = self.lhs.type, self.scale.type
        require_kind(self, "lhs", lhs, DequantizingMatMul.lhs_kinds)
        require_kind(self, "scale", scale, DequantizeLinear.scale_kinds)
        self.require(lhs.rank >= 2, f"'lhs' must be a matrix or a batch of them, got {lhs}")
        self.require(self.depth >= 0, f"depth is {self.depth}, but must not be negative")
        self.require(self.bits in CODE_BITS, f"bits is {self.bits}, but must be one of {CODE_BITS}")
        check_block(self, self.block)
        inner, step = lhs.shape[-1], codes_of_element(self.bits)
        self.require(
            self.size > 0 and self.size % step == 0 and inner % self.size == 0,
            f"size is {self.size}, but must be a multiple of {step} that divides the {inner} rows",
        )
        panels = panels_of(self.depth, self.block)
        wide = self.block * (1 if step == 1 else WORD_BYTES)
        wanted = TensorType(INT8 if step == 1 else UINT8, (panels, inner // step, wide))
        found = self.rhs.type
        self.require(found == wanted, f"'rhs' is {found}, but lhs {lhs} needs {wanted}")
        beside = TensorType(scale.kind, (panels, inner // self.size, self.block))
        self.require(scale == beside, f"'scale' is {scale}, but rhs {found} needs {beside}")
        if self.offset is not None:
            found, wanted = self.offset.type, beside.with_kind(INT8)
            self.require(found == wanted, f"'offset' is {found}, but must be {wanted}")
        return TensorType(lhs.kind, (*lhs.shape[:-1], self.depth))

    @override
    def evaluate(self, lhs: Array, rhs: Array, scale: Array, offset: Array | None) -> Array:
        with np.errstate(all="ignore"):
            real: Any = self._codes(rhs).astype(np.float32)
            if offset is not None:
                real = real - self._by_rows(offset)
            real = real * self._by_rows(scale)
            return fitted(widest(lhs) @ widest(real), self.type)

    def _codes(self, rhs: Array) -> Array:
        """Return the codes as they were before they were packed."""
        if self.bits == BYTE_BITS:
            return unpacked_matrix(rhs, self.depth)
        joined = unpacked_matrix(rhs, self.depth, WORD_BYTES).astype(np.uint8)
        parts = [joined << (BYTE_BITS - self.bits - low) for low in range(0, BYTE_BITS, self.bits)]
        signed = np.stack(parts, axis=1).view(np.int8) >> (BYTE_BITS - self.bits)
        return signed.reshape(-1, self.depth)

    def _by_rows(self, panels: Array) -> Array:
        """Return the number of each row and column."""
        return (
            unpacked_matrix(in_float32(panels), self.depth)
            .repeat(self.size, axis=0)
            .astype(np.float32)
        )

    @override
    def cost(self) -> Cost:
        return matrix_product_cost(self, self.lhs.type.shape[-1], has_bias=False)


PackedDequantizingMatMulInst = derive_instruction(PackedDequantizingMatMul)


def pack_codes(builder: Builder, codes: Value, block: int, bits: int) -> Value:
    """Emit the nodes that pack int8 *codes* ``[K, N]`` for PackedDequantizingMatMul."""
    if bits == BYTE_BITS:
        return pack_matrix(builder, codes, block)
    together = BYTE_BITS // bits
    inner, depth = codes.type.shape
    stored = builder.emit(ConvertTo(codes, UINT8))
    rows = builder.emit(Reshape(stored, (inner // together, together, depth)))
    joined: Value | None = None
    for number in range(together):
        starts, stops = (0, number, 0), (inner // together, number + 1, depth)
        part: Value = builder.emit(Slice(rows, starts, stops, (1, 1, 1)))
        mask = builder.number(part.type, (1 << bits) - 1)
        shift = builder.number(part.type, number * bits)
        part = builder.emit(BitShift(builder.emit(BitwiseAnd(part, mask)), shift, direction="left"))
        joined = part if joined is None else builder.emit(BitwiseOr(joined, part))
    assert joined is not None
    matrix = builder.emit(Reshape(joined, (inner // together, depth)))
    return pack_matrix(builder, matrix, block, WORD_BYTES)
