"""Quantized operators of ONNX Runtime (domain ``com.microsoft``).

Most are defined as a float operator between dequantizations and a quantization, and become that;
passes make integer arithmetic of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from onnx import helper

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import as_standard, onnx_op
from glow_nb.formats.onnx.importer.rules.matrix import matrix_product
from glow_nb.formats.onnx.importer.rules.pooling import average_of, global_average_of
from glow_nb.formats.onnx.importer.rules.quantization import dequantized, fixed, quantized
from glow_nb.formats.onnx.schema.schemas import NEWEST_OPSET, OLDEST_OPSET
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.known import array_of

DOMAIN = "com.microsoft"
UINT8, FLOAT32 = ElementKind.UINT8, ElementKind.FLOAT32


def _real(ctx: Context, node: OnnxNode, first: int) -> Value:
    """Return the floats that operand *first* represents, by the scale and zero point after it."""
    return dequantized(ctx, node.operand(first), node.operand(first + 1), node.optional(first + 2))


def _stored(ctx: Context, node: OnnxNode, real: Value, first: int, like: int = 0) -> Value:
    """Return *real* quantized by the scale that is operand *first*, and the zero point after it.

    The result is of the kind of operand *like*.
    """
    kind = node.operand(like).type.kind
    return quantized(ctx, real, node.operand(first), node.optional(first + 1), kind)


@onnx_op("QLinearAdd", "QLinearMul", since=1, domain=DOMAIN, stepwise=True)
def quantized_arithmetic(ctx: Context, node: OnnxNode) -> Value:
    """Sum or product of two tensors that broadcast."""
    operands = ctx.aligned(_real(ctx, node, 0), _real(ctx, node, 3))
    operator = {"QLinearAdd": ops.Add, "QLinearMul": ops.Mul}[node.op]
    return _stored(ctx, node, ctx.emit(operator(*operands)), 6)


@onnx_op("QLinearSigmoid", since=1, domain=DOMAIN, stepwise=True)
def quantized_sigmoid(ctx: Context, node: OnnxNode) -> Value:
    """``1 / (1 + exp(-x))``."""
    return _stored(ctx, node, ctx.emit(ops.Sigmoid(_real(ctx, node, 0))), 3)


@onnx_op("QLinearLeakyRelu", since=1, domain=DOMAIN, stepwise=True)
def quantized_leaky_relu(ctx: Context, node: OnnxNode) -> Value:
    """``x`` where it is positive, else ``alpha * x``."""
    slope = node.number("alpha", 0.01)
    return _stored(ctx, node, ctx.emit(ops.LeakyRelu(_real(ctx, node, 0), alpha=slope)), 3)


@onnx_op("QLinearSoftmax", since=1, domain=DOMAIN, stepwise=True)
def quantized_softmax(ctx: Context, node: OnnxNode) -> Value:
    """Softmax along an axis, or as before operator set 13, by attribute ``opset``."""
    opset = node.integer("opset")
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise ctx.wrong(f"opset is {opset}; {OLDEST_OPSET} to {NEWEST_OPSET} are possible")
    axis = helper.make_attribute("axis", node.integer("axis", -1))
    along = replace(node, attributes={"axis": axis})
    result = ctx.emitted(as_standard(ctx, along, "Softmax", opset, (_real(ctx, node, 0),)))[0]
    assert result is not None
    return _stored(ctx, node, result, 3)


@onnx_op("QLinearWhere", since=1, domain=DOMAIN, stepwise=True)
def quantized_where(ctx: Context, node: OnnxNode) -> Value:
    """Elements of one tensor where a condition is true, of another one elsewhere."""
    operands = (node.operand(0), _real(ctx, node, 1), _real(ctx, node, 4))
    return _stored(ctx, node, ctx.emit(ops.Select(*ctx.aligned(*operands))), 7, like=1)


@onnx_op("QLinearAveragePool", since=1, domain=DOMAIN, stepwise=True)
def quantized_average_pool(ctx: Context, node: OnnxNode) -> Value:
    """Mean of the elements under a window."""
    return _pooled(ctx, node, lambda x: average_of(ctx, node, x))


@onnx_op("QLinearGlobalAveragePool", since=1, domain=DOMAIN, stepwise=True)
def quantized_global_average_pool(ctx: Context, node: OnnxNode) -> Value:
    """Mean over all spatial dimensions."""
    return _pooled(ctx, node, lambda x: global_average_of(ctx, x))


def _pooled(ctx: Context, node: OnnxNode, pool: Callable[[Value], Value]) -> Value:
    """Return what *pool*, which wants the channels first, makes of the first operand."""
    x = _real(ctx, node, 0)
    if not node.flag("channels_last", False):
        return _stored(ctx, node, pool(x), 3)
    return _stored(ctx, node, ctx.channels_last(pool(ctx.channels_first(x))), 3)


@onnx_op("QLinearConcat", since=1, domain=DOMAIN, stepwise=True)
def quantized_concat(ctx: Context, node: OnnxNode) -> Value:
    """Tensors of several scales, one after the other in one scale."""
    count = len(node.inputs) - 2
    if count < 3 or count % 3:
        raise ctx.wrong(f"operands must come in threes after the first two, there are {count}")
    parts = tuple(_real(ctx, node, first) for first in range(2, 2 + count, 3))
    axis = ctx.axis(node.integer("axis"), parts[0].type.rank)
    return _stored(ctx, node, ctx.emit(ops.Concat(parts, axis=axis)), 0, like=2)


@onnx_op("QGemm", since=1, domain=DOMAIN, stepwise=True)
def quantized_gemm(ctx: Context, node: OnnxNode) -> Value:
    """``alpha * (A @ B + C)``, ``A`` and ``B`` transposed on demand, quantized if it has a scale.

    ``C`` is int32, in units of the product of both scales, and broadcasts to the result.
    """
    b_scale, depth = (
        fixed(ctx, node.operand(4)),
        node.operand(3).type.shape[0 if _transposed(node, "B") else -1],
    )
    lhs = _real(ctx, node, 0)
    rhs = dequantized(
        ctx, node.operand(3), b_scale, node.optional(5), axis=0 if _transposed(node, "B") else 1
    )
    lhs = ctx.transpose(lhs, (1, 0)) if _transposed(node, "A") else lhs
    rhs = ctx.transpose(rhs, (1, 0)) if _transposed(node, "B") else rhs
    addend = node.optional(6)
    if addend is None:
        result = ctx.emit(ops.MatMul(lhs, rhs))
    else:
        unit = ctx.emit(ops.Mul(*ctx.aligned(fixed(ctx, node.operand(1)), b_scale)))
        result = _with_addend(ctx, lhs, rhs, addend, unit, (lhs.type.shape[0], depth))
    alpha = node.number("alpha", 1.0)
    if alpha != 1:
        result = ctx.emit(ops.Mul(result, ctx.number(result.type, alpha)))
    return result if node.optional(7) is None else _stored(ctx, node, result, 7)


def _with_addend(
    ctx: Context, lhs: Value, rhs: Value, addend: Value, unit: Value, shape: tuple[int, int]
) -> Value:
    """Return the product, of *shape*, plus an int32 *addend* in *unit*: a row, or a matrix."""
    rows, depth = shape
    if addend.type.rank == 2 and addend.type.shape[0] == 1:
        addend = ctx.reshape(addend, addend.type.shape[1:])
    if addend.type.rank < 2:
        bias = dequantized(ctx, ctx.broadcast(addend, (depth,)), unit, None, axis=0)
        return ctx.emit(ops.FullyConnected(lhs, rhs, bias))
    real = dequantized(ctx, ctx.broadcast(addend, (rows, depth)), unit, None, axis=1)
    return ctx.emit(ops.Add(ctx.emit(ops.MatMul(lhs, rhs)), real))


def _transposed(node: OnnxNode, operand: str) -> bool:
    return node.flag(f"trans{operand}", False)


@onnx_op("MatMulNBits", since=1, domain=DOMAIN)
def mat_mul_of_few_bits(ctx: Context, node: OnnxNode) -> Value:
    """``A @ B.T + bias`` with ``B`` in 2, 4 or 8 bits, one scale and zero point a block of a row.

    ``B`` is ``[N, blocks, block_size * bits / 8]``, the lowest bits of a byte first.
    """
    x, packed, scales = node.operand(0), node.operand(1), node.operand(2)
    bits, size = node.integer("bits", 4), node.integer("block_size")
    depth, inner = node.integer("N"), node.integer("K")
    blocks = -(-inner // max(size, 1))
    if bits not in (2, 4, 8):
        raise ctx.unsupported(f"{bits}-bit weights; 2, 4 and 8 are known")
    if size < 1 or packed.type.shape != (depth, blocks, size * bits // 8):
        wanted = "[N, ceil(K / block_size), block_size * bits / 8]"
        raise ctx.wrong(f"weights {packed} must be {wanted}; export the model again")
    if node.optional(4) is not None:
        raise ctx.unsupported("an order of the groups, which is deprecated (g_idx)")
    codes = ctx.reshape(_unpacked(ctx, packed, bits), (depth, blocks, size))
    weights = _by_blocks(ctx, codes, scales, _zero_points(ctx, node.optional(3), codes))
    rows = ctx.part(ctx.reshape(weights, (depth, blocks * size)), 1, 0, inner)
    product = matrix_product(ctx, x, ctx.transpose(ctx.convert(rows, x.type.kind), (1, 0)))
    bias = node.optional(5)
    if bias is None:
        return product
    return ops.Add(*ctx.aligned(ctx.emit(product), bias))


def _unpacked(ctx: Context, packed: Value, bits: int) -> Value:
    """Return the numbers that each byte holds, lowest first, along another last axis."""
    mask = ctx.number(packed.type, (1 << bits) - 1)
    parts = []
    for shift in range(0, 8, bits):
        moved = ctx.emit(ops.BitShift(packed, ctx.number(packed.type, shift), direction="right"))
        part = ctx.emit(ops.BitwiseAnd(moved, mask))
        parts.append(ctx.reshape(part, (*part.type.shape, 1)))
    numbers = ctx.emit(ops.Concat(tuple(parts), axis=packed.type.rank))
    return ctx.convert(numbers, ElementKind(f"uint{bits}"))


def _zero_points(ctx: Context, zeros: Value | None, codes: Value) -> Value:
    """Return the zero points of blocks as ``[N, blocks, 1]``: of the kind of *codes*, or floats."""
    (depth, blocks, _), bits = codes.type.shape, codes.type.kind.bits
    if zeros is None:
        return ctx.number(codes.type, 1 << (bits - 1))
    if zeros.type.kind is UINT8:
        width = -(-blocks * bits // 8)
        wide = _unpacked(ctx, ctx.reshape(zeros, (depth, width)), bits)
        zeros = ctx.part(ctx.reshape(wide, (depth, width * 8 // bits)), 1, 0, blocks)
    return ctx.reshape(zeros, (depth, blocks, 1))


def _by_blocks(ctx: Context, codes: Value, scales: Value, zeros: Value) -> Value:
    """Return the floats that *codes* represent, ``[N, blocks, block_size]``, in float32."""
    depth, blocks, _ = codes.type.shape
    scale = ctx.convert(ctx.reshape(fixed(ctx, scales), (depth, blocks, 1)), FLOAT32)
    if not zeros.type.kind.is_float:
        return ctx.emit(ops.DequantizeLinear(*_with_positive_scales(ctx, codes, scale, zeros)))
    real = ctx.convert(codes, FLOAT32)
    return ctx.emit(ops.Mul(ctx.emit(ops.Sub(real, ctx.convert(zeros, FLOAT32))), scale))


def _with_positive_scales(
    ctx: Context, codes: Value, scale: Value, zeros: Value
) -> tuple[Value, Value, Value]:
    """Return codes, scales and zero points that mean the same, where all known scales are positive.

    ONNX Runtime makes the number that is largest in magnitude the least code, so that the scale of
    a block may be negative, and that of a block of zeros is 0. With the greatest code m,
    ``(c - z) * s = ((m - z) - (m - c)) * s = ((m - c) - (m - z)) * -s``. Where s is 0, codes and
    zero points become 0.
    """
    numbers = array_of(scale)
    if numbers is None or not (numbers <= 0).any():
        return codes, scale, zeros
    kind = codes.type.kind
    flipped = ctx.constant(np.where(numbers < 0, kind.limits[1], 0).astype(np.uint8))
    kept = ctx.constant(np.where(numbers == 0, 0, kind.limits[1]).astype(np.uint8))

    def changed(value: Value) -> Value:
        bytes = ctx.emit(ops.BitwiseXor(ctx.convert(value, UINT8), flipped))
        return ctx.convert(ctx.emit(ops.BitwiseAnd(bytes, kept)), kind)

    positive = np.where(numbers == 0, np.float32(1), np.abs(numbers))
    return changed(codes), ctx.constant(positive), changed(zeros)
