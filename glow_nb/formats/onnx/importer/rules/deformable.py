"""Deformable convolution: each tap of the window is read where an offset moves it to.

The taps of all windows are sampled, as rows of channels, and multiplied by the filters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from glow_nb.base.size import same_shape, symbols_of
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.grid_sample import require_few_taps
from glow_nb.formats.onnx.importer.windows import window_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.counting import counting
from glow_nb.hlir.ops.formulas.sampling import ELEMENTS, LINEAR, TAPS, ZEROS
from glow_nb.hlir.ops.sizes import size_value
from glow_nb.hlir.ops.windows import Window


@onnx_op("DeformConv", since=19)
def deformable_convolution(ctx: Context, node: OnnxNode) -> Value:
    """Convolve ``[N, C, *in]`` with filters ``[K, C / group, *kernel]`` at moved taps.

    The offsets are ``[N, offset_group * taps * rank, *out]``, the masks, which are factors,
    ``[N, offset_group * taps, *out]``; what lies outside of the input is 0.
    """
    layer = _layer_of(ctx, node)
    require_few_taps(ctx, TAPS[LINEAR] ** len(layer.out))
    last = ctx.channels_last(node.operand(0))
    moved = [_moved(ctx, layer, last, number) for number in range(layer.offset_group)]
    columns = moved[0] if len(moved) == 1 else ctx.emit(ops.Concat(tuple(moved), axis=3))
    return ctx.channels_first(_product(ctx, node, layer, columns))


@dataclass(frozen=True)
class _Layer:
    """The sizes of a deformable convolution.

    Attributes:
        batch, channels, depth: Samples, channels of the input, channels of the result.
        spatial, out: Sizes of the input and of the result.
        window: The window without offsets.
        group, offset_group: Parts of the channels with filters, and with offsets, of their own.
        offset, mask: The operands, ``[N, offset_group, taps, rank, *out]`` and
            ``[N, offset_group, taps, *out]``.
    """

    batch: int
    channels: int
    depth: int
    spatial: tuple[int, ...]
    out: tuple[int, ...]
    window: Window
    group: int
    offset_group: int
    offset: Value
    mask: Value | None

    @property
    def taps(self) -> int:
        """Taps of a window."""
        return prod(self.window.kernel)


def _layer_of(ctx: Context, node: OnnxNode) -> _Layer:
    """Return the sizes; raise ModelError if the operands do not fit each other."""
    x, filter, offset, mask = (*(node.operand(i) for i in range(3)), node.optional(4))
    rank, shape = x.type.rank - 2, filter.type.shape
    if rank < 1 or len(shape) != rank + 2 or offset.type.rank != rank + 2:
        raise ctx.wrong(f"filter {filter} and offset {offset} do not fit input {x}")
    group, offset_group = node.integer("group"), node.integer("offset_group")
    batch, channels, *spatial = x.type.shape
    if (
        min(group, offset_group) < 1
        or channels % offset_group
        or shape[0] % group
        or channels != shape[1] * group
    ):
        raise ctx.wrong(
            f"filter {filter} does not fit input {x} in {group} groups and {offset_group} groups "
            "of offsets"
        )
    if node.integers("kernel_shape", shape[2:]) != shape[2:]:
        raise ctx.wrong(f"kernel_shape {node.integers('kernel_shape')} is not that of {filter}")
    window = window_of(ctx, node, tuple(spatial), shape[2:])
    out = window.places(tuple(spatial))
    taps = prod(shape[2:])
    wanted = (batch, offset_group * taps * rank, *out)
    factors = (batch, offset_group * taps, *out)
    is_like = same_shape(offset.type.shape, wanted)
    if not is_like or (mask is not None and not same_shape(mask.type.shape, factors)):
        raise ctx.wrong(
            f"offset {offset} must be {list(wanted)}, and mask {mask} be {list(factors)} or absent"
        )
    if mask is not None:
        mask = ctx.reshape(mask, (batch, offset_group, taps, *out))
    offset = ctx.reshape(offset, (batch, offset_group, taps, rank, *out))
    return _Layer(
        batch, channels, shape[0], tuple(spatial), out, window, group, offset_group, offset, mask
    )


def _moved(ctx: Context, layer: _Layer, x: Value, number: int) -> Value:
    """Return the taps of offset group *number*, ``[N, out, taps, C / offset_group]``."""
    share = layer.channels // layer.offset_group
    part = ctx.part(x, x.type.rank - 1, number * share, share)
    grid = _places(ctx, layer, ctx.part(layer.offset, 1, number, 1))
    sampled = ops.GridSample(part, grid, mode=LINEAR, padding=ZEROS, coordinates=ELEMENTS)
    columns = ctx.emit(sampled)
    if layer.mask is None:
        return columns
    mask = ctx.part(layer.mask, 1, number, 1)
    factors = ctx.transpose(
        ctx.reshape(mask, (layer.batch, layer.taps, prod(layer.out))), (0, 2, 1)
    )
    factors = ctx.convert(ctx.reshape(factors, (*factors.type.shape, 1)), columns.type.kind)
    return ctx.emit(ops.Mul(columns, factors))


def _places(ctx: Context, layer: _Layer, offsets: Value) -> Value:
    """Return where the taps lie, ``[N, out, taps, rank]``."""
    count, rank = prod(layer.out), len(layer.out)
    if not symbols_of(count):
        ctx.spend(count * layer.taps * rank * layer.offset.type.kind.size_bytes)
    moves = ctx.reshape(offsets, (layer.batch, layer.taps, rank, count))
    moves = ctx.transpose(moves, (0, 3, 1, 2))
    columns = [_column(ctx, layer, axis) for axis in range(rank)]
    grid = ctx.reshape(ctx.emit(ops.Concat(tuple(columns), axis=2)), (1, count, layer.taps, rank))
    return ctx.emit(ops.Add(moves, ctx.convert(grid, moves.type.kind)))


def _column(ctx: Context, layer: _Layer, axis: int) -> Value:
    """Return where the taps lie along *axis* without their offsets, ``[out, taps, 1]``."""
    window, out = layer.window, layer.out
    first = ctx.term(counting(ctx, out[axis])) * window.stride[axis]
    begin = size_value(ctx.builder, first.value.type, window.pads[axis], "pad")
    first = first - ctx.term(begin)
    column = ctx.reshape(first.value, [n if i == axis else 1 for i, n in enumerate(out)])
    starts = ctx.reshape(ctx.broadcast(column, out), (prod(out), 1, 1))
    taps = np.indices(window.kernel)[axis].reshape(1, layer.taps, 1) * window.dilation[axis]
    return ctx.emit(ops.Add(starts, ctx.constant(taps)))


def _product(ctx: Context, node: OnnxNode, layer: _Layer, columns: Value) -> Value:
    """Return ``[N, *out, K]``: the taps ``[N, out, taps, C]`` times the filters, and the bias."""
    group, rows = layer.group, layer.batch * prod(layer.out)
    inner, depth = layer.channels // group, layer.depth // group
    split = ctx.reshape(columns, (rows, layer.taps, group, inner))
    lhs = ctx.reshape(ctx.transpose(split, (2, 0, 1, 3)), (group, rows, layer.taps * inner))
    filters = ctx.reshape(node.operand(1), (group, depth, inner, layer.taps))
    rhs = ctx.reshape(ctx.transpose(filters, (0, 3, 2, 1)), (group, layer.taps * inner, depth))
    result = ctx.transpose(ctx.emit(ops.MatMul(lhs, rhs)), (1, 0, 2))
    result = ctx.reshape(result, (layer.batch, *layer.out, layer.depth))
    bias = node.optional(3)
    if bias is None:
        return result
    row = ctx.with_rank(bias, result.type.rank)
    return ctx.emit(ops.Add(result, row))
