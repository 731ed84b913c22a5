"""Gathers, one-hot vectors, triangles, and what can be done with indices known at import."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.base.size import symbols_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.decided_operands import (
    counted_up,
    may_decide,
    size_from,
    term_of,
)
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.open_numbers import OpenNumbers
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.sequences import check_lengths
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops.counting import counting
from glow_nb.hlir.ops.counting import triangle as lower_triangle
from glow_nb.hlir.ops.formulas.terms import where


def check_indices(ctx: Context, indices: Value, size: int) -> None:
    """Raise ModelError if indices known now lie outside an axis of *size*."""
    if isinstance(indices, Constant):
        _check_places(ctx, indices.array, size)


def check_coordinates(ctx: Context, indices: Value, shape: tuple[int, ...]) -> None:
    """Raise ModelError if coordinates known now lie outside the first axes of *shape*."""
    if isinstance(indices, Constant) and indices.type.rank:
        for axis, size in enumerate(shape[: indices.type.shape[-1]]):
            _check_places(ctx, indices.array[..., axis], size)


def _check_places(ctx: Context, places: Array, size: int) -> None:
    if not places.size or places.dtype.kind not in "iu":  # the operator refuses other kinds
        return
    least, greatest = int(places.min()), int(places.max())
    if least < -size or greatest >= size:
        raise ctx.wrong(f"indices from {least} to {greatest} lie outside an axis of size {size!s}")


@onnx_op("Gather")
def gather(ctx: Context, node: OnnxNode) -> Value:
    """Whole slices along an axis."""
    x, indices = node.operand(0), node.operand(1)
    axis = ctx.axis(node.integer("axis"), x.type.rank)
    check_indices(ctx, indices, x.type.shape[axis])
    return ops.Gather(x, indices, axis=axis)


@onnx_op("GatherElements")
def gather_elements(ctx: Context, node: OnnxNode) -> Value:
    """Single elements along an axis."""
    x, indices = node.operand(0), node.operand(1)
    axis = ctx.axis(node.integer("axis"), x.type.rank)
    if not indices.type.size:
        return ctx.filled(x.type, 0, indices.type.shape)
    check_indices(ctx, indices, x.type.shape[axis])
    return ops.GatherElements(x, indices, axis=axis)


@onnx_op("GatherND")
def gather_nd(ctx: Context, node: OnnxNode) -> Value:
    """Slices at coordinates."""
    return ops.GatherND(node.operand(0), node.operand(1), batch_dims=node.integer("batch_dims", 0))


@onnx_op("OneHot")
def one_hot(ctx: Context, node: OnnxNode) -> Value:
    """``on`` where the index is the place along a new axis, else ``off``; negative from the end."""
    values = node.operand(2)
    if isinstance(node.operand(1), OpenNumbers):
        return _one_hot(ctx, node, ctx.known_integer(node.operand(1), "'depth'"))
    if may_decide(ctx, node.operand(1)):
        return _one_hot(ctx, node, size_from(ctx, node.operand(1), "'depth'"))
    depths = ctx.known(node.operand(1), "'depth'").reshape(-1)
    if depths.size != 1 or not 0 <= depths[0] < np.inf or values.type.shape != (2,):
        raise ctx.wrong(
            f"depth {depths.tolist()} must be one number of 0 or more, and {values} must be two, "
            "[off, on]"
        )
    depth = int(depths[0])
    ctx.spend(depth * 8)
    return _one_hot(ctx, node, depth)


def _one_hot(ctx: Context, node: OnnxNode, depth: int) -> Value:
    indices, values = node.operand(0), node.operand(2)
    rank = indices.type.rank + 1
    axis = ctx.axis(node.integer("axis"), rank)
    wide = ctx.convert(indices, ElementKind.INT64)
    shape = list(indices.type.shape)
    wide = ctx.reshape(wide, [*shape[:axis], 1, *shape[axis:]])
    index = ctx.term(wide)
    is_open = bool(symbols_of(depth))
    end = ctx.term(ctx.with_rank(term_of(ctx, depth).value, rank)) if is_open else depth
    place = where(index < 0, index + end, index)
    places = ctx.reshape(counted_up(ctx, depth), [depth if i == axis else 1 for i in range(rank)])
    off, on = ctx.emit_all(ops.Split(values, axis=0, sizes=(1, 1)))
    is_hit = place.equals(ctx.term(places)).value
    return ops.Select(is_hit, ctx.with_rank(on, rank), ctx.with_rank(off, rank))


@onnx_op("Trilu")
def triangle(ctx: Context, node: OnnxNode) -> Value:
    """The upper or lower triangle of matrices, from the ``k``-th diagonal on; else 0."""
    x, offset = node.operand(0), node.optional(1)
    k = 0
    if offset is not None:
        (k,) = ctx.known_integers(offset, "'k'")[:1] or (0,)
    if x.type.rank < 2:
        raise ctx.wrong(f"input {x} must be a matrix or several")
    rows, columns = x.type.shape[-2:]
    zero = ctx.number(x.type, 0)
    if symbols_of(rows, columns):
        lower = lower_triangle(ctx, rows, columns, k - 1 if node.flag("upper") else k)
        chosen = (zero, x) if node.flag("upper") else (x, zero)
        return ops.Select(ctx.with_rank(lower, x.type.rank), *chosen)
    ctx.spend(rows * columns)
    # Clamped, so that the difference cannot overflow.
    k = min(max(k, -rows), columns)
    diagonals = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    is_kept = ctx.constant(diagonals >= k if node.flag("upper") else diagonals <= k)
    return ops.Select(ctx.with_rank(is_kept, x.type.rank), x, zero)


@onnx_op("EyeLike")
def eye_like(ctx: Context, node: OnnxNode) -> Value:
    """Ones on the ``k``-th diagonal of a matrix of the operand's shape."""
    x = node.operand(0)
    if x.type.rank != 2:
        raise ctx.wrong(f"input {x} must be a matrix")
    kind = ctx.kind(node.integer("dtype")) if node.has("dtype") else x.type.kind
    rows, columns = x.type.shape
    if x.type.is_open:
        row = ctx.reshape(counting(ctx, rows, node.integer("k")), (rows, 1))
        column = ctx.reshape(counting(ctx, columns), (1, columns))
        return ctx.convert(ctx.emit(ops.Equal(row, column)), kind)
    ctx.spend(x.type.size * kind.size_bytes)
    k = min(max(node.integer("k"), -rows), columns)
    return ctx.constant(np.eye(rows, columns, k).astype(kind.dtype))


