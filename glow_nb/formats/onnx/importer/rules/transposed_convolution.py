"""Transposed convolutions: channels go last, filters are reordered at once."""

from __future__ import annotations

from glow_nb.base.size import same_shape
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.windows import auto_pad_of, window_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.windows import Window


@onnx_op("ConvTranspose")
def transposed_convolution(ctx: Context, node: OnnxNode) -> Value:
    """The gradient of a convolution, with filters ``[C, K / group, ...]``.

    ``out = stride * (in - 1) + output_padding + span - begin - end``.
    """
    x, filter, bias = node.operand(0), node.operand(1), node.optional(2)
    rank = x.type.rank - 2
    if filter.type.rank != rank + 2 or rank < 1:
        raise ctx.wrong(f"filter {filter} does not fit input {x}")
    group, kernel = node.integer("group"), filter.type.shape[2:]
    channels = filter.type.shape[0]
    if group < 1 or channels % group or channels != x.type.shape[1]:
        raise ctx.wrong(f"filter {filter} does not fit input {x} in {group} groups")
    window = window_of(ctx, node, x.type.shape[2:], kernel)
    begins, ends = _transposed_pads(ctx, node, x.type.shape[2:], window)
    value = _spread(ctx, x, filter, window, begins, ends, group)
    if bias is not None:
        depth = value.type.shape[-1:]
        if not same_shape(bias.type.shape, depth):
            raise ctx.wrong(f"bias {bias} must have the shape {list(depth)}, one for each filter")
        value = ctx.emit(ops.Add(value, ctx.reshape(bias, (*(1,) * (rank + 1), *depth))))
    return ctx.channels_first(value)


def _spread(
    ctx: Context,
    x: Value,
    filter: Value,
    window: Window,
    begins: list[int],
    ends: list[int],
    group: int,
) -> Value:
    """Return the result, channels last, with *begins* and *ends* cut off.

    A negative end is that of a larger result. A stride can leave over less than itself; what is
    more than that is zeros.
    """
    spare = [min(s - 1, max(-end, 0)) for s, end in zip(window.stride, ends, strict=True)]
    pads = (*begins, *(max(end, 0) for end in ends))
    full = _full_size(x.type.shape[2:], window)
    cut = [b + max(end, 0) - more for b, end, more in zip(begins, ends, spare, strict=True)]
    size = tuple(n - less for n, less in zip(full, cut, strict=True))
    if any(n < 0 for n in size):
        raise ctx.wrong(f"pads {list(pads)} leave nothing of a result of size {full}")
    spread = ops.TransposedConvolution(
        ctx.channels_last(x),
        ctx.channels_last(filter),
        kernel=window.kernel,
        stride=window.stride,
        pads=pads,
        dilation=window.dilation,
        size=size,
        group=group,
    )
    value = ctx.emit(spread)
    missing = [max(-end, 0) - more for end, more in zip(ends, spare, strict=True)]
    if not any(missing):
        return value
    return ctx.emit(ops.Pad(value, pads=(*(0,) * (len(size) + 3), *missing, 0)))


def _full_size(spatial: tuple[int, ...], window: Window) -> list[int]:
    """Return the spatial sizes of all that the input reaches."""
    return [
        s * (n - 1) + span for n, s, span in zip(spatial, window.stride, window.span, strict=True)
    ]


def _transposed_pads(
    ctx: Context, node: OnnxNode, spatial: tuple[int, ...], window: Window
) -> tuple[list[int], list[int]]:
    """Return how much is cut off the full result at begin and end; the end may be negative."""
    rank = len(spatial)
    extra = node.integers("output_padding", (0,) * rank)
    shape = node.integers("output_shape", ())[-rank:]
    mode = auto_pad_of(node)
    if len(extra) != rank or len(shape) not in (0, rank):
        raise ctx.wrong(f"output_padding and output_shape must have {rank} numbers each")
    full = _full_size(spatial, window)
    if not shape and mode in ("NOTSET", "VALID"):
        ends = [end - more for end, more in zip(window.pads[rank:], extra, strict=True)]
        return list(window.pads[:rank]), ends
    wanted = shape or tuple(n * s for n, s in zip(spatial, window.stride, strict=True))
    totals = [n + more - w for n, more, w in zip(full, extra, wanted, strict=True)]
    halves = [max(total, 0) // 2 for total in totals]
    if mode != "SAME_UPPER":
        halves = [max(total, 0) - half for total, half in zip(totals, halves, strict=True)]
    # The result has the wanted size: padding on demand is no padding of the crop.
    ends = [n - w - half for n, w, half in zip(full, wanted, halves, strict=True)]
    return halves, ends
