"""Writing at indices: scatters, what is a scatter of a kind, and caches of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from glow_nb.base.size import same_shape
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.indexing import check_coordinates, check_indices
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.counting import counting
from glow_nb.hlir.ops.sizes import size_value

_Scatter = ops.ScatterND | ops.ScatterElements


@onnx_op("ScatterND", since=11)
def scatter_nd(ctx: Context, node: OnnxNode) -> Value:
    """Slices at coordinates are replaced, or combined with others."""
    x, indices, updates = (node.operand(index) for index in range(3))
    check_coordinates(ctx, indices, x.type.shape)
    return _combined(
        ctx, node, x, updates, lambda x, updates, how: ops.ScatterND(x, indices, updates, how)
    )


def _combined(
    ctx: Context,
    node: OnnxNode,
    x: Value,
    updates: Value,
    scatter: Callable[[Value, Value, str], _Scatter],
) -> Value:
    """Return what *scatter* makes of *x* and *updates* by the node's reduction.

    The sum of bools is "or", their product "and", as their maximum and minimum.
    """
    reduction = node.text("reduction", "none")
    if x.type.kind is not ElementKind.BOOL or reduction == "none":
        return scatter(x, updates, reduction)
    x, updates = (ctx.convert(value, ElementKind.UINT8) for value in (x, updates))
    reduction = {"add": "max", "mul": "min"}.get(reduction, reduction)
    return ops.ConvertTo(ctx.emit(scatter(x, updates, reduction)), ElementKind.BOOL)


@onnx_op("Scatter", "ScatterElements", since=9)
def scatter_elements(ctx: Context, node: OnnxNode) -> Value:
    """Elements are replaced, or combined: the index takes the place of that along ``axis``."""
    x, indices, updates = (node.operand(index) for index in range(3))
    axis = ctx.axis(node.integer("axis"), x.type.rank)
    check_indices(ctx, indices, x.type.shape[axis])
    if indices.type.rank == x.type.rank and 0 in indices.type.shape:
        return x  # also where the other axes of the indices are longer than those of the input
    return _combined(
        ctx,
        node,
        x,
        updates,
        lambda x, updates, how: ops.ScatterElements(x, indices, updates, axis=axis, reduction=how),
    )


@onnx_op("MaxUnpool", since=9)
def max_unpool(ctx: Context, node: OnnxNode) -> Value:
    """Put elements back where a MaxPool took them from; indices count through the whole tensor."""
    x, indices = node.operand(0), node.operand(1)
    shape = _unpooled_shape(ctx, node, x.type.shape)
    flat = (x.type.size,)
    scattered = ops.ScatterElements(
        ctx.emit(ops.Broadcast(ctx.filled(x.type, 0, (1,)), (prod(shape),))),
        ctx.reshape(indices, flat),
        ctx.reshape(x, flat),
    )
    result = ctx.reshape(ctx.emit(scattered), shape)
    wanted = node.optional(2)
    if wanted is None:
        return result
    target = ctx.known_integers(wanted, "'output_shape'")
    if len(target) != len(shape) or any(n < m for n, m in zip(target, shape, strict=True)):
        raise ctx.wrong(
            f"output_shape {list(target)} must have room for the unpooled {list(shape)}"
        )
    ends = tuple(n - m for n, m in zip(target, shape, strict=True))
    return ops.Pad(result, pads=(*(0,) * len(shape), *ends))


def _unpooled_shape(ctx: Context, node: OnnxNode, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what was pooled, ``stride * (in - 1) + kernel - begin - end``."""
    kernel, rank = node.integers("kernel_shape"), len(shape) - 2
    strides, pads = node.integers("strides", (1,) * rank), node.integers("pads", (0,) * 2 * rank)
    if not 1 <= rank == len(kernel) == len(strides) == len(pads) / 2 or min(strides) < 1:
        raise ctx.wrong(
            f"kernel_shape {list(kernel)}, strides {list(strides)} and pads {list(pads)} "
            f"do not fit input {node.operand(0)}"
        )
    sizes = [
        step * (size - 1) + window - begin - end
        for size, window, step, begin, end in zip(
            shape[2:], kernel, strides, pads[:rank], pads[rank:], strict=True
        )
    ]
    if any(size < 0 for size in sizes):
        raise ctx.wrong(f"pads {list(pads)} leave nothing of input {node.operand(0)}: {sizes}")
    return (*shape[:2], *sizes)


@onnx_op("TensorScatter", since=24)
def tensor_scatter(ctx: Context, node: OnnxNode) -> Value:
    """Write steps of a sequence into a cache, for each sample from the place that it names on.

    ``present[b, ..., write_indices[b] + i, ...] = update[b, ..., i, ...]`` along ``axis``; in a
    circular cache places are taken modulo its length.
    """
    cache, update = node.operand(0), node.operand(1)
    shape, steps = cache.type.shape, update.type.shape
    axis = ctx.axis(node.integer("axis"), len(shape))
    if axis == 0:
        raise ctx.wrong("axis 0 is that of the samples; it must be one of a sequence, after it")
    beside = (*steps[:axis], *steps[axis + 1 :])
    if (
        len(steps) != len(shape)
        or not same_shape(beside, (*shape[:axis], *shape[axis + 1 :]))
        or steps[axis] > shape[axis]
    ):
        raise ctx.wrong(f"update {update} does not fit cache {cache} along axis {axis}")
    if 0 in steps:
        return cache
    rows = _rows_of(ctx, node, shape[: axis + 1], steps[axis])
    inner = prod(shape[axis + 1 :])
    scattered = ops.ScatterND(
        ctx.reshape(cache, (prod(shape[: axis + 1]), inner)),
        ctx.reshape(rows, (rows.type.size, 1)),
        ctx.reshape(update, (rows.type.size, inner)),
    )
    return ctx.reshape(ctx.emit(scattered), shape)


def _rows_of(ctx: Context, node: OnnxNode, shape: tuple[int, ...], steps: int) -> Value:
    """Return which rows of a cache of *shape*, numbered through all of it, *steps* are written to.

    Each place is moved inside the sequence that it belongs to, whatever a run gives.
    """
    mode, starts, length = node.text("mode"), node.optional(2), shape[-1]
    if mode not in ("linear", "circular"):
        raise ctx.wrong(f"mode is {mode!r}; linear and circular exist")
    ones, like = (1,) * (len(shape) - 1), TensorType(ElementKind.INT64, (1,) * len(shape))

    def number(size: int) -> Value:
        return size_value(ctx.builder, like, size, "length")

    place = ctx.reshape(counting(ctx, steps), (*ones, steps))
    if starts is not None:
        start = ctx.reshape(ctx.convert(starts, ElementKind.INT64), (shape[0], *ones))
        place = ctx.emit(ops.Add(start, place))
    if mode == "circular":
        place = ctx.emit(ops.Modulo(place, number(length)))
    place = ctx.emit(ops.Maximum(place, number(0)))
    place = ctx.emit(ops.Minimum(place, number(length - 1)))
    line = ctx.reshape(counting(ctx, prod(shape[:-1])), (*shape[:-1], 1))
    return ctx.emit(ops.Add(ctx.emit(ops.Mul(line, number(length))), place))
