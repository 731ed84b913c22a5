"""Normalizations and softmax."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import (
    composes,
    exports,
    exports_channels_first,
    has_single_attributes,
)
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.formulas.terms import Term, terms
from glow_nb.hlir.ops.group_normalization import lower_group_normalization
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.permutation import inverse
from glow_nb.hlir.rewrite import Replacement, Rewriter


@exports(ops.BatchNormalization, says=has_single_attributes)
def batch_normalization(ctx: Writer, node: ops.BatchNormalization) -> Value:
    """Given statistics of each channel; ONNX has the channels second."""
    if node.type.rank == 1:
        row = ctx.emit(ops.Reshape(node.input, (1, node.type.size)))
        return ctx.emit(ops.Reshape(_normalized(ctx, node, row), node.type.shape))
    return _with_channels_second(ctx.emit, node, lambda moved: _normalized(ctx, node, moved))


def _normalized(ctx: Writer, node: ops.BatchNormalization, value: Value) -> Value:
    operands = (value, node.scale, node.bias, node.mean, node.variance)
    return ctx.step("BatchNormalization", value.type, *operands, epsilon=node.epsilon)


def _with_channels_second(
    emit: Callable[[Node], Value],
    node: ops.BatchNormalization | ops.GroupNormalization,
    normalized: Callable[[Value], Value],
) -> Value:
    """Return what *normalized* makes of the input of *node* with its channels at axis 1."""
    axis = node.channel_axis
    if axis == 1:
        return normalized(node.input)
    rest = [other for other in range(node.type.rank) if other != axis]
    second = (rest[0], axis, *rest[1:])
    moved = emit(ops.Transpose(node.input, second))
    return emit(ops.Transpose(normalized(moved), inverse(second)))


def _is_known_group_normalization(node: ops.GroupNormalization) -> bool:
    """ONNX Runtime normalizes float32, several numbers at a time."""
    is_single = node.type.kind is ElementKind.FLOAT32 and has_single_attributes(node)
    return is_single and node.type.rank > 2 and node.group_elements > 1


def _is_instance_normalization(node: ops.GroupNormalization) -> bool:
    return node.group_size == 1 and _is_known_group_normalization(node)


@exports(ops.GroupNormalization, says=_is_instance_normalization)
def instance_normalization(ctx: Writer, node: ops.GroupNormalization) -> Value:
    """Each channel by itself; ONNX has the channels second."""

    def normalized(moved: Value) -> Value:
        operands = (moved, node.scale, node.bias)
        return ctx.step("InstanceNormalization", moved.type, *operands, epsilon=node.epsilon)

    return _with_channels_second(ctx.emit, node, normalized)


@composes(ops.GroupNormalization)
def group_normalization(node: ops.GroupNormalization, rewriter: Rewriter) -> Replacement:
    """Groups as the channels of an instance normalization, then scale and bias.

    The operator GroupNormalization is newer than the operator set that models get.
    """
    if not _is_known_group_normalization(node):
        return lower_group_normalization(node, rewriter)

    def normalized(moved: Value) -> Value:
        return _by_instances(rewriter, node, moved)

    return _with_channels_second(rewriter.emit, node, normalized)


def _by_instances(builder: Builder, node: ops.GroupNormalization, value: Value) -> Value:
    emit, groups, kind = builder.emit, node.groups, value.type.kind
    ones, zeros = (
        builder.constant(f"{node.name}_{name}", np.full(groups, number, kind.dtype))
        for name, number in (("ones", 1), ("zeros", 0))
    )
    rows = emit(ops.Reshape(value, (value.type.shape[0], groups, node.group_elements)))
    normal = emit(ops.GroupNormalization(rows, ones, zeros, groups, 1, node.epsilon))
    by_channel = (1, node.scale.type.size, *(1,) * (value.type.rank - 2))
    scale, bias = (emit(ops.Reshape(vector, by_channel)) for vector in (node.scale, node.bias))
    scaled = emit(ops.Mul(emit(ops.Reshape(normal, value.type.shape)), scale))
    return emit(ops.Add(scaled, bias))


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
