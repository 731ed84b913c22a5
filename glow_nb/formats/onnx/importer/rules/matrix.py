"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context, broadcast_shape
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.zero_points import along, require_zero_points, without_zero_point
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value

INT32 = ElementKind.INT32


@onnx_op("MatMul")
def mat_mul(ctx: Context, node: OnnxNode) -> Value:
    """``lhs @ rhs`` as NumPy has it: vectors and broadcast batches included."""
    return matrix_product(ctx, node.operand(0), node.operand(1))


def matrix_product(
    ctx: Context, lhs: Value, rhs: Value, multiply: Callable[[Value, Value], Node] = ops.MatMul
) -> Node:
    """Return ``lhs @ rhs``: a vector counts as one row or column, batches broadcast.

    *multiply* makes the node of the product of matrices.
    """
    if not (lhs.type.rank and rhs.type.rank):
        raise ctx.wrong(f"operands {lhs} and {rhs} must not be scalars")
    row, column = lhs.type.rank == 1, rhs.type.rank == 1
    lhs = ctx.reshape(lhs, (1, *lhs.type.shape)) if row else lhs
    rhs = ctx.reshape(rhs, (*rhs.type.shape, 1)) if column else rhs
    if rhs.type.rank > 2:
        batch = broadcast_shape(ctx, lhs.type.shape[:-2], rhs.type.shape[:-2])
        lhs = ctx.broadcast(lhs, (*batch, *lhs.type.shape[-2:]))
        # A batch of ones is one matrix, shared by all.
        if prod(rhs.type.shape[:-2]) == 1:
            rhs = ctx.reshape(rhs, rhs.type.shape[-2:])
        else:
            rhs = ctx.broadcast(rhs, (*batch, *rhs.type.shape[-2:]))
    product = multiply(lhs, rhs)
    if not (row or column):
        return product
    shape = list(product.type.shape)
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return ops.Reshape(ctx.emit(product), tuple(shape))


@onnx_op("Gemm")
def gemm(ctx: Context, node: OnnxNode) -> Value:
    """``alpha * A @ B + beta * C``, ``A`` and ``B`` transposed on demand."""
    lhs, rhs, addend = node.operand(0), node.operand(1), node.optional(2)
    if lhs.type.rank != 2 or rhs.type.rank != 2:
        raise ctx.wrong(f"operands {lhs} and {rhs} must be matrices")
    lhs = ctx.transpose(lhs, (1, 0)) if node.flag("transA", False) else lhs
    rhs = ctx.transpose(rhs, (1, 0)) if node.flag("transB", False) else rhs
    product = ops.MatMul(lhs, rhs)
    # Scaling the bias before the product keeps the dense layer recognizable: it folds.
    addend = _scaled(ctx, addend, node.number("beta", 1.0)) if addend is not None else None
    alpha = node.number("alpha", 1.0)
    if alpha == 1 and addend is None:
        return product
    if alpha == 1 and addend is not None and _is_row(addend, product.type.shape[1]):
        bias = ctx.broadcast(ctx.reshape(addend, addend.type.shape[-1:]), product.type.shape[1:])
        return ops.FullyConnected(lhs, rhs, bias)
    sums = _scaled(ctx, ctx.emit(product), alpha)
    return sums if addend is None else ops.Add(sums, ctx.broadcast(addend, sums.type.shape))


def _scaled(ctx: Context, value: Value, factor: float) -> Value:
    if factor == 1:
        return value
    kind = value.type.kind
    if not (kind.is_float or factor.is_integer()):
        raise ctx.unsupported(f"factor {factor} on {kind.value}")
    return ctx.emit(ops.Mul(value, ctx.number(value.type, factor)))


def _is_row(value: Value, width: int) -> bool:
    """Return whether *value* is one number for each column, or one for all."""
    *outer, last = value.type.shape or (1,)
    return prod(outer) == 1 and last in (1, width)


@onnx_op("MatMulInteger")
def mat_mul_integer(ctx: Context, node: OnnxNode) -> Value:
    """Product of 8-bit integers with their zero points subtracted, as int32."""
    return integer_product(
        ctx, node.operand(0), node.operand(1), node.optional(2), node.optional(3)
    )


def integer_product(
    ctx: Context, lhs: Value, rhs: Value, zero: Value | None, rhs_zero: Value | None
) -> Value:
    """Return ``(lhs - zero) @ (rhs - rhs_zero)`` in int32."""
    axis = lhs.type.rank - 2
    columns = without_zero_point(ctx, rhs, rhs_zero, rhs.type.rank - 1)
    is_zero = zero is None or (isinstance(zero, Constant) and not zero.array.any())
    if is_zero or not isinstance(columns, Constant) or min(lhs.type.rank, rhs.type.rank) < 2:
        return matrix_product(ctx, without_zero_point(ctx, lhs, zero, axis), columns)
    assert zero is not None
    return _less_zero_point(ctx, lhs, columns, zero, axis)


def _less_zero_point(ctx: Context, lhs: Value, columns: Constant, zero: Value, axis: int) -> Value:
    """Return ``(lhs - zero) @ columns`` as ``lhs @ columns - zero * (sums of columns)``.

    These are equal, since int32 wraps around, and the bytes are multiplied as they are.
    """
    require_zero_points(ctx, lhs, zero, axis)
    sums = ctx.constant(columns.array.sum(axis=-2, dtype=np.int32, keepdims=True))
    distance = ctx.convert(along(ctx, zero, axis, lhs.type.rank), INT32)
    excess = ctx.emit(ops.Mul(*ctx.aligned(distance, sums)))
    product = ctx.emit(matrix_product(ctx, lhs, columns))
    return ops.Sub(product, excess)
