"""Pools over windows."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import composes, exports_channels_first
from glow_nb.formats.onnx.exporter.windows import (
    has_small_pads,
    onnx_window,
    padded,
    sees_something,
    windows_of,
)
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.hlir.ops.pooling import places_of_elements
from glow_nb.hlir.rewrite import Replacement, Rewriter

_MAX_POOL_KINDS = frozenset({ElementKind.INT8, ElementKind.UINT8})


def _has_kind(node: Any) -> bool:
    return node.type.kind.is_float or node.type.kind in _MAX_POOL_KINDS


def _has_max_pool(node: Any) -> bool:
    return _has_kind(node) and has_small_pads(node) and sees_something(node)


@exports_channels_first(ops.MaxPool, "input", says=_has_max_pool)
def max_pool(ctx: Writer, node: Any) -> Value:
    """The largest element under a window."""
    return ctx.node(node, "MaxPool", node.input, **onnx_window(node))


@composes(ops.MaxPool)
def max_pool_of_anything(node: ops.MaxPool, rewriter: Rewriter) -> Replacement:
    """Padding by itself; or the largest of the taps, for kinds that ONNX does not pool.

    So it is, too, where a window sees nothing but padding: ONNX Runtime finds the least finite
    number there.
    """
    least = bounds_of(node.type.kind)[0]
    if _has_kind(node) and sees_something(node):
        whole = padded(node, node.input, least, rewriter)
        pads = (0,) * len(node.pads)
        return rewriter.emit(
            ops.MaxPool(
                whole, kernel=node.kernel, stride=node.stride, pads=pads, dilation=node.dilation
            )
        )
    taps = windows_of(node, node.input, least, rewriter)
    return reduce(lambda x, y: rewriter.emit(ops.Maximum(x, y)), taps)


@exports_channels_first(ops.MaxPoolWithArgmax, "input", says=_has_max_pool)
def max_pool_with_argmax(ctx: Writer, node: Any) -> tuple[Value, ...]:
    """The largest element under a window, and its place."""
    attributes = {**onnx_window(node), "storage_order": int(node.column_major)}
    return ctx.steps("MaxPool", node.result_types, node.input, **attributes)


@composes(ops.MaxPoolWithArgmax)
def places_of_anything(node: ops.MaxPoolWithArgmax, rewriter: Rewriter) -> Replacement:
    """The place of the first tap that is as large as the largest, or of the last that is NaN."""
    emit, rank, shape = rewriter.emit, node.type.rank, node.input.type.shape
    least = bounds_of(node.type.kind)[0]
    values = emit(ops.MaxPool(node.input, **node.window.attributes))
    taps = _taps_of(node, node.input, least, rewriter)
    all_places = places_of_elements(shape, column_major=node.column_major)
    padding = rewriter.constant(f"{node.name}_padding", np.full((1,) * (rank + 1), -1))
    places = rewriter.constant(f"{node.name}_places", all_places)
    places_of_taps = _taps_of(node, places, -1, rewriter)
    is_real = emit(ops.Greater(places_of_taps, padding))
    best = emit(ops.Reshape(values, (*values.type.shape, 1)))

    def first(condition: Value, *, select_last: bool = False) -> Value:
        chosen = emit(ops.ConvertTo(emit(ops.And(condition, is_real)), ElementKind.INT32))
        return emit(ops.ArgMax(chosen, axis=rank, select_last=select_last))

    tap = first(emit(ops.Equal(taps, best)))
    if node.type.kind.is_float:
        of_nan = first(emit(ops.IsNaN(taps)), select_last=True)
        tap = emit(ops.Select(emit(ops.IsNaN(best)), of_nan, tap))
    found = emit(ops.GatherElements(places_of_taps, tap, axis=rank))
    return values, emit(ops.Reshape(found, values.type.shape))


def _taps_of(node: Any, value: Value, fill: float, rewriter: Rewriter) -> Value:
    """Emit the cells of *value* under each tap side by side, ``[N, *out, C, taps]``."""
    cells = windows_of(node, value, fill, rewriter)
    shaped = (rewriter.emit(ops.Reshape(cell, (*cell.type.shape, 1))) for cell in cells)
    return rewriter.emit(ops.Concat(tuple(shaped), axis=node.type.rank))


def _has_average_pool(node: Any) -> bool:
    is_plain = not (node.count_padding and any(node.uncounted))
    return is_plain and has_small_pads(node) and sees_something(node)


@exports_channels_first(ops.AvgPool, "input", says=_has_average_pool)
def average_pool(ctx: Writer, node: Any) -> Value:
    """The mean of the elements under a window; dilations are written only if there are some."""
    attributes = {**onnx_window(node), "count_include_pad": int(node.count_padding)}
    if set(node.dilation) == {1}:
        del attributes["dilations"]
    return ctx.node(node, "AveragePool", node.input, **attributes)


@composes(ops.AvgPool)
def average_pool_of_anything(node: ops.AvgPool, rewriter: Rewriter) -> Replacement:
    """The mean with all padding counted, times the cells for each that counts."""
    whole = padded(node, node.input, 0, rewriter)
    pads = (0,) * len(node.pads)
    mean = rewriter.emit(
        ops.AvgPool(
            whole, kernel=node.kernel, stride=node.stride, pads=pads, dilation=node.dilation
        )
    )
    cells = float(np.prod(node.kernel))
    with np.errstate(divide="ignore"):
        shares = (cells / node.counts()).astype(node.type.kind.dtype)
    return rewriter.emit(ops.Mul(mean, rewriter.constant(f"{node.name}_shares", shares)))
