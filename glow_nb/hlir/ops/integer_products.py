"""How quantized products become products of plain integers, and how their sums are scaled.

``sum of (x - offset) * w = sum of x * w - offset * sum of w``: the second part belongs to the bias,
where it is folded with constant weights. So activations stay bytes, and a convolution around which
cells are added adds cells of the offset, which stands for 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.builder import Builder, Emitter
from glow_nb.hlir.graph import Value
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops.arithmetic import Add, Div, Mul, Sub
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.elementwise import ConvertTo, as_kind
from glow_nb.hlir.ops.linear_quantization import FLOAT32, INT32, Requantize
from glow_nb.hlir.ops.matrix import FullyConnected, MatMul
from glow_nb.hlir.ops.quantization import (
    BYTES,
    Stored,
    as_type,
    number,
)
from glow_nb.hlir.ops.quantized_products import (
    QuantizedConvolution,
    QuantizedFullyConnected,
    QuantizedMatMul,
    QuantizedTransposedConvolution,
    groups_shape,
)
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.ops.transposed_convolution import TransposedConvolution
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers

_SMALLER = (ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16)


@lowers(QuantizedConvolution)
def lower_quantized_convolution(node: QuantizedConvolution, rewriter: Rewriter) -> Value:
    """Express it as a convolution of integers whose sums are scaled."""
    input = rewriter.emit(Stored(node.input))
    pad_value = node.input.type.offset if node.is_padded else 0
    ones = (1,) * (node.filter.type.rank - 1)
    offset = _reshaped(rewriter, node.filter_offset, (-1, *ones))
    filter = centred(rewriter, node.filter, offset)
    axes = tuple(range(1, filter.type.rank))
    bias = _bias_without_offset(rewriter, node.bias, filter, axes, node.input.type)
    window = node.window.attributes | {"group": node.group, "pad_value": pad_value}
    sums = rewriter.emit(Convolution(input, filter, bias, **window))
    return scaled(rewriter, node, sums, node.input.type, node.filter_scale)


@lowers(QuantizedTransposedConvolution)
def lower_quantized_transposed_convolution(
    node: QuantizedTransposedConvolution, rewriter: Rewriter
) -> Value:
    """Express it as a transposed convolution of integers whose sums are scaled.

    The taps that a result meets differ at the borders: the offset is subtracted from the input.
    """
    emit, type, shape = rewriter.emit, node.input.type, node.filter.type.shape
    offset = number(rewriter, type.quantization[1], INT32, type.rank, "offset")
    input = centred(rewriter, emit(Stored(node.input)), offset)
    split = _reshaped(rewriter, node.filter, (node.group, shape[0] // node.group, *shape[1:]))
    sizes = groups_shape(node.filter_offset.type.size, shape, node.group)
    offsets = _reshaped(rewriter, node.filter_offset, sizes)
    filter = emit(Reshape(centred(rewriter, split, offsets), shape))
    window = node.window.attributes | {"size": node.size, "group": node.group}
    sums = emit(TransposedConvolution(input, filter, **window))
    bias = _reshaped(rewriter, node.bias, (*(1,) * (type.rank - 1), -1))
    return scaled(rewriter, node, emit(Add(sums, bias)), type, node.filter_scale)


@lowers(QuantizedMatMul)
def lower_quantized_mat_mul(node: QuantizedMatMul, rewriter: Rewriter) -> Value:
    """Express it as a product of integers whose sums are scaled."""
    emit, type, rank = rewriter.emit, node.lhs.type, node.rhs.type.rank
    offset = _reshaped(rewriter, node.rhs_offset, (*(1,) * (rank - 1), -1))
    rhs = centred(rewriter, node.rhs, offset)
    sums: Value = emit(MatMul(emit(Stored(node.lhs)), rhs))
    if type.offset:
        row = _offset_times_sums(rewriter, rhs, (rank - 2,), -type.offset)
        batch = rhs.type.shape[:-2] or (1,) * (type.rank - 2)
        sums = emit(Add(sums, emit(Reshape(row, (*batch, 1, sums.type.shape[-1])))))
    return scaled(rewriter, node, sums, type, node.rhs_scale)


@lowers(QuantizedFullyConnected)
def lower_quantized_fully_connected(node: QuantizedFullyConnected, rewriter: Rewriter) -> Value:
    """Express it as a dense layer of integers whose sums are scaled."""
    offset = _reshaped(rewriter, node.weight_offset, (1, -1))
    weights = centred(rewriter, node.weights, offset)
    bias = _bias_without_offset(rewriter, node.bias, weights, (0,), node.input.type)
    sums = rewriter.emit(FullyConnected(rewriter.emit(Stored(node.input)), weights, bias))
    return scaled(rewriter, node, sums, node.input.type, node.weight_scale)


def centred(builder: Emitter, value: Value, offset: Value) -> Value:
    """Emit *value* - *offset*, which broadcasts, for a product.

    Where the difference is known it is of the smallest kind that holds it, such as int8 for uint8
    with the offset 128; else bytes, whose offsets are numbers of their kind, become int16, which
    takes half the memory that int32 does.
    """
    offsets = array_of(offset)
    if offsets is not None and not offsets.any():
        return value
    kind = ElementKind.INT16 if value.type.kind in BYTES else INT32
    wide = as_kind(builder, value, kind), as_kind(builder, offset, kind)
    difference = builder.emit(Sub(*wide))
    known = array_of(value)
    if known is None or offsets is None or not known.size:
        return difference
    numbers = known.astype(np.int64) - offsets
    least, greatest = int(numbers.min()), int(numbers.max())
    for smaller in _SMALLER:
        low, high = smaller.limits
        if low <= least and greatest <= high:
            return as_kind(builder, difference, smaller)
    return difference


def scaled(
    builder: Builder, node: Any, sums: Value, input: TensorType, weight_scale: Value
) -> Value:
    """Emit the result of a quantized product *node* of *input* for its *sums* of int32."""
    emit, rank = builder.emit, sums.type.rank
    scale = number(builder, input.quantization[0], FLOAT32, rank, "scale")
    each = _reshaped(builder, weight_scale, (*(1,) * (rank - 1), -1))
    factor = emit(Mul(scale, each))
    if not node.type.is_quantized:
        real = emit(Mul(emit(ConvertTo(sums, FLOAT32)), factor))
        return as_kind(builder, real, node.kind)
    multiplier = emit(Div(factor, number(builder, node.type.scale, FLOAT32, rank, "scale")))
    return requantized(builder, node, sums, multiplier)


def requantized(builder: Builder, node: Any, sums: Value, multiplier: Value) -> Value:
    """Emit *sums* of int32 times *multiplier*, rounded to the quantized type of *node*."""
    kind = node.type.kind
    offset = number(builder, node.offset, kind, sums.type.rank, "offset")
    integers = builder.emit(Requantize(sums, multiplier, offset, kind=kind))
    return as_type(builder, integers, node.type)


def _reshaped(builder: Builder, value: Value, shape: tuple[int, ...]) -> Value:
    """Emit *value* with another *shape*, in which -1 means its size.

    Of a constant it is one, too, so that the numbers are still known.
    """
    sizes = tuple(value.type.size if n < 0 else n for n in shape)
    numbers = array_of(value)
    if numbers is None:
        return builder.emit(Reshape(value, sizes))
    return builder.constant(value.name, numbers.reshape(sizes))


def _bias_without_offset(
    builder: Builder, bias: Value, weights: Value, axes: tuple[int, ...], input: TensorType
) -> Value:
    """Emit *bias* less the offset of *input* times the sums of *weights* over *axes*."""
    if not input.offset:
        return bias
    return builder.emit(Add(bias, _offset_times_sums(builder, weights, axes, -input.offset)))


def _offset_times_sums(
    builder: Builder, weights: Value, axes: tuple[int, ...], offset: int
) -> Value:
    """Emit *offset* times the sums of *weights* over *axes*, which disappear."""
    wide = as_kind(builder, weights, INT32)
    sums = builder.emit(ReduceSum(wide, axes, keep_dims=False))
    return builder.emit(Mul(sums, number(builder, offset, INT32, sums.type.rank, "offset")))
