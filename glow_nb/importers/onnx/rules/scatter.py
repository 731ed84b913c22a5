"""Writing at indices known at import: one gather from the old elements and the new ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.importers.onnx.context import Context
from glow_nb.importers.onnx.node import OnnxNode
from glow_nb.importers.onnx.registry import onnx_op
from glow_nb.types import Array

_REDUCTIONS: dict[str, type[Node]] = {
    "add": ops.Add,
    "mul": ops.Mul,
    "max": ops.Maximum,
    "min": ops.Minimum,
}


@onnx_op("ScatterND", since=11)
def scatter_nd(ctx: Context, node: OnnxNode) -> Value:
    """Replace slices: ``result[indices[i...]] = updates[i...]``."""
    x, indices, updates = node.operand(0), _indices(ctx, node), node.operand(2)
    depth = indices.shape[-1] if indices.ndim else 0
    kept = x.type.shape[depth:]
    if not 1 <= depth <= x.type.rank or updates.type.shape != (*indices.shape[:-1], *kept):
        raise ctx.wrong(f"indices {node.operand(1)} and updates {updates} do not fit {x}")
    places = np.zeros(indices.shape[:-1], np.int64)
    for axis in range(depth):
        column = _checked(ctx, indices[..., axis], x.type.shape[axis])
        places += column * prod(x.type.shape[axis + 1 :])
    inner = np.arange(prod(kept), dtype=np.int64)
    return _scattered(ctx, node, x, places.reshape(-1, 1) + inner, updates)


@onnx_op("Scatter", "ScatterElements", since=9)
def scatter_elements(ctx: Context, node: OnnxNode) -> Value:
    """Replace elements: the index takes the place of the coordinate along ``axis``."""
    x, indices, updates = node.operand(0), _indices(ctx, node), node.operand(2)
    axis = ctx.axis(node.integer("axis"), x.type.rank)
    fits = indices.ndim == x.type.rank and all(
        n <= m or i == axis
        for i, (n, m) in enumerate(zip(indices.shape, x.type.shape, strict=False))
    )
    if not fits or updates.type.shape != indices.shape:
        raise ctx.wrong(f"indices {node.operand(1)} and updates {updates} do not fit {x}")
    grid: list[Any] = list(np.indices(indices.shape, np.int64, sparse=True))
    grid[axis] = _checked(ctx, indices, x.type.shape[axis])
    places = sum(column * prod(x.type.shape[i + 1 :]) for i, column in enumerate(grid))
    return _scattered(ctx, node, x, np.asarray(places), updates)


def _indices(ctx: Context, node: OnnxNode) -> Array:
    indices = node.operand(1)
    if not isinstance(indices, Constant):
        raise ctx.unsupported("indices that are known at run time only")
    return indices.array


def _checked(ctx: Context, indices: Array, size: int) -> Any:
    """Return *indices* counted from the front; raise ModelError for one outside the axis."""
    if indices.dtype.kind not in "iu":
        raise ctx.wrong(f"indices must be integers, they are {indices.dtype}")
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise ctx.wrong(
            f"indices from {indices.min()} to {indices.max()} lie outside an axis of size {size}"
        )
    return np.where(indices < 0, indices + size, indices).astype(np.int64)


def _scattered(ctx: Context, node: OnnxNode, x: Value, places: Array, updates: Value) -> Value:
    """Return *x* with the elements at flat *places* replaced by, or combined with, *updates*."""
    places = places.reshape(-1)
    reduction = node.text("reduction", "none")
    new = ctx.reshape(updates, (updates.type.size,))
    old = ctx.reshape(x, (x.type.size,))
    if reduction != "none":
        if reduction not in _REDUCTIONS:
            raise ctx.wrong(f"reduction is {reduction!r}; none and {list(_REDUCTIONS)} exist")
        if len(np.unique(places)) < len(places):
            raise ctx.unsupported(f"reduction {reduction!r} at indices that repeat")
        before = ctx.emit(ops.Gather(old, ctx.constant(places)))
        new = ctx.emit(_REDUCTIONS[reduction](before, new))  # type: ignore[call-arg, arg-type]
    ctx.spend(8 * x.type.size)
    sources = np.arange(x.type.size, dtype=np.int64)
    sources[places] = x.type.size + np.arange(len(places))
    both = ctx.emit(ops.Concat((old, new), axis=0))
    result = ctx.emit(ops.Gather(both, ctx.constant(sources)))
    return ctx.reshape(result, x.type.shape)
