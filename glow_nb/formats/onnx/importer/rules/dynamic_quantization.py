"""Products and recurrent layers of ONNX Runtime with quantized weights and float activations."""

from __future__ import annotations

from onnx import helper

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import as_standard, onnx_op
from glow_nb.formats.onnx.importer.rules.matrix import integer_product
from glow_nb.formats.onnx.importer.rules.onnx_runtime import DOMAIN
from glow_nb.formats.onnx.importer.rules.quantization import fixed
from glow_nb.formats.onnx.importer.zero_points import along
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

FLOAT32 = ElementKind.FLOAT32
_LSTM_OPSET = 14


@onnx_op("MatMulIntegerToFloat", since=1, domain=DOMAIN, stepwise=True)
def mat_mul_integer_to_float(ctx: Context, node: OnnxNode) -> Value:
    """``((A - a_zero) @ (B - b_zero)) * a_scale * b_scale + bias``, the product exact in int32."""
    product = _scaled_product(
        ctx,
        (node.operand(0), node.operand(2), node.optional(4)),
        (node.operand(1), node.operand(3), node.optional(5)),
    )
    return _with_bias(ctx, product, node.optional(6), node.operand(2).type.kind)


@onnx_op("DynamicQuantizeMatMul", since=1, domain=DOMAIN, stepwise=True)
def dynamic_quantize_mat_mul(ctx: Context, node: OnnxNode) -> Value:
    """The same, of floats ``A`` that are quantized to uint8 by the range that they have."""
    product = _scaled_product(
        ctx,
        _quantized_by_range(ctx, node.operand(0)),
        (node.operand(1), node.operand(2), node.optional(3)),
    )
    return _with_bias(ctx, product, node.optional(4), node.operand(0).type.kind)


_Quantized = tuple[Value, Value, Value | None]
"""Integers, their scale and their zero point."""


def _quantized_by_range(ctx: Context, x: Value) -> _Quantized:
    """Return what DynamicQuantizeLinear makes of *x*."""
    outputs = ["stored", "scale", "zero"]
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], outputs)],
        "quantized_by_range",
        [helper.make_empty_tensor_value_info("x")],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    stored, scale, zero = ctx.subgraph(graph, [x])
    return stored, scale, zero


def _scaled_product(ctx: Context, left: _Quantized, right: _Quantized) -> Value:
    """Return the product in float32; columns of the right matrix may have scales of their own."""
    (lhs, lhs_scale, lhs_zero), (rhs, rhs_scale, rhs_zero) = left, right
    sums = ctx.emitted(integer_product(ctx, lhs, rhs, lhs_zero, rhs_zero))[0]
    assert sums is not None
    rank = sums.type.rank
    scales = (
        ctx.convert(fixed(ctx, along(ctx, scale, rank - 1, rank)), FLOAT32)
        for scale in (lhs_scale, rhs_scale)
    )
    return ctx.emit(ops.Mul(ctx.convert(sums, FLOAT32), ctx.emit(ops.Mul(*scales))))


def _with_bias(ctx: Context, product: Value, bias: Value | None, kind: ElementKind) -> Value:
    if bias is not None:
        product = ctx.emit(ops.Add(*ctx.aligned(product, ctx.convert(bias, FLOAT32))))
    return ctx.convert(product, kind)


@onnx_op("DynamicQuantizeLSTM", since=1, domain=DOMAIN, stepwise=True)
def dynamic_quantize_lstm(ctx: Context, node: OnnxNode) -> Value | tuple[Value | None, ...]:
    """An LSTM with weights of bytes, ``[directions, inputs, 4 H]``, and a scale for each column.

    ONNX Runtime quantizes what it multiplies with the weights by its range; here it stays float.
    """
    weights = tuple(
        ctx.transpose(_weights(ctx, node, place, scale), (0, 2, 1))
        for place, scale in ((1, 8), (2, 10))
    )
    operands = (node.operand(0), *weights, *(node.optional(place) for place in range(3, 8)))
    return as_standard(ctx, node, "LSTM", _LSTM_OPSET, operands)


def _weights(ctx: Context, node: OnnxNode, place: int, scale: int) -> Value:
    """Return operand *place* as floats, by *scale* and the zero point after it.

    They are one number for each direction, or one for each column of it.
    """
    stored = node.operand(place)
    if stored.type.rank != 3:
        raise ctx.wrong(f"weights {stored} must be [directions, inputs, 4 H]")
    directions, _, columns = stored.type.shape
    parameters = []
    for value in (fixed(ctx, node.operand(scale)), node.optional(scale + 1)):
        zero = ctx.number(stored.type, 0) if value is None else value
        if zero.type.size not in (1, directions, directions * columns):
            raise ctx.wrong(
                f"{zero} must be one number for each of {directions} directions, or one for each "
                f"of their {columns} columns"
            )
        parameters.append(ctx.reshape(zero, _beside(zero, directions)))
    factor, zeros = parameters
    return ctx.emit(ops.DequantizeLinear(stored, factor, zeros))


def _beside(parameter: Value, directions: int) -> tuple[int, int, int]:
    """Return the shape in which a scale or zero point broadcasts to ``[directions, inputs, H]``."""
    count = parameter.type.size
    return (1, 1, 1) if count == 1 else (directions, 1, count // directions)