@onnx_op("Compress")
def compress(ctx: Context, node: OnnxNode) -> Value:
    """The slices whose condition is true."""
    x, condition = node.operand(0), node.operand(1)
    if condition.type.rank != 1 or condition.type.kind is not ElementKind.BOOL:
        raise ctx.wrong(f"the condition must be a bool vector, it is {condition}")
    axis = 0
    if node.has("axis"):
        axis = ctx.axis(node.integer("axis"), x.type.rank)
    else:
        x = ctx.reshape(x, (x.type.size,))
    if condition.type.size > x.type.shape[axis]:
        raise ctx.wrong(f"condition {condition} is longer than axis {axis} of {x}")
    (places,) = ctx.emit_counted(ops.NonZero(condition), (1,))
    return ops.Gather(x, ctx.reshape(places, (places.type.size,)), axis=axis)


@onnx_op("NonZero")
def non_zero(ctx: Context, node: OnnxNode) -> Value:
    """The coordinates of what is not zero, ``[rank, count]``."""
    x = node.operand(0)
    return ctx.emit_counted(ops.NonZero(x if x.type.rank else ctx.reshape(x, (1,))), (1,))[0]


@onnx_op("NonMaxSuppression", since=10)
def non_max_suppression(ctx: Context, node: OnnxNode) -> Value:
    """Rows ``batch class box`` of the boxes that are the best of those around."""
    limits = node.optional(2)
    limit = 0 if limits is None else ctx.known_integer(limits, "the number of boxes")
    overlap, threshold = (
        ctx.constant(np.full((), default, np.float32)) if value is None else ctx.reshape(value, ())
        for value, default in ((node.optional(3), 0), (node.optional(4), -np.inf))
    )
    suppression = ops.NonMaxSuppression(
        node.operand(0),
        node.operand(1),
        overlap,
        threshold,
        limit=max(limit, 0),
        is_centered=node.flag("center_point_box"),
    )
    return ctx.emit_counted(suppression, (0,))[0]


