"""Pools over windows and over everything."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.windows import OnnxWindow, window_of
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.reduction import Reduction


def _window(ctx: Context, node: OnnxNode, x: Value) -> OnnxWindow:
    shape = x.type.shape
    if len(shape) < 3:
        raise ctx.wrong(f"input {x} must be [N, C, spatial...]")
    return window_of(ctx, node, shape[2:], node.integers("kernel_shape"))


def _pool(
    ctx: Context, x: Value, make: Callable[..., Node], window: OnnxWindow, **options: Any
) -> Node:
    return make(
        ctx.channels_last(x),
        **window.attributes,
        **options,
    )


@onnx_op("MaxPool")
def max_pool(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """Largest element under a window, and on demand its place."""
    x = node.operand(0)
    window = _window(ctx, node, x)
    if not node.wants(1):
        return ctx.channels_first(ctx.emit(_pool(ctx, x, ops.MaxPool, window)))
    column_major = node.flag("storage_order", False)
    pool = _pool(ctx, x, ops.MaxPoolWithArgmax, window, column_major=column_major)
    values, places = ctx.emit_all(pool)
    return ctx.channels_first(values), ctx.channels_first(places)


@onnx_op("AveragePool")
def average_pool(ctx: Context, node: OnnxNode) -> Value:
    """Mean of the elements under a window."""
    return average_of(ctx, node, node.operand(0))


def average_of(ctx: Context, node: OnnxNode, x: Value) -> Value:
    """Return the mean of the elements of *x* under the window that *node* describes."""
    window = _window(ctx, node, x)
    pool = _pool(
        ctx,
        x,
        ops.AvgPool,
        window,
        count_padding=node.flag("count_include_pad", False),
        uncounted=window.excess if any(window.excess) else (),
    )
    return ctx.channels_first(ctx.emit(pool))


@onnx_op("LpPool")
def lp_pool(ctx: Context, node: OnnxNode) -> Value:
    """``(sum of |x| ** p) ** (1 / p)`` under a window: a mean times the number of cells."""
    x, p = node.operand(0), _order(ctx, node)
    window = _window(ctx, node, x)
    powers = _power(ctx, ctx.emit(ops.Abs(x)), p)
    mean = ctx.emit(_pool(ctx, powers, ops.AvgPool, window, count_padding=True))
    total = ctx.emit(ops.Mul(mean, ctx.number(mean.type, prod(window.kernel))))
    return ctx.channels_first(_power(ctx, total, 1 / p))


def _order(ctx: Context, node: OnnxNode) -> int:
    p = node.integer("p")
    if p < 1:
        raise ctx.wrong(f"the order p of the norm is {p}, it must be at least 1")
    return p


def _power(ctx: Context, x: Value, exponent: float) -> Value:
    if exponent == 1:
        return x
    return ctx.emit(ops.Pow(x, ctx.number(x.type, exponent)))


def _global(ctx: Context, x: Value, node_class: type[Reduction]) -> Value:
    last = ctx.channels_last(x)
    axes = tuple(range(1, last.type.rank - 1))
    reduced = node_class(last, axes=axes, keep_dims=True)
    return ctx.channels_first(ctx.emit(reduced))


@onnx_op("GlobalAveragePool")
def global_average_pool(ctx: Context, node: OnnxNode) -> Value:
    """Mean over all spatial dimensions."""
    return global_average_of(ctx, node.operand(0))


def global_average_of(ctx: Context, x: Value) -> Value:
    """Return the mean of *x* over all spatial dimensions."""
    return _global(ctx, x, ops.ReduceMean)


@onnx_op("GlobalMaxPool")
def global_max_pool(ctx: Context, node: OnnxNode) -> Value:
    """Largest element over all spatial dimensions."""
    return _global(ctx, node.operand(0), ops.ReduceMax)


@onnx_op("GlobalLpPool")
def global_lp_pool(ctx: Context, node: OnnxNode) -> Value:
    """``(sum of |x| ** p) ** (1 / p)`` over all spatial dimensions."""
    x, p = node.operand(0), _order(ctx, node)
    total = _global(ctx, _power(ctx, ctx.emit(ops.Abs(x)), p), ops.ReduceSum)
    return _power(ctx, total, 1 / p)
