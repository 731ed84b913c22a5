"""Normalizations and softmax."""

from __future__ import annotations

from functools import reduce
from typing import Any

from glow_nb.formats.onnx.exporter.registry import (
    composes,
    exports,
    exports_channels_first,
    has_single_attributes,
)
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.permutation import inverse
from glow_nb.hlir.rewrite import Replacement, Rewriter
from glow_nb.hlir.terms import Term, terms


@exports(ops.BatchNormalization, says=has_single_attributes)
def batch_normalization(ctx: Writer, node: ops.BatchNormalization) -> Value:
    """Given statistics of each channel; ONNX has the channels second."""
    rank, axis = node.type.rank, node.channel_axis
    if rank == 1:
        row = ctx.emit(ops.Reshape(node.input, (1, node.type.size)))
        return ctx.emit(ops.Reshape(_normalized(ctx, node, row), node.type.shape))
    if axis == 1:
        return _normalized(ctx, node, node.input)
    rest = [other for other in range(rank) if other != axis]
    second = (rest[0], axis, *rest[1:])
    moved = ctx.emit(ops.Transpose(node.input, second))
    return ctx.emit(ops.Transpose(_normalized(ctx, node, moved), inverse(second)))


def _normalized(ctx: Writer, node: ops.BatchNormalization, value: Value) -> Value:
    operands = (value, node.scale, node.bias, node.mean, node.variance)
    return ctx.step("BatchNormalization", value.type, *operands, epsilon=node.epsilon)


def _is_local_normalization(node: ops.LocalResponseNormalization) -> bool:
    """ONNX Runtime has it for images, odd sizes and positive factors; attributes are float32."""
    is_positive = node.alpha > 0 and node.beta > 0
    return (
        node.type.rank == 4 and node.size % 2 == 1 and is_positive and has_single_attributes(node)
    )


@exports_channels_first(ops.LocalResponseNormalization, "input", says=_is_local_normalization)
def local_response_normalization(ctx: Writer, node: Any) -> Value:
    """The squares of neighbouring channels."""
    attributes = {"alpha": node.alpha, "beta": node.beta, "bias": node.bias, "size": node.size}
    return ctx.node(node, "LRN", node.input, **attributes)


@composes(ops.LocalResponseNormalization)
def local_response_normalization_of_anything(
    node: ops.LocalResponseNormalization, rewriter: Rewriter
) -> Replacement:
    """Sums of squares by adding shifted slices."""
    rank, channels, before = node.type.rank, node.type.shape[-1], (node.size - 1) // 2
    ends = (*(0,) * (rank - 1), before, *(0,) * (rank - 1), node.size - 1 - before)
    x = Term(rewriter, node.input)
    squares = rewriter.emit(ops.Pad((x * x).value, ends))
    windows = (range(first, first + channels) for first in range(node.size))
    parts = (slice_axis(rewriter, squares, rank - 1, window) for window in windows)
    total = reduce(Term.__add__, terms(rewriter, *parts))
    divisor = (total * (node.alpha / node.size) + node.bias).joined(ops.Pow, node.beta)
    return (x / divisor).value
