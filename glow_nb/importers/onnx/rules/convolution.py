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
    return _emit(ctx, x, filter, bias, window, group)


def _emit(
    ctx: Context, x: Value, filter: Value, bias: Value | None, window: Window, group: int
) -> Value:
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


@onnx_op("ConvTranspose")
def transposed_convolution(ctx: Context, node: OnnxNode) -> Value:
    """The gradient of a convolution: one over the input with zeros between its elements.

    ``out = stride * (in - 1) + output_padding + span - begin - end``; the filter
    ``[C, K / group, ...]`` is turned around in space and applied with stride 1.
    """
    x, filter, bias = node.operand(0), node.operand(1), node.optional(2)
    rank = x.type.rank - 2
    if filter.type.rank != rank + 2 or rank < 1:
        raise ctx.wrong(f"filter {filter} does not fit input {x}")
    group, kernel = node.integer("group"), filter.type.shape[2:]
    channels = filter.type.shape[0]
    if group < 1 or channels % group or channels != x.type.shape[1]:
        raise ctx.wrong(f"filter {filter} does not fit input {x} in {group} groups")
    stride = node.integers("strides", (1,) * rank)
    window = window_of(ctx, node, x.type.shape[2:], kernel)
    begins, ends = _transposed_pads(ctx, node, x.type.shape[2:], window, stride)
    spread = _with_zeros_between(ctx, x, stride)
    cells = [span - 1 for span in window.span]
    pads = [cell - begin for cell, begin in zip(cells, begins, strict=True)]
    pads += [cell - end for cell, end in zip(cells, ends, strict=True)]
    # What the crop takes away may be more than a convolution can pad: pad apart.
    padded = ctx.emit(ops.Pad(spread, pads=(0, 0, *pads[:rank], 0, 0, *pads[rank:])))
    around = Window(kernel, (1,) * rank, (0,) * 2 * rank, window.dilation, (0,) * rank)
    return _emit(ctx, padded, _turned(ctx, filter, group), bias, around, group)


def _transposed_pads(
    ctx: Context,
    node: OnnxNode,
    spatial: tuple[int, ...],
    window: Window,
    stride: tuple[int, ...],
) -> tuple[list[int], list[int]]:
    """Return how much is cut off the full result at begin and end; the end may be negative."""
    rank = len(spatial)
    extra = node.integers("output_padding", (0,) * rank)
    shape = node.integers("output_shape", ())[-rank:]
    mode = node.text("auto_pad", "NOTSET")
    if len(extra) != rank or len(shape) not in (0, rank):
        raise ctx.wrong(f"output_padding and output_shape must have {rank} numbers each")
    full = [s * (n - 1) + span for n, s, span in zip(spatial, stride, window.span, strict=True)]
    if not shape and mode in ("NOTSET", "VALID"):
        ends = [end - more for end, more in zip(window.pads[rank:], extra, strict=True)]
        return list(window.pads[:rank]), ends
    wanted = shape or tuple(n * s for n, s in zip(spatial, stride, strict=True))
    totals = [n + more - w for n, more, w in zip(full, extra, wanted, strict=True)]
    halves = [max(total, 0) // 2 for total in totals]
    if mode != "SAME_UPPER":
        halves = [max(total, 0) - half for total, half in zip(totals, halves, strict=True)]
    # The result has the wanted size: padding on demand is no padding of the crop.
    ends = [n - w - half for n, w, half in zip(full, wanted, halves, strict=True)]
    return halves, ends


def _with_zeros_between(ctx: Context, x: Value, stride: tuple[int, ...]) -> Value:
    """Return *x* with ``stride - 1`` zeros between its elements in each spatial dimension."""
    if all(s == 1 for s in stride):
        return x
    batch, channels, *spatial = x.type.shape
    apart = [n for size in spatial for n in (size, 1)]
    value = ctx.reshape(x, (batch, channels, *apart))
    ends = [n for s in stride for n in (0, s - 1)]
    value = ctx.emit(ops.Pad(value, pads=(*(0,) * value.type.rank, 0, 0, *ends)))
    value = ctx.reshape(
        value, (batch, channels, *(n * s for n, s in zip(spatial, stride, strict=True)))
    )
    return ctx.emit(ops.Pad(value, pads=(*(0,) * x.type.rank, 0, 0, *(1 - s for s in stride))))


def _turned(ctx: Context, filter: Value, group: int) -> Value:
    """Return ``[C, K / group, ...]`` as ``[K, C / group, ...]``, turned around in space."""
    channels, depth, *kernel = filter.type.shape
    rank = len(kernel)
    turned = ctx.emit(
        ops.Slice(
            filter,
            starts=(0, 0, *(k - 1 for k in kernel)),
            stops=(channels, depth, *(-1,) * rank),
            steps=(1, 1, *(-1,) * rank),
        )
    )
    grouped = ctx.reshape(turned, (group, channels // group, depth, *kernel))
    swapped = ctx.transpose(grouped, (0, 2, 1, *range(3, rank + 3)))
    return ctx.reshape(swapped, (group * depth, channels // group, *kernel))
