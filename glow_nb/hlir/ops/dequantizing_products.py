"""Products with weights that are stored as low-bit integers: weight-only quantization.

The activations are floats. The weights are integers, and neighbouring rows of a column share a
scale: ``real = (stored - offset) * scale``. What a run reads of memory is the integers, which
matters where a product is bound by the bytes of its weights, as that of a single row is.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import in_float32
from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.families import NARROW_FLOATS, Kinds, fitted, require_kind, widest
from glow_nb.hlir.ops.gather import Gather
from glow_nb.hlir.ops.linear_quantization import (
    FLOAT32,
    DequantizeLinear,
    require_usable_scales,
)
from glow_nb.hlir.ops.matrix import MatMul, matrix_product_cost
from glow_nb.hlir.ops.quantization import number
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("dequantizing_mat_mul")
class DequantizingMatMul(Node):
    """Multiply floats ``[batch..., M, K]`` by the numbers that integers ``[K, N]`` represent.

    ``result[..., m, n] = sum over k of lhs[..., m, k] * real[k, n]`` with
    ``real[k, n] = (weights[k, n] - offset[k // block, n]) * scale[k // block, n]``, computed in
    float32. ``scale``, a float of at most 32 bits, is ``[ceil(K / block), N]``; ``offset`` is of
    the same shape and of the kind of the weights, or absent, which counts as 0.

    Attributes:
        block: Neighbouring rows of the weights that share a scale; the last may be fewer.
    """

    lhs_kinds: ClassVar[Kinds] = NARROW_FLOATS | {FLOAT32}
    weight_kinds: ClassVar[Kinds] = frozenset(
        ElementKind(name) for name in "int8 uint8 int4 uint4 int2 uint2".split()
    )
    lhs: Value
    weights: Value
    scale: Value
    offset: Value | None
    block: int

    @override
    def infer_type(self) -> TensorType:
        lhs, weights, scale = self.lhs.type, self.weights.type, self.scale.type
        require_kind(self, "lhs", lhs, self.lhs_kinds)
        require_kind(self, "weights", weights, self.weight_kinds)
        require_kind(self, "scale", scale, DequantizeLinear.scale_kinds)
        self.require(
            lhs.rank >= 2 and weights.rank == 2 and lhs.shape[-1] == weights.shape[0],
            f"'lhs' is {lhs} and 'weights' {weights}, but they must be [..., M, K] and [K, N]",
        )
        self.require(self.block > 0, f"block is {self.block}, but must be positive")
        inner, depth = weights.shape
        wanted = TensorType(scale.kind, (-(-inner // self.block), depth))
        self.require(
            scale == wanted,
            f"'scale' is {scale}, but weights {weights} in blocks of {self.block} need {wanted}",
        )
        if self.offset is not None:
            found, wanted = self.offset.type, TensorType(weights.kind, scale.shape)
            self.require(found == wanted, f"'offset' is {found}, but must be {wanted}")
        require_usable_scales(self, "scale", self.scale)
        return TensorType(lhs.kind, (*lhs.shape[:-1], depth))

    @override
    def evaluate(self, lhs: Array, weights: Array, scale: Array, offset: Array | None) -> Array:
        inner = weights.shape[0]
        block = min(self.block, inner)
        with np.errstate(all="ignore"):
            real: Any = in_float32(weights)
            if offset is not None:
                real = real - in_float32(offset).repeat(block, axis=0)[:inner]
            real = real * in_float32(scale).repeat(block, axis=0)[:inner]
            return fitted(widest(lhs) @ widest(real), self.type)

    @override
    def cost(self) -> Cost:
        return matrix_product_cost(self, self.lhs.type.shape[-1], has_bias=False)


@lowers(DequantizingMatMul)
def lower_dequantizing_mat_mul(node: DequantizingMatMul, rewriter: Rewriter) -> Value:
    """Express it as a dequantization by blocks and a product of floats."""
    emit = rewriter.emit
    real = emit(MatMul(as_kind(rewriter, node.lhs, FLOAT32), _real_weights(node, rewriter)))
    return as_kind(rewriter, real, node.type.kind)


def _real_weights(node: DequantizingMatMul, rewriter: Rewriter) -> Value:
    """Emit the floats that the weights represent, ``[K, N]``."""
    emit, (inner, depth) = rewriter.emit, node.weights.type.shape
    block = max(1, min(node.block, inner))
    is_whole = inner % block == 0
    shape = (inner // block, block, depth) if is_whole else (inner, depth)
    rows = rewriter.constant("rows", np.arange(inner) // block, is_weight=False)

    def beside(value: Value) -> Value:
        """Emit scales or offsets that broadcast to the weights, or those of each row."""
        if is_whole:
            return emit(Reshape(value, (inner // block, 1, depth)))
        return emit(Gather(value, rows, axis=0))

    stored = emit(Reshape(node.weights, shape))
    scale = beside(as_kind(rewriter, node.scale, FLOAT32))
    zero = number(rewriter, 0, node.weights.type.kind, len(shape), "offset")
    offset = zero if node.offset is None else beside(node.offset)
    return emit(Reshape(emit(DequantizeLinear(stored, scale, offset)), (inner, depth)))
