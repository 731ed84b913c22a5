"""Normalizations, softmax and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context, broadcast_shape
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.formulas.terms import Term, where

Normalized = TypeVar("Normalized", ops.BatchNormalization, ops.BatchNormTraining)


@onnx_op("BatchNormalization")
def batch_normalization(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias``, up to opset 13.

    With more outputs than one it trains: the batch's own statistics count, and the outputs are the
    running ones and those of the batch. ``spatial = 0`` has statistics for each element of a
    sample, which are then its channels.
    """
    x = node.operand(0)
    if node.flag("spatial", True):
        return _batch_normalized(ctx, node, x, is_training=len(node.outputs) > 1)
    shape, vectors = x.type.shape, node.operand(1).type.shape
    flat = ctx.reshape(x, (shape[0], prod(shape[1:]))) if shape else x
    results = _batch_normalized(ctx, node, flat, is_training=len(node.outputs) > 1)
    if isinstance(results, Node):
        return ctx.reshape(ctx.emit(results), shape)
    return (
        ctx.reshape(results[0], shape),
        *(ctx.reshape(statistic, vectors) for statistic in results[1:]),
    )


@onnx_op("BatchNormalization", since=14)
def batch_normalization_with_mode(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """As before; ``training_mode`` normalizes by the batch's own statistics and updates them."""
    is_training = node.flag("training_mode")
    results = _batch_normalized(ctx, node, node.operand(0), is_training=is_training)
    return results if isinstance(results, Node) else results[:3]


def _batch_normalized(
    ctx: Context, node: OnnxNode, x: Value, *, is_training: bool
) -> ops.BatchNormalization | tuple[Value, ...]:
    """Return the node that normalizes *x* by given statistics; when training, all five outputs.

    These are the result, the running mean and variance, and those of the batch. A vector is a
    batch with one channel.
    """
    if not x.type.rank:
        raise ctx.wrong(f"input {x} must be [N, C, ...]")
    if x.type.rank == 1:
        column = ctx.reshape(x, (*x.type.shape, 1))
        results = _batch_normalized(ctx, node, column, is_training=is_training)
        results = (ctx.emit(results),) if isinstance(results, Node) else results
        return (ctx.reshape(results[0], x.type.shape), *results[1:])
    mean, variance = (_vector(ctx, node.operand(index)) for index in (3, 4))
    if not is_training:
        return _normalized_by(ctx, node, x, mean, variance, ops.BatchNormalization)
    trained = ctx.emit_all(_normalized_by(ctx, node, x, mean, variance, ops.BatchNormTraining))
    if not (node.wants(3) or node.wants(4)):
        return (*trained, mean, variance)
    axes = tuple(axis for axis in range(x.type.rank) if axis != 1)
    found = ctx.emit_all(ops.Moments(x, axes))
    saved = (
        ctx.convert(ctx.reshape(moment, old.type.shape), old.type.kind)
        for moment, old in zip(found, (mean, variance), strict=True)
    )
    return (*trained, *saved)


def _vector(ctx: Context, value: Value) -> Value:
    return ctx.reshape(value, (value.type.size,))


def _normalized_by(
    ctx: Context, node: OnnxNode, x: Value, mean: Value, variance: Value, form: type[Normalized]
) -> Normalized:
    kind = x.type.kind
    vectors = (_vector(ctx, node.operand(1)), _vector(ctx, node.operand(2)), mean, variance)
    count = 2 if form is ops.BatchNormTraining else 4  # its running statistics keep their kind
    scale, bias, mean, variance = (
        ctx.convert(vector, kind) if index < count else vector
        for index, vector in enumerate(vectors)
    )
    return form(
        x,
        scale,
        bias,
        mean,
        variance,
        epsilon=node.number("epsilon"),
        channel_axis=1,
        momentum=node.number("momentum"),
    )


def moments(ctx: Context, x: Value, axes: Sequence[int]) -> tuple[Term, Term]:
    """Return mean and variance (of the population) along *axes*, with size 1 there."""
    mean = ctx.term(ctx.emit(ops.ReduceMean(x, axes=tuple(axes), keep_dims=True)))
    centred = ctx.term(x) - mean
    square = (centred * centred).value
    return mean, ctx.term(ctx.emit(ops.ReduceMean(square, axes=tuple(axes), keep_dims=True)))


@onnx_op("InstanceNormalization")
def instance_normalization(ctx: Context, node: OnnxNode) -> Value:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` for each sample and channel."""
    x, scale, bias = (node.operand(index) for index in range(3))
    if x.type.rank < 3:
        raise ctx.wrong(f"input {x} must be [N, C, spatial...]")
    return ops.GroupNormalization(
        x, scale, bias, max(1, x.type.shape[1]), channel_axis=1, epsilon=node.number("epsilon")
    )


@onnx_op("GroupNormalization", since=21)
def group_normalization(ctx: Context, node: OnnxNode) -> Value:
    """The same for each sample and group of channels."""
    return _group_normalized(ctx, node, node.operand(1), node.operand(2))


@onnx_op("GroupNormalization", since=18)
def group_normalization_with_weights_of_groups(ctx: Context, node: OnnxNode) -> Value:
    """As later, but scale and bias are the same for all channels of a group."""
    groups, channels = _group_sizes(ctx, node)
    scale, bias = (
        ctx.broadcast(ctx.reshape(node.operand(index), (groups, 1)), (groups, channels // groups))
        for index in (1, 2)
    )
    vectors = (ctx.reshape(weights, (channels,)) for weights in (scale, bias))
    return _group_normalized(ctx, node, *vectors)


def _group_sizes(ctx: Context, node: OnnxNode) -> tuple[int, int]:
    """Return the numbers of groups and of channels."""
    x, groups = node.operand(0), node.integer("num_groups")
    if x.type.rank < 3:
        raise ctx.wrong(f"input {x} must be [N, C, spatial...]")
    channels = x.type.shape[1]
    if groups < 1 or channels % groups:
        raise ctx.wrong(f"num_groups is {groups}, it must divide the {channels} channels of {x}")
    return groups, channels


def _group_normalized(ctx: Context, node: OnnxNode, scale: Value, bias: Value) -> Value:
    x, (groups, _) = node.operand(0), _group_sizes(ctx, node)
    kind, epsilon = _computed_kind(node, x.type.kind), node.number("epsilon")
    wide, scale, bias = (ctx.convert(value, kind) for value in (x, scale, bias))
    normal = ops.GroupNormalization(wide, scale, bias, groups, channel_axis=1, epsilon=epsilon)
    return ctx.convert(ctx.emit(normal), x.type.kind)


def _inverse_deviation(variance: Term, node: OnnxNode) -> Term:
    return (variance + node.number("epsilon")).apply(ops.Sqrt).apply(ops.Reciprocal)


def _computed_kind(node: OnnxNode, kind: ElementKind) -> ElementKind:
    """Return the kind to normalize in: ``stash_type`` says 1 for at least float32."""
    small = kind in (ElementKind.FLOAT16, ElementKind.BFLOAT16)
    return ElementKind.FLOAT32 if small and node.integer("stash_type", 1) == 1 else kind


@onnx_op("LayerNormalization")
def layer_normalization(ctx: Context, node: OnnxNode) -> Value | tuple[Value, ...]:
    """Normalize over the axes from ``axis`` on; mean and inverse deviation on demand."""
    x, kind = node.operand(0), node.operand(0).type.kind
    axis = ctx.axis(node.integer("axis"), x.type.rank)
    wide = ctx.convert(x, _computed_kind(node, kind))
    result = ctx.convert(_layer_normalized(ctx, node, wide, axis), kind)
    if not (node.wants(1) or node.wants(2)):
        return result
    mean, variance = moments(ctx, wide, range(axis, x.type.rank))
    stash = ctx.kind(node.integer("stash_type", 1))
    inverse = _inverse_deviation(variance, node)
    return result, ctx.convert(mean.value, stash), ctx.convert(inverse.value, stash)


def _layer_normalized(ctx: Context, node: OnnxNode, x: Value, axis: int) -> Value:
    """Return *x* normalized, scaled and shifted by what broadcasts to it.

    What is the same for all samples is part of the node.
    """
    shape, kind = x.type.shape, x.type.kind
    scale, bias = ctx.convert(node.operand(1), kind), node.optional(2)
    bias = None if bias is None else ctx.convert(bias, kind)
    for value in (scale, bias):
        if value is not None and broadcast_shape(ctx, shape, value.type.shape) != shape:
            raise ctx.wrong(f"{value} must broadcast to {x}, whose shape the result has")
    is_scaled_inside = _is_same_before(scale, x, axis)
    is_shifted_inside = is_scaled_inside and (bias is None or _is_same_before(bias, x, axis))
    normal = ops.LayerNormalization(
        x,
        _of_axes(ctx, scale if is_scaled_inside else ctx.filled(x.type, 1), shape[axis:]),
        None if bias is None or not is_shifted_inside else _of_axes(ctx, bias, shape[axis:]),
        axis=axis,
        epsilon=node.number("epsilon"),
    )
    result = ctx.emit(normal)
    if not is_scaled_inside:
        result = ctx.emit(ops.Mul(*ctx.aligned(result, scale)))
    if bias is not None and not is_shifted_inside:
        result = ctx.emit(ops.Add(*ctx.aligned(result, bias)))
    return result


def _is_same_before(value: Value, x: Value, axis: int) -> bool:
    """Return whether *value*, broadcast to *x*, does not change along the axes before *axis*."""
    before = value.type.rank - (x.type.rank - axis)
    return prod(value.type.shape[: max(before, 0)]) == 1


def _of_axes(ctx: Context, value: Value, shape: Sequence[int]) -> Value:
    """Return *value* repeated to *shape*, without the axes of size 1 in front that it has more."""
    own = value.type.shape
    return ctx.broadcast(ctx.reshape(value, own[max(len(own) - len(shape), 0) :]), shape)


@onnx_op("RMSNormalization")
def rms_normalization(ctx: Context, node: OnnxNode) -> Value:
    """``x / sqrt(mean of x ** 2 + epsilon) * scale`` over the axes from ``axis`` on."""
    x, kind = node.operand(0), node.operand(0).type.kind
    axes = tuple(range(ctx.axis(node.integer("axis"), x.type.rank), x.type.rank))
    wide = ctx.term(ctx.convert(x, _computed_kind(node, kind)))
    mean = ctx.emit(ops.ReduceMean((wide * wide).value, axes=axes, keep_dims=True))
    normal = ctx.convert((wide * _inverse_deviation(ctx.term(mean), node)).value, kind)
    scale = node.operand(1)
    return ops.Mul(*ctx.aligned(ctx.convert(normal, scale.type.kind), scale))


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalization(ctx: Context, node: OnnxNode) -> Value:
    """``(x - mean) / (standard deviation + 1e-9)`` along ``axes``, by default all but 1.

    ONNX's own expansion takes the variance to be ``E[x^2] - E[x]^2``, which cancels.
    """
    x = node.operand(0)
    axes = ctx.axes(node.integers("axes", (0, 2, 3)), x.type.rank)
    mean, variance = moments(ctx, x, axes)
    divisor = variance.apply(ops.Sqrt) + 1e-9
    return ((ctx.term(x) - mean) / divisor).value


@onnx_op("LpNormalization")
def lp_normalization(ctx: Context, node: OnnxNode) -> Value:
    """``x / norm`` along an axis, the norm of order 1 or 2; 0 where the norm is."""
    x, p = node.operand(0), node.integer("p")
    axes = (ctx.axis(node.integer("axis"), x.type.rank),)
    if p not in (1, 2):
        raise ctx.wrong(f"p is {p}, it must be 1 or 2")
    sizes = ctx.emit(ops.Abs(x) if p == 1 else ops.Mul(x, x))
    norm = ctx.term(ctx.emit(ops.ReduceSum(sizes, axes=axes, keep_dims=True)))
    norm = norm if p == 1 else norm.apply(ops.Sqrt)
    return (ctx.term(x) / where(norm.equals(0), 1, norm)).value


@onnx_op("LRN")
def local_response_normalization(ctx: Context, node: OnnxNode) -> Value:
    """``x / (bias + alpha / size * sum of squares of neighbouring channels) ** beta``."""
    x, size = ctx.channels_last(node.operand(0)), node.integer("size")
    # A window of this size takes in all channels, wherever it stands.
    widest = 2 * x.type.shape[-1] + 1 if x.type.rank else size
    normal = ops.LocalResponseNormalization(
        x,
        size=min(size, widest),
        alpha=node.number("alpha") * min(size, widest) / size if size else 0.0,
        beta=node.number("beta"),
        bias=node.number("bias"),
    )
    return ctx.channels_first(ctx.emit(normal))


@onnx_op("Softmax", "LogSoftmax", "Hardmax")
def softmax_2d(ctx: Context, node: OnnxNode) -> Value:
    """Up to opset 12: of the matrix that the tensor is when cut before ``axis``."""
    x = node.operand(0)
    axis = _first_column_axis(ctx, node)
    if axis < x.type.rank and prod(x.type.shape[axis + 1 :]) == 1:
        return _softmax(ctx, node, x, axis)
    rows = prod(x.type.shape[:axis])
    matrix = ctx.reshape(x, (rows, prod(x.type.shape[axis:])))
    return ctx.reshape(ctx.emit(_softmax(ctx, node, matrix, 1)), x.type.shape)


def _first_column_axis(ctx: Context, node: OnnxNode) -> int:
    """Return the axis that the columns begin with.

    It is 1 by default, for a vector too: that is a matrix of one column. Opset 11 no longer lets
    the attribute itself say so.
    """
    axis, rank = node.integer("axis"), node.operand(0).type.rank
    if axis == rank and (node.opset < 11 or not node.has("axis")):
        return axis
    return ctx.axis(axis, rank)


@onnx_op("Hardmax", since=13)
def hardmax(ctx: Context, node: OnnxNode) -> Value:
    """1 at the first largest element along an axis, else 0."""
    x = node.operand(0)
    return _hardmax(ctx, x, ctx.axis(node.integer("axis"), x.type.rank))


def _softmax(ctx: Context, node: OnnxNode, x: Value, axis: int) -> Node:
    if node.op == "Hardmax":
        return _hardmax(ctx, x, axis)
    node_class = ops.Softmax if node.op == "Softmax" else ops.LogSoftmax
    return node_class(x, axis=axis)


def _hardmax(ctx: Context, x: Value, axis: int) -> Node:
    """Return 1 at the first largest element along *axis*, else 0."""
    if not x.type.size:
        return ops.Reshape(x, x.type.shape)
    place = ctx.emit(ops.ArgMax(x, axis=axis, keep_dims=True))
    size = x.type.shape[axis]
    ctx.spend(size * 8)
    shape = tuple(size if i == axis else 1 for i in range(x.type.rank))
    indices = ctx.constant(np.arange(size, dtype=np.int64).reshape(shape))
    return ops.ConvertTo(ctx.emit(ops.Equal(indices, place)), x.type.kind)
