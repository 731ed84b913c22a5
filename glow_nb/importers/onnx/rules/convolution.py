"""Convolutions: channels go last, filters are reordered at once."""

from __future__ import annotations

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.importers.onnx.context import Context
from glow_nb.importers.onnx.node import OnnxNode
from glow_nb.importers.onnx.registry import onnx_op
from glow_nb.importers.onnx.windows import Window, window_of
from glow_nb.types import ElementKind


@onnx_op("Conv")
def convolution(ctx: Context, node: OnnxNode) -> Value:
    """``[N, C, ...]`` with filters ``[K, C / group, ...]`` in 1 to 3 spatial dimensions."""
    return convolve(ctx, node, node.operand(0), node.operand(1), node.optional(2))


def convolve(ctx: Context, node: OnnxNode, x: Value, filter: Value, bias: Value | None) -> Value:
    """Return the convolution of *x* and *filter*, both in ONNX's layout."""
    rank = x.type.rank
    if filter.type.rank != rank or rank < 3:
        raise ctx.wrong(
            f"filter {filter} must be [K, C / group, kernel...] with the {rank} dimensions of "
            f"input {x}"
        )
    kernel = filter.type.shape[2:]
    if node.integers("kernel_shape", kernel) != kernel:
        raise ctx.wrong(
            f"kernel_shape is {list(node.integers('kernel_shape'))}, but the filter is {filter}"
        )
    window = window_of(ctx, node, x.type.shape[2:], kernel)
    group = node.integer("group")
    return emit_convolution(ctx, x, filter, bias, window, group)


def emit_convolution(
    ctx: Context, x: Value, filter: Value, bias: Value | None, window: Window, group: int
) -> Value:
    """Return the convolution of *x*, all in ONNX's layout."""
    depth = filter.type.shape[0]
    result = ops.Convolution(
        ctx.channels_last(x),
        ctx.channels_last(filter),
        bias if bias is not None else ctx.filled(x.type, 0, (depth,)),
        kernel=window.kernel,
        stride=window.stride,
        pads=window.pads,
        dilation=window.dilation,
        group=group,
    )
    return ctx.channels_first(ctx.emit(result))


@onnx_op("ConvInteger")
def convolution_of_integers(ctx: Context, node: OnnxNode) -> Value:
    """Convolution of 8-bit integers with their zero points subtracted, as int32."""
    x, filter = node.operand(0), node.operand(1)
    return convolve(
        ctx,
        node,
        _centred(ctx, x, node.optional(2)),
        _centred(ctx, filter, node.optional(3)),
        None,
    )


def _centred(ctx: Context, value: Value, zero: Value | None) -> Value:
    """Return *value* - *zero* as int32; zero points go by the first dimension."""
    wide = ctx.convert(value, ElementKind.INT32)
    if zero is None:
        return wide
    zero = ctx.convert(zero, ElementKind.INT32)
    zero = ctx.reshape(zero, (zero.type.size, *(1,) * (value.type.rank - 1)))
    return ctx.emit(ops.Sub(wide, zero))
