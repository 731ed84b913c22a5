"""Convolutions: channels go last, filters are reordered at once."""

from __future__ import annotations

from glow_nb.base.types import TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.windows import window_of
from glow_nb.formats.onnx.importer.zero_points import without_zero_point
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.families import sum_kind
from glow_nb.hlir.ops.windows import Window


@onnx_op("Conv")
def convolution(ctx: Context, node: OnnxNode) -> Value:
    """``[N, C, ...]`` with filters ``[K, C / group, ...]`` in 1 to 3 spatial dimensions."""
    return convolve(ctx, node, node.operand(0), node.operand(1), node.optional(2))


def convolve(ctx: Context, node: OnnxNode, x: Value, filter: Value, bias: Value | None) -> Value:
    """Return the convolution of *x* and *filter*, both in ONNX's layout."""
    window = window_over(ctx, node, x, filter)
    return emit_convolution(ctx, x, filter, bias, window, node.integer("group"))


def window_over(ctx: Context, node: OnnxNode, x: Value, filter: Value) -> Window:
    """Return the window by which *filter* slides over *x*, both in ONNX's layout."""
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
    return window_of(ctx, node, x.type.shape[2:], kernel)


def emit_convolution(
    ctx: Context, x: Value, filter: Value, bias: Value | None, window: Window, group: int
) -> Value:
    """Return the convolution of *x*, all in ONNX's layout."""
    depth = filter.type.shape[0]
    kind = sum_kind(x.type.kind, filter.type.kind) or x.type.kind
    result = ops.Convolution(
        ctx.channels_last(x),
        ctx.channels_last(filter),
        bias if bias is not None else ctx.filled(TensorType(kind, ()), 0, (depth,)),
        **window.attributes,
        group=group,
    )
    return ctx.channels_first(ctx.emit(result))


@onnx_op("ConvInteger")
def convolution_of_integers(ctx: Context, node: OnnxNode) -> Value:
    """Convolution of 8-bit integers with their zero points subtracted, as int32."""
    x = without_zero_point(ctx, node.operand(0), node.optional(2), -1)
    filter = without_zero_point(ctx, node.operand(1), node.optional(3), 0)
    return convolve(ctx, node, x, filter, None)
