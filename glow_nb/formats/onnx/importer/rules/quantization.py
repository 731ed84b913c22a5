"""Quantized operators: ``real = (stored - zero_point) * scale``.

To quantize: divide, round half to even, add the zero point, saturate. Where scale and zero point
are known and there is one for the tensor, they become its type; passes make integer arithmetic of
what stands between. Else they are operands.
"""

from __future__ import annotations

import numpy as np

from glow_nb.base.conversion import is_small_float
from glow_nb.base.size import same_shape
from glow_nb.base.types import QUANTIZED, ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.conversion import unsaturated
from glow_nb.formats.onnx.importer.rules.convolution import convolve, window_over
from glow_nb.formats.onnx.importer.rules.matrix import matrix_product
from glow_nb.formats.onnx.importer.zero_points import along, without_zero_point
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.ops.formulas.terms import where
from glow_nb.hlir.ops.linear_quantization import NARROW
from glow_nb.hlir.ops.quantization import ACTIVATIONS

INT32, FLOAT32, FLOAT64 = ElementKind.INT32, ElementKind.FLOAT32, ElementKind.FLOAT64
ONNX_RUNTIME = "com.microsoft"

_INTEGERS = frozenset(
    ElementKind(name) for name in "int8 uint8 int16 uint16 int32 int4 uint4 int2 uint2".split()
)


@onnx_op("DequantizeLinear")
@onnx_op("DequantizeLinear", since=1, domain=ONNX_RUNTIME)
def dequantize(ctx: Context, node: OnnxNode) -> Value:
    """``(x - zero_point) * scale``, both for the tensor, along an axis, or by blocks."""
    x, scale = node.operand(0), node.operand(1)
    kind = scale.type.kind
    if node.has("output_dtype") and node.integer("output_dtype"):
        kind = ctx.kind(node.integer("output_dtype"))
    if kind is not scale.type.kind and scale.type.kind is not FLOAT64:
        scale = ctx.convert(fixed(ctx, scale), FLOAT32)  # so that the product is rounded once
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    real = dequantized(ctx, x, scale, node.optional(2), axis=axis, block=block)
    return ctx.convert(real, kind)


def dequantized(
    ctx: Context, x: Value, scale: Value, zero: Value | None, *, axis: int = 1, block: int = 0
) -> Value:
    """Return the floats that the stored *x* represents, in the kind of *scale*."""
    if zero is not None and zero.type.kind is not x.type.kind:
        raise ctx.wrong(f"zero point {zero} must be of the kind of {x}; export the model again")
    if is_small_float(x.type.kind):
        _require_zero(ctx, zero)
        whole, factor = _beside(ctx, x, axis, block, scale)
        real = ctx.emit(ops.Mul(ctx.convert(whole, scale.type.kind), factor))
        return ctx.reshape(real, x.type.shape)
    known = _known(scale, zero)
    if known is not None and x.type.kind in QUANTIZED:
        number, offset = known
        return ctx.emit(ops.Dequantize(ctx.emit(ops.AsQuantized(x, scale=number, offset=offset))))
    whole, factor, zeros = _beside(ctx, x, axis, block, scale, _or_zero(ctx, zero, x.type.kind))
    return ctx.reshape(_linear(ctx, whole, factor, zeros), x.type.shape)


def _linear(ctx: Context, x: Value, scale: Value, zero: Value) -> Value:
    """Return ``(x - zero) * scale``, the difference in int32."""
    if scale.type.kind in ops.DequantizeLinear.scale_kinds:
        return ctx.emit(ops.DequantizeLinear(x, scale, zero))
    difference = ops.Sub(ctx.convert(x, INT32), ctx.convert(zero, INT32))
    return ctx.emit(ops.Mul(ctx.convert(ctx.emit(difference), scale.type.kind), scale))


def _or_zero(ctx: Context, zero: Value | None, kind: ElementKind) -> Value:
    """Return a zero point of *kind*, 0 if there is none."""
    if zero is None:
        return ctx.filled(TensorType(kind, ()), 0)
    return ctx.convert(zero, kind)


def _require_zero(ctx: Context, zero: Value | None) -> None:
    """Raise ModelError if the zero point of floats is known and is not zero."""
    if isinstance(zero, Constant) and zero.array.astype(np.float32).any():
        raise ctx.wrong(f"zero point {zero} of floats must be zero; export the model again")


def _known(scale: Value, zero: Value | None) -> tuple[float, int] | None:
    """Return the one scale, a float32, and the one offset of a tensor, if both are known."""
    if not isinstance(scale, Constant) or scale.type.kind is not FLOAT32 or scale.type.size != 1:
        return None
    if zero is None:
        return float(scale.array.item()), 0
    if not isinstance(zero, Constant) or zero.type.size != 1:
        return None
    return float(scale.array.item()), int(zero.array.item())


