"""Quantization: products between dequantized operands and a quantized result (QDQ).

That is the form in which engines find quantized networks. What the float operator rounds before
is less than the quantization does, so that a result differs by one step at most, and seldom.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from glow_nb.base.schema import operands_of
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.exporter.channels_first import to_first, to_last
from glow_nb.formats.onnx.exporter.registry import composes, exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.known import is_known, is_uniform
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.integer_products import lower_quantized_transposed_convolution
from glow_nb.hlir.ops.quantization import lower_int_lookup_table, number
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.recipe import folded
from glow_nb.hlir.rewrite import Replacement, Rewriter

FLOAT32, INT32 = ElementKind.FLOAT32, ElementKind.INT32
_BITS_OF_TWO = frozenset({ElementKind.INT2, ElementKind.UINT2})
"""The kinds that ONNX has since an operator set that few readers know."""

_BLOCKS_SINCE = 21
"""The operator set in which scales of blocks came."""


def _axes(node: Any) -> list[int]:
    """Return the axes along which scale or offset vary."""
    sizes = zip(node.scale.type.shape, node.offset.type.shape, strict=True)
    return [axis for axis, (m, n) in enumerate(sizes) if m > 1 or n > 1]


def _is_linear(node: ops.QuantizeLinear | ops.DequantizeLinear) -> bool:
    """Return whether there is one scale and offset for all, or one for each place of one axis."""
    kind = node.offset.type.kind
    axes = _axes(node)
    if kind in _BITS_OF_TWO or (kind is INT32 and not is_uniform(node.offset, 0)):
        return False
    return len(axes) <= 1


@exports(ops.QuantizeLinear, ops.DequantizeLinear, says=_is_linear)
def linear(ctx: Writer, node: ops.QuantizeLinear | ops.DequantizeLinear) -> Value:
    """One scale and offset for all elements, or one for each place of an axis."""
    op = "QuantizeLinear" if isinstance(node, ops.QuantizeLinear) else "DequantizeLinear"
    axes = _axes(node)
    shape: tuple[int, ...] = (node.type.shape[axes[0]],) if axes else ()
    attributes = {"axis": axes[0]} if axes else {}
    offset = None if node.offset.type.kind is INT32 else _row(ctx, node.offset, shape)
    return ctx.node(node, op, node.input, _row(ctx, node.scale, shape), offset, **attributes)


def _row(ctx: Writer, parameter: Value, shape: tuple[int, ...]) -> Value:
    """Return scale or offset as a number, or as a row of them."""
    if is_known(parameter):
        assert isinstance(parameter, Constant)
        numbers = parameter.array.reshape(-1)
        return ctx.constant(np.broadcast_to(numbers, shape) if shape else numbers.reshape(()))
    if parameter.type.size < prod(shape):
        row = ctx.emit(ops.Reshape(parameter, (1,)))
        return ctx.emit(ops.Broadcast(row, shape))
    return ctx.emit(ops.Reshape(parameter, shape))


@composes(ops.QuantizeLinear)
def quantize_by_arithmetic(node: ops.QuantizeLinear, rewriter: Rewriter) -> Replacement:
    """A quotient that is rounded, moved and kept in the range of the kind; NaN is its least."""
    emit, kind = rewriter.emit, node.kind
    whole = emit(ops.Round(emit(ops.Div(node.input, node.scale))))
    moved = emit(ops.Add(whole, as_kind(rewriter, node.offset, FLOAT32)))
    least, greatest = (
        number(rewriter, limit, FLOAT32, node.type.rank, "limit") for limit in kind.limits
    )
    below = emit(ops.Minimum(moved, greatest))
    inside = emit(ops.Select(emit(ops.Greater(moved, least)), below, least))
    return emit(ops.ConvertTo(inside, kind))


@composes(ops.DequantizeLinear)
def dequantize_by_arithmetic(node: ops.DequantizeLinear, rewriter: Rewriter) -> Replacement:
    """A distance from the offset, times the scale."""
    real = _real(rewriter, node.input, node.scale, node.offset)
    return as_kind(rewriter, real, node.type.kind)


def _real(builder: Builder, stored: Value, *parameters: Value) -> Value:
    """Emit ``(stored - offset) * scale`` in float32, of scale and offset in that order."""
    stored, scale, offset = (as_kind(builder, v, FLOAT32) for v in (stored, *parameters))
    return builder.emit(ops.Mul(builder.emit(ops.Sub(stored, offset)), scale))


@composes(ops.Requantize)
def requantize_by_quantization(node: ops.Requantize, rewriter: Rewriter) -> Replacement:
    """Sums times the multiplier, quantized with the scale 1."""
    emit = rewriter.emit
    real = emit(ops.Mul(emit(ops.ConvertTo(node.input, FLOAT32)), node.multiplier))
    one = number(rewriter, 1, FLOAT32, node.type.rank, "one")
    return emit(ops.QuantizeLinear(real, one, node.offset, kind=node.kind))


@composes(ops.QuantizedConvolution)
def convolution_of_reals(node: ops.QuantizedConvolution, rewriter: Rewriter) -> Replacement:
    """A convolution of real numbers."""
    emit, rank = rewriter.emit, node.filter.type.rank
    moved = _known(rewriter, ops.Transpose(node.filter, to_first(rank)))  # as ONNX has it
    filter = _real_weights(rewriter, moved, node.filter_scale, node.filter_offset, 0)
    operands = (
        emit(ops.Dequantize(node.input)),
        emit(ops.Transpose(filter, to_last(rank))),
        _real_bias(rewriter, node, node.filter_scale),
    )
    window = node.window.attributes
    return _as_result(rewriter, node, emit(ops.Convolution(*operands, **window, group=node.group)))


@composes(ops.QuantizedTransposedConvolution)
def transposed_convolution_of_reals(
    node: ops.QuantizedTransposedConvolution, rewriter: Rewriter
) -> Replacement:
    """A transposed convolution of real numbers; of integers if groups have scales of their own."""
    if node.group > 1 and max(node.filter_scale.type.size, node.filter_offset.type.size) > 1:
        return lower_quantized_transposed_convolution(node, rewriter)
    emit, rank = rewriter.emit, node.filter.type.rank
    moved = _known(rewriter, ops.Transpose(node.filter, to_first(rank)))
    filter = _real_weights(rewriter, moved, node.filter_scale, node.filter_offset, 1)
    window = node.window.attributes | {"size": node.size, "group": node.group}
    filter = emit(ops.Transpose(filter, to_last(rank)))
    sums = emit(ops.TransposedConvolution(emit(ops.Dequantize(node.input)), filter, **window))
    bias = _real_bias(rewriter, node, node.filter_scale)
    row = emit(ops.Reshape(bias, (*(1,) * (rank - 1), bias.type.size)))
    return _as_result(rewriter, node, emit(ops.Add(sums, row)))


@composes(ops.QuantizedMatMul)
def mat_mul_of_reals(node: ops.QuantizedMatMul, rewriter: Rewriter) -> Replacement:
    """A product of real matrices."""
    axis = node.rhs.type.rank - 1
    rhs = _real_weights(rewriter, node.rhs, node.rhs_scale, node.rhs_offset, axis)
    lhs = rewriter.emit(ops.Dequantize(node.lhs))
    return _as_result(rewriter, node, rewriter.emit(ops.MatMul(lhs, rhs)))


@composes(ops.QuantizedFullyConnected)
def dense_layer_of_reals(node: ops.QuantizedFullyConnected, rewriter: Rewriter) -> Replacement:
    """A dense layer of real numbers."""
    weights = _real_weights(rewriter, node.weights, node.weight_scale, node.weight_offset, 1)
    bias = _real_bias(rewriter, node, node.weight_scale)
    input = rewriter.emit(ops.Dequantize(node.input))
    return _as_result(rewriter, node, rewriter.emit(ops.FullyConnected(input, weights, bias)))


def _has_blocks(node: ops.DequantizingMatMul) -> bool:
    """Return whether all floats are of float32 and ONNX has long known the kind of the weights."""
    kinds = {node.lhs.type.kind, node.scale.type.kind}
    return kinds == {FLOAT32} and node.weights.type.kind not in _BITS_OF_TWO


@exports(ops.DequantizingMatMul, since=_BLOCKS_SINCE, says=_has_blocks)
def product_with_blocks(ctx: Writer, node: ops.DequantizingMatMul) -> Value:
    """A product with weights that are dequantized by blocks of rows, or by columns."""
    scale, offset, (inner, depth) = node.scale, node.offset, node.weights.type.shape
    attributes = {"axis": 0, "block_size": node.block}
    if scale.type.shape[0] == 1:
        attributes, scale = {"axis": 1}, _row(ctx, scale, (depth,))
        offset = offset and _row(ctx, offset, (depth,))
    type = TensorType(FLOAT32, (inner, depth))
    real = ctx.step("DequantizeLinear", type, node.weights, scale, offset, **attributes)
    return ctx.node(node, "MatMul", node.lhs, real)


@composes(ops.DequantizingMatMul)
def product_of_float32(node: ops.DequantizingMatMul, rewriter: Rewriter) -> Replacement:
    """A product of float32; weights of two bits are bytes. Decline for one that is so already."""
    if _has_blocks(node):
        return None
    kind = node.weights.type.kind
    if kind in _BITS_OF_TWO:
        kind = ElementKind.INT8 if kind.is_signed else ElementKind.UINT8
    offset = node.offset and _as_kind(rewriter, node.offset, kind)
    weights = _as_kind(rewriter, node.weights, kind)
    scale = _as_kind(rewriter, node.scale, FLOAT32)
    lhs = as_kind(rewriter, node.lhs, FLOAT32)
    made = rewriter.emit(ops.DequantizingMatMul(lhs, weights, scale, offset, node.block))
    return as_kind(rewriter, made, node.type.kind)


def _as_kind(builder: Builder, value: Value, kind: ElementKind) -> Value:
    """Emit *value* in *kind*, a constant if it is one."""
    return value if value.type.kind is kind else _known(builder, ops.ConvertTo(value, kind))


@composes(ops.IntLookupTable)
def gather_from_table(node: ops.IntLookupTable, rewriter: Rewriter) -> Replacement:
    """A gather from the table; of signed bytes from one that begins with the number of byte 0."""
    if node.input.type.is_quantized:
        return lower_int_lookup_table(node, rewriter)
    table = node.table
    if node.input.type.kind.is_signed:
        # Negative indices of a gather count from the end.
        halves = (range(128, 256), range(128))
        cut = tuple(slice_axis(rewriter, table, 0, half) for half in halves)
        table = rewriter.emit(ops.Concat(cut, axis=0))
    places = rewriter.emit(ops.ConvertTo(node.input, INT32))
    return rewriter.emit(ops.Gather(table, places, axis=0))


@composes(ops.QuantizedAveragePool)
def mean_of_reals(node: ops.QuantizedAveragePool, rewriter: Rewriter) -> Replacement:
    """A mean of real numbers."""
    counted = {"count_padding": node.count_padding, "uncounted": node.uncounted}
    input = rewriter.emit(ops.Dequantize(node.input))
    mean = ops.AvgPool(input, **node.window.attributes | counted)
    return _as_result(rewriter, node, rewriter.emit(mean))


def _real_weights(
    builder: Builder, weights: Value, scale: Value, offset: Value, axis: int
) -> Value:
    """Emit *weights* as real numbers by one scale and offset, or one for each place of *axis*."""
    rank = weights.type.rank

    def beside(value: Value) -> Value:
        shape = tuple(value.type.size if i == axis else 1 for i in range(rank))
        return _known(builder, ops.Reshape(value, shape))

    if not is_known(offset):  # what comes in a run may not fit the kind of the weights
        return _real(builder, weights, beside(scale), beside(offset))
    fitting = _known(builder, ops.ConvertTo(beside(offset), weights.type.kind))
    return builder.emit(ops.DequantizeLinear(weights, beside(scale), fitting))


def _real_bias(builder: Builder, node: Any, weight_scale: Value) -> Value:
    """Emit the bias of a product as real numbers."""
    scale = number(builder, node.input.type.quantization[0], FLOAT32, 1, "scale")
    product = _known(builder, ops.Mul(scale, weight_scale))
    zero = number(builder, 0, INT32, 1, "offset")
    return builder.emit(ops.DequantizeLinear(node.bias, product, zero))


def _known(builder: Builder, node: Node) -> Value:
    """Emit *node*, or the constant that it computes from constants."""
    if all(map(is_known, operands_of(node))):
        return folded(node, builder.unique_name(node.opcode))
    return builder.emit(node)


def _as_result(builder: Builder, node: Any, real: Value) -> Value:
    """Emit *real* numbers as the result of *node*."""
    if not node.type.is_quantized:
        return as_kind(builder, real, node.kind)
    return builder.emit(ops.Quantize(real, node.kind, node.scale, node.offset))