@onnx_op("Unique", since=11)
def unique(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """The distinct slices along an axis, or numbers; first places, inverse and counts."""
    x = node.operand(0)
    if node.has("axis"):
        axis = ctx.axis(node.integer("axis"), x.type.rank)
    else:
        x, axis = ctx.reshape(x, (x.type.size,)), 0
    order = (axis, *(other for other in range(x.type.rank) if other != axis))
    front = ctx.transpose(x, order)
    rows = ctx.reshape(front, (front.type.shape[0], prod(front.type.shape[1:])))
    distinct = ops.Unique(rows, sorted=node.flag("sorted"))
    indices, inverse, counts = ctx.emit_counted(distinct, (0, None, 0))
    return ctx.emit(ops.Gather(x, indices, axis=axis)), indices, inverse, counts


@onnx_op("Shape")
def shape_of(ctx: Context, node: OnnxNode) -> Value:
    """The shape, or a part of it: always known at import."""
    shape = node.operand(0).type.shape
    end = node.integer("end") if node.has("end") else None
    part = shape[node.integer("start", 0) : end]
    return ctx.sized(part, TensorType(ElementKind.INT64, (len(part),)))


@onnx_op("Size")
def size_of(ctx: Context, node: OnnxNode) -> Value:
    """The number of elements: always known at import."""
    return ctx.sized([node.operand(0).type.size], TensorType(ElementKind.INT64, ()))


@onnx_op("ReverseSequence")
def reverse_sequence(ctx: Context, node: OnnxNode) -> Value:
    """Reverse the first ``lengths[b]`` steps of each sequence, by gathering along time."""
    x, lengths = node.operand(0), node.operand(1)
    time, batch = node.integer("time_axis"), node.integer("batch_axis")
    if sorted((time, batch)) != [0, 1] or x.type.rank < 2:
        raise ctx.wrong(f"time_axis {time} and batch_axis {batch} must be 0 and 1 of {x}")
    return reversed_sequences(ctx, x, lengths, time=time, batch=batch)


def reversed_sequences(
    ctx: Context, x: Value, lengths: Value, *, time: int, batch: int
) -> ops.GatherElements:
    """Return *x* with the first ``lengths[b]`` steps of each sequence reversed."""
    steps, count = x.type.shape[time], x.type.shape[batch]
    across = tuple(count if axis == batch else 1 for axis in (0, 1))
    along = tuple(steps if axis == time else 1 for axis in (0, 1))
    check_lengths(ctx, lengths, steps)
    length = ctx.term(ctx.reshape(ctx.convert(lengths, ElementKind.INT64), across))
    if not isinstance(length.value, Constant):
        length = length.joined(ops.Minimum, steps)
    place = ctx.term(ctx.constant(np.arange(steps, dtype=np.int64).reshape(along)))
    places = where(place < length, length - 1 - place, place).value
    source = ctx.reshape(places, (*x.type.shape[:2], *(1,) * (x.type.rank - 2)))
    return ops.GatherElements(x, ctx.broadcast(source, x.type.shape), axis=time)
