"""Quantized operators with their scales as operands, expressed by arithmetic on floats.

``real = (quantized - zero_point) * scale``; to quantize, divide, round half to even, add the zero
point and saturate.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from glow_nb.conversion import is_small_float
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.importers.onnx.context import Context
from glow_nb.importers.onnx.node import OnnxNode
from glow_nb.importers.onnx.registry import onnx_op
from glow_nb.importers.onnx.rules.conversion import unsaturated
from glow_nb.importers.onnx.rules.convolution import convolve
from glow_nb.importers.onnx.rules.matrix import matrix_product
from glow_nb.importers.onnx.zero_points import along, centred
from glow_nb.types import ElementKind

_INTEGERS = frozenset(
    ElementKind(name) for name in "int8 uint8 int16 uint16 int32 int4 uint4 int2 uint2".split()
)


@onnx_op("DequantizeLinear")
def dequantize(ctx: Context, node: OnnxNode) -> Value:
    """``(x - zero_point) * scale``, both for the tensor, along an axis, or by blocks."""
    x, scale = node.operand(0), node.operand(1)
    kind = scale.type.kind
    if node.has("output_dtype") and node.integer("output_dtype"):
        kind = ctx.kind(node.integer("output_dtype"))
    return ctx.convert(_dequantized(ctx, node, x, scale, node.optional(2)), kind)


def _dequantized(ctx: Context, node: OnnxNode, x: Value, scale: Value, zero: Value | None) -> Value:
    if is_small_float(x.type.kind):
        _require_zero(ctx, zero)
        return ctx.emit(ops.Mul(ctx.convert(x, scale.type.kind), _spread(ctx, node, x, scale)))
    centred = ctx.convert(x, ElementKind.INT32)
    if zero is not None:
        zero = ctx.convert(_spread(ctx, node, x, zero), ElementKind.INT32)
        centred = ctx.emit(ops.Sub(centred, zero))
    real = ctx.convert(centred, scale.type.kind)
    return ctx.emit(ops.Mul(real, _spread(ctx, node, x, scale)))


def _require_zero(ctx: Context, zero: Value | None) -> None:
    """Raise ModelError if the zero point of floats is known and is not zero."""
    if isinstance(zero, Constant) and zero.array.astype(np.float32).any():
        raise ctx.wrong(f"zero point {zero} of floats must be zero; export the model again")


def _spread(ctx: Context, node: OnnxNode, x: Value, parameter: Value) -> Value:
    """Return a scale or zero point so that it broadcasts to *x*."""
    rank = x.type.rank
    block = node.integer("block_size", 0)
    if parameter.type.size == 1 and not block:
        return ctx.reshape(parameter, (1,) * rank)
    axis = ctx.axis(node.integer("axis", 1), rank)
    if not block:
        if parameter.type.shape != (x.type.shape[axis],):
            raise ctx.wrong(f"{parameter} must have one number for each of axis {axis} of {x}")
        return ctx.reshape(
            parameter, [parameter.type.size if i == axis else 1 for i in range(rank)]
        )
    shape = parameter.type.shape
    if len(shape) != rank or block < 1 or -(-x.type.shape[axis] // block) != shape[axis]:
        raise ctx.wrong(f"{parameter} must have one number for each {block} of axis {axis} of {x}")
    places = np.arange(x.type.shape[axis], dtype=np.int64) // block
    return ctx.emit(ops.Gather(parameter, ctx.constant(places), axis=axis))


@onnx_op("QuantizeLinear", stepwise=True)
def quantize(ctx: Context, node: OnnxNode) -> Value:
    """``saturate(round(x / scale) + zero_point)``."""
    x, scale, zero = node.operand(0), node.operand(1), node.optional(2)
    kind = ElementKind.UINT8
    if zero is not None:
        kind = zero.type.kind
    elif node.has("output_dtype") and node.integer("output_dtype"):
        kind = ctx.kind(node.integer("output_dtype"))
    work = scale.type.kind
    if node.has("precision") and node.integer("precision"):
        work = ctx.kind(node.integer("precision"))
    wide, scale = ctx.convert(x, work), ctx.convert(_spread(ctx, node, x, scale), work)
    ratio = ctx.emit(ops.Div(wide, scale))
    if is_small_float(kind):
        _require_zero(ctx, zero)
        saturates = node.flag("saturate", True)
        return ctx.convert(ratio, kind) if saturates else unsaturated(ctx, ratio, kind)
    zero = None if zero is None else _spread(ctx, node, x, zero)
    return _quantized(ctx, ratio, zero, kind)


def _quantized(ctx: Context, ratio: Value, zero: Value | None, kind: ElementKind) -> Value:
    """Return *ratio* rounded, shifted by the zero point and saturated to *kind*."""
    if kind not in _INTEGERS:
        raise ctx.unsupported(f"quantization to {kind.value}")
    # float16 has too few digits for zero points of 16 bits.
    work = ElementKind.FLOAT64 if ratio.type.kind is ElementKind.FLOAT64 else ElementKind.FLOAT32
    rounded = ctx.emit(ops.Round(ctx.convert(ratio, work)))
    if zero is not None:
        rounded = ctx.emit(ops.Add(*ctx.aligned(rounded, ctx.convert(zero, work))))
    limits: Any = ml_dtypes.iinfo(kind.dtype)  # type: ignore[no-untyped-call]
    clipped = ctx.emit(ops.Clip(rounded, minimum=float(limits.min), maximum=float(limits.max)))
    return ctx.emit(ops.ConvertTo(clipped, kind))


@onnx_op("QLinearMatMul")
def quantized_mat_mul(ctx: Context, node: OnnxNode) -> Value:
    """Product of quantized matrices, quantized again: exact in int32, then scaled once."""
    a, b = node.operand(0), node.operand(3)
    lhs = centred(ctx, a, node.operand(2), a.type.rank - 2)
    rhs = centred(ctx, b, node.operand(5), b.type.rank - 1)
    product = ctx.emit(matrix_product(ctx, lhs, rhs))  # type: ignore[type-var]
    rank = product.type.rank
    factor = _factor(
        ctx,
        along(ctx, node.operand(1), rank - 2, rank),
        along(ctx, node.operand(4), rank - 1, rank),
        along(ctx, node.operand(6), rank - 2, rank),
    )
    return _requantized(ctx, product, factor, node.operand(7))


@onnx_op("QLinearConv")
def quantized_convolution(ctx: Context, node: OnnxNode) -> Value:
    """Convolution of quantized tensors, quantized again: exact in int32, then scaled once."""
    x, filter = node.operand(0), node.operand(3)
    result = convolve(
        ctx,
        node,
        centred(ctx, x, node.operand(2), 1),
        centred(ctx, filter, node.operand(5), 0),
        node.optional(8),
    )
    rank = result.type.rank
    factor = _factor(
        ctx,
        along(ctx, node.operand(1), 1, rank),
        along(ctx, node.operand(4), 1, rank),
        along(ctx, node.operand(6), 1, rank),
    )
    return _requantized(ctx, result, factor, node.operand(7))


def _factor(ctx: Context, lhs: Value, rhs: Value, result: Value) -> Value:
    kind = ElementKind.FLOAT32
    scales = [ctx.convert(scale, kind) for scale in (lhs, rhs, result)]
    return ctx.emit(ops.Div(ctx.emit(ops.Mul(scales[0], scales[1])), scales[2]))


def _requantized(ctx: Context, sums: Value, factor: Value, zero: Value) -> Value:
    scaled = ctx.emit(ops.Mul(ctx.convert(sums, ElementKind.FLOAT32), factor))
    rank = sums.type.rank
    return _quantized(ctx, scaled, along(ctx, zero, rank - 2, rank), zero.type.kind)