def _beside(ctx: Context, x: Value, axis: int, block: int, *parameters: Value) -> tuple[Value, ...]:
    """Return *x* and scales or zero points that broadcast to it.

    With blocks *x* gets another axis, of the places of a block, if they divide its size.
    """
    rank, shape = x.type.rank, x.type.shape
    parameters = tuple(fixed(ctx, parameter) for parameter in parameters)
    if not block:
        return (x, *(_along(ctx, x, parameter, axis) for parameter in parameters))
    axis = ctx.axis(axis, rank)
    blocks = -(-shape[axis] // max(block, 1))
    wanted = (*shape[:axis], blocks, *shape[axis + 1 :])
    parameters = tuple(ctx.broadcast(p, wanted) if p.type.size == 1 else p for p in parameters)
    for parameter in parameters:
        if block < 1 or not same_shape(parameter.type.shape, wanted):
            raise ctx.wrong(
                f"{parameter} must have one number for each {block} of axis {axis} of {x}"
            )
    if shape[axis] % block:
        places = ctx.constant(np.arange(shape[axis], dtype=np.int64) // block)
        return (x, *(ctx.emit(ops.Gather(p, places, axis=axis)) for p in parameters))
    whole = ctx.reshape(x, (*shape[:axis], blocks, block, *shape[axis + 1 :]))
    one = (*shape[:axis], blocks, 1, *shape[axis + 1 :])
    return (whole, *(ctx.reshape(parameter, one) for parameter in parameters))


def fixed(ctx: Context, parameter: Value) -> Value:
    """Return a known scale as a number that is not trained, so that it is known when reshaped."""
    if isinstance(parameter, Constant) and parameter.is_weight:
        return ctx.constant(parameter.array, parameter.name)
    return parameter


def _along(ctx: Context, x: Value, parameter: Value, axis: int) -> Value:
    """Return one number, or one for each place of *axis*, so that it broadcasts to *x*."""
    rank = x.type.rank
    if parameter.type.size == 1:
        return ctx.reshape(parameter, (1,) * rank)
    axis = ctx.axis(axis, rank)
    if not same_shape(parameter.type.shape, (x.type.shape[axis],)):
        raise ctx.wrong(f"{parameter} must have one number for each of axis {axis} of {x}")
    return along(ctx, parameter, axis, rank)


@onnx_op("QuantizeLinear", stepwise=True)
@onnx_op("QuantizeLinear", since=1, domain=ONNX_RUNTIME, stepwise=True)
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
    work = work if work.is_float else FLOAT32
    x, scale = ctx.convert(x, work), ctx.convert(scale, work)
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    if not is_small_float(kind):
        return quantized(ctx, x, scale, zero, kind, axis=axis, block=block)
    _require_zero(ctx, zero)
    whole, divisor = _beside(ctx, x, axis, block, scale)
    ratio = ctx.reshape(ctx.emit(ops.Div(whole, divisor)), x.type.shape)
    saturates = node.flag("saturate", True)
    return ctx.convert(ratio, kind) if saturates else unsaturated(ctx, ratio, kind)


def quantized(
    ctx: Context,
    x: Value,
    scale: Value,
    zero: Value | None,
    kind: ElementKind,
    *,
    axis: int = 1,
    block: int = 0,
) -> Value:
    """Return the integers of *kind* that represent the floats *x*, which are of *scale*'s kind."""
    if kind not in _INTEGERS:
        raise ctx.unsupported(f"quantization to {kind.value}")
    known = _known(scale, zero)
    if known is not None and kind in ACTIVATIONS:
        number, offset = known
        typed = ctx.emit(ops.Quantize(x, kind=kind, scale=number, offset=offset))
        return ctx.emit(ops.Stored(typed))
    zeros = _or_zero(ctx, zero, kind)
    whole, divisor, zeros = _beside(ctx, x, axis, block, scale, zeros)
    if scale.type.kind is FLOAT32 and kind in NARROW:
        stored = ctx.emit(ops.QuantizeLinear(whole, divisor, zeros, kind=kind))
    else:
        stored = _saturated(ctx, ctx.emit(ops.Div(whole, divisor)), zeros, kind)
    return ctx.reshape(stored, x.type.shape)


def _saturated(ctx: Context, ratio: Value, zero: Value, kind: ElementKind) -> Value:
    """Return *ratio* rounded, shifted by the zero point and saturated to *kind*."""
    # float16 has too few digits for zero points of 16 bits.
    work = FLOAT64 if ratio.type.kind is FLOAT64 else FLOAT32
    rounded = ctx.emit(ops.Round(ctx.convert(ratio, work)))
    shifted = ctx.emit(ops.Add(rounded, ctx.convert(zero, work)))
    least, greatest = kind.limits
    clipped = ctx.emit(ops.Clip(shifted, minimum=float(least), maximum=float(greatest)))
    return ctx.emit(ops.ConvertTo(clipped, kind))


@onnx_op("DynamicQuantizeLinear", stepwise=True)
def dynamically_quantized(ctx: Context, node: OnnxNode) -> tuple[Value, Value, Value]:
    """The integers of uint8, and the scale and the zero point that let them reach over all of x.

    The scale is 1, as in ONNX Runtime, where it would be 0: it is divided by, here and later.
    """
    x, axes = node.operand(0), tuple(range(node.operand(0).type.rank))
    low = ctx.term(ctx.emit(ops.ReduceMin(x, axes, keep_dims=False))).joined(ops.Minimum, 0.0)
    high = ctx.term(ctx.emit(ops.ReduceMax(x, axes, keep_dims=False))).joined(ops.Maximum, 0.0)
    step = (high - low) / float(ElementKind.UINT8.limits[1])
    scale = where(step.equals(0.0), 1.0, step)
    zero = step.number(0.0)
    offset = _saturated(ctx, (zero - low / scale).value, zero.value, ElementKind.UINT8)
    return quantized(ctx, x, scale.value, offset, ElementKind.UINT8), scale.value, offset


@onnx_op("QLinearMatMul")
def quantized_mat_mul(ctx: Context, node: OnnxNode) -> Value:
    """Product of quantized matrices, quantized again: exact in int32, then scaled once."""
    a, b = node.operand(0), node.operand(3)
    input, result = _known(*_pair(node, 1)), _known(*_pair(node, 6))
    columns = _channels(ctx, node, 4, b.type.shape[-1])
    if input is None or result is None or columns is None or min(a.type.rank, b.type.rank) < 2:
        return _product_of_run_time_scales(ctx, node)
    scale, offset = columns
    kind = node.operand(7).type.kind

    def product(lhs: Value, rhs: Value) -> Node:
        return ops.QuantizedMatMul(
            lhs, rhs, scale, offset, kind=kind, scale=result[0], offset=result[1]
        )

    typed = ctx.emit(ops.AsQuantized(a, scale=input[0], offset=input[1]))
    made = ctx.emit(matrix_product(ctx, typed, b, product))
    return ops.Stored(made)


def _pair(node: OnnxNode, first: int) -> tuple[Value, Value]:
    return node.operand(first), node.operand(first + 1)


def _channels(ctx: Context, node: OnnxNode, first: int, depth: int) -> tuple[Value, Value] | None:
    """Return a scale and an offset for the tensor, or one for each channel, as vectors."""
    scale, zero = _pair(node, first)
    if any(p.type.shape not in ((), (1,), (depth,)) for p in (scale, zero)):
        return None
    offset = ctx.convert(zero, INT32)
    return ctx.reshape(scale, (scale.type.size,)), ctx.reshape(offset, (zero.type.size,))


def _product_of_run_time_scales(ctx: Context, node: OnnxNode) -> Value:
    a, b = node.operand(0), node.operand(3)
    lhs = without_zero_point(ctx, a, node.operand(2), a.type.rank - 2)
    rhs = without_zero_point(ctx, b, node.operand(5), b.type.rank - 1)
    product = ctx.emit(matrix_product(ctx, lhs, rhs))
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
    x, filter, bias = node.operand(0), node.operand(3), node.optional(8)
    input, result = _known(*_pair(node, 1)), _known(*_pair(node, 6))
    channels = _channels(ctx, node, 4, filter.type.shape[0])
    if input is None or result is None or channels is None:
        return _convolution_of_run_time_scales(ctx, node)
    window = window_over(ctx, node, x, filter)
    if bias is None:
        bias = ctx.filled(TensorType(INT32, ()), 0, filter.type.shape[:1])
    typed = ctx.emit(ops.AsQuantized(ctx.channels_last(x), scale=input[0], offset=input[1]))
    convolution = ops.QuantizedConvolution(
        typed,
        ctx.channels_last(filter),
        bias,
        *channels,
        **window.attributes,
        group=node.integer("group"),
        kind=node.operand(7).type.kind,
        scale=result[0],
        offset=result[1],
    )
    return ctx.channels_first(ctx.emit(ops.Stored(ctx.emit(convolution))))


def _convolution_of_run_time_scales(ctx: Context, node: OnnxNode) -> Value:
    x, filter = node.operand(0), node.operand(3)
    _require_one(ctx, node, 1, 6)
    scale, depth = node.operand(4), filter.type.shape[0]
    if scale.type.size not in (1, depth):
        raise ctx.wrong(f"{scale} must be one number, or {depth} for the filters of {filter}")
    result = convolve(
        ctx,
        node,
        without_zero_point(ctx, x, node.operand(2), 1),
        without_zero_point(ctx, filter, node.operand(5), 0),
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


def _require_one(ctx: Context, node: OnnxNode, *places: int) -> None:
    """Raise ModelError unless scales, and the zero points after them, are one number each."""
    for place in places:
        for parameter in _pair(node, place):
            if parameter.type.size != 1:
                raise ctx.wrong(f"{parameter} must be one number, for the whole tensor")


def _factor(ctx: Context, lhs: Value, rhs: Value, result: Value) -> Value:
    scales = [ctx.convert(scale, FLOAT32) for scale in (lhs, rhs, result)]
    return ctx.emit(ops.Div(ctx.emit(ops.Mul(scales[0], scales[1])), scales[2]))


def _requantized(ctx: Context, sums: Value, factor: Value, zero: Value) -> Value:
    rank = sums.type.rank
    zeros = along(ctx, zero, rank - 2, rank)
    return ctx.emit(ops.Requantize(sums, factor, zeros, kind=zero.type.kind))
