"""Normalization and softmax, with their lowerings to arithmetic and reductions."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, Div, Mul, Sub
from glow_nb.hlir.ops.elementwise import Exp, Log, Reciprocal, Sqrt
from glow_nb.hlir.ops.families import (
    FLOATS,
    fitted,
    require_axis,
    require_kind,
    require_type,
    splat,
    wide,
)
from glow_nb.hlir.ops.reduction import ReduceMax, ReduceMean, ReduceSum
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@dataclass(frozen=True, eq=False, repr=False)
class ChannelNormalization(Node):
    """Base of batch normalizations: all operands but the input are vectors ``[C]`` of its channels.

    Attributes:
        epsilon: Added to the variance.
        channel_axis: Axis of the channels, counted from the front.
        momentum: The part of the running statistics that a training step keeps.
    """

    input: Value
    scale: Value
    bias: Value
    mean: Value
    variance: Value
    epsilon: float
    channel_axis: int
    momentum: float = 0.9

    @property
    def summed_axes(self) -> tuple[int, ...]:
        """All axes but that of the channels."""
        return tuple(axis for axis in range(self.input.type.rank) if axis != self.channel_axis)


@define_node("batch_normalization")
class BatchNormalization(ChannelNormalization):
    """Normalize each channel by given statistics (inference form).

    ``result = (input - mean) / sqrt(variance + epsilon) * scale + bias``, where scale, bias, mean
    and variance are vectors ``[C]`` along *channel_axis*.
    """

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, FLOATS)
        require_axis(self, self.channel_axis, type.rank)
        wanted = TensorType(type.kind, (type.shape[self.channel_axis],))
        for name in ("scale", "bias", "mean", "variance"):
            require_type(self, name, wanted, "input")
        return type

    @override
    def evaluate(
        self, input: Array, scale: Array, bias: Array, mean: Array, variance: Array
    ) -> Array:
        shape = channel_shape(self.type.rank, self.channel_axis)
        with np.errstate(all="ignore"):
            factor = wide(scale) / np.sqrt(wide(variance) + self.epsilon)
            centred = wide(input) - wide(mean).reshape(shape)
            result = centred * factor.reshape(shape) + wide(bias).reshape(shape)
        return fitted(result, self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size)  # a factor and an offset for each channel


@lowers(BatchNormalization)
def lower_batch_normalization(node: BatchNormalization, rewriter: Rewriter) -> Value:
    """Express it as ``input * factor + offset`` with vectors that fold when they are constant."""
    emit = rewriter.emit
    epsilon = splat(rewriter, node.variance.type, node.epsilon, f"{node.name}_epsilon")
    deviation = emit(Sqrt(emit(Add(node.variance, epsilon))))
    factor = emit(Div(node.scale, deviation), f"{node.name}_factor")
    offset = emit(Sub(node.bias, emit(Mul(node.mean, factor))), f"{node.name}_offset")
    size = factor.type.size
    shape = tuple(size if axis == node.channel_axis else 1 for axis in range(node.type.rank))
    scaled = emit(Mul(node.input, emit(Reshape(factor, shape))))
    return emit(Add(scaled, emit(Reshape(offset, shape))))


@define_node("moments")
class Moments(Node):
    """Mean and variance of the elements along *axes*, which stay with size 1.

    ``[mean, variance]``; the variance is the mean of ``(input - mean) ** 2``, that of the
    population. Of no elements both are NaN.

    Attributes:
        axes: Axes to go along, counted from the front, each once.
    """

    input: Value
    axes: tuple[int, ...]

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        mean = ReduceMean(self.input, self.axes, name=self.name).type
        return mean, mean

    @property
    def count(self) -> int:
        """Number of elements that one mean is made of."""
        return prod(self.input.type.shape[axis] for axis in self.axes)

    @override
    def evaluate(self, input: Array) -> tuple[Array, Array]:
        x = wide(input)
        with np.errstate(all="ignore"):
            mean = _mean(x, self.axes)
            variance = _mean((x - mean) ** 2, self.axes)
        return fitted(mean, self.result_types[0]), fitted(variance, self.result_types[1])

    @override
    def cost(self) -> Cost:
        """Count the sum, and distance and square with their sum."""
        return Cost(self.input.type.size, 2 * self.input.type.size)


@lowers(Moments)
def lower_moments(node: Moments, rewriter: Rewriter) -> tuple[Value, Value]:
    """Express them in two passes, see :func:`emit_moments`."""
    mean, _, variance = emit_moments(rewriter, node.input, node.axes, node.name)
    return mean, variance


def emit_moments(
    builder: Builder, input: Value, axes: tuple[int, ...], name: str
) -> tuple[Value, Value, Value]:
    """Emit the mean along *axes*, the distances from it, and the mean of their squares.

    The one-pass form ``E[x^2] - E[x]^2`` cancels where the mean is large.
    """
    emit = builder.emit
    mean = emit(ReduceMean(input, axes), f"{name}_mean")
    centred = emit(Sub(input, mean), f"{name}_centred")
    return mean, centred, emit(ReduceMean(emit(Mul(centred, centred)), axes), f"{name}_variance")


def channel_shape(rank: int, channel_axis: int) -> tuple[int, ...]:
    """Return the shape, for reshape, of a channel vector in a tensor of *rank*: 1 but for -1."""
    return tuple(-1 if axis == channel_axis else 1 for axis in range(rank))


@define_node("local_response_normalization")
class LocalResponseNormalization(Node):
    """Normalize by the squares of neighbouring channels, the last axis.

    ``result[..., c] = input[..., c] / (bias + alpha / size * sum of input[..., i] ** 2) ** beta``
    with ``i`` from ``c - (size - 1) // 2`` to ``c + size // 2``, as far as there are channels.

    Attributes:
        size: Number of channels in the sum.
        alpha: Weight of the sum.
        beta: Exponent.
        bias: Added to the sum.
    """

    input: Value
    size: int
    alpha: float
    beta: float
    bias: float

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, FLOATS)
        self.require(self.input.type.rank >= 1, f"'input' is {self.input.type}: no channels")
        self.require(self.size > 0, f"size is {self.size}, but must be positive")
        return self.input.type

    @override
    def evaluate(self, input: Array) -> Array:
        x = wide(input)
        before = (self.size - 1) // 2
        with np.errstate(all="ignore"):
            widths = [(0, 0)] * (x.ndim - 1) + [(before, self.size - 1 - before)]
            squares = np.pad(x * x, widths)
            channels = x.shape[-1]
            sums = sum(squares[..., i : i + channels] for i in range(self.size))
            divisor = (self.bias + self.alpha / self.size * sums) ** self.beta
            return fitted(x / divisor, self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.size * self.type.size, 3 * self.type.size)


@define_node("layer_normalization")
class LayerNormalization(Node):
    """Normalize each sample by its own mean and variance over the axes from *axis* on.

    ``result = (input - mean) / sqrt(variance + epsilon) * scale + bias``; the variance is the mean
    of ``(input - mean) ** 2``. ``scale`` and ``bias`` have the shape of the normalized axes.

    Attributes:
        axis: First normalized axis, counted from the front.
        epsilon: Added to the variance.
    """

    input: Value
    scale: Value
    bias: Value | None
    axis: int
    epsilon: float

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, FLOATS)
        require_axis(self, self.axis, type.rank)
        wanted = TensorType(type.kind, type.shape[self.axis :])
        for name in ("scale", "bias"):
            require_type(self, name, wanted, "input")
        return type

    @override
    def evaluate(self, input: Array, scale: Array, bias: Array | None) -> Array:
        axes = tuple(range(self.axis, input.ndim))
        with np.errstate(all="ignore"):
            result = normalized(wide(input), axes, self.epsilon) * wide(scale)
        return fitted(result if bias is None else result + wide(bias), self.type)

    @override
    def cost(self) -> Cost:
        """Count mean, distance, variance (a multiply-add), and scale with bias (another)."""
        return Cost(2 * self.type.size, 3 * self.type.size)


@lowers(LayerNormalization)
def lower_layer_normalization(node: LayerNormalization, rewriter: Rewriter) -> Value:
    """Express it in two passes: the mean, then the mean of squared distances from it."""
    emit, axes = rewriter.emit, tuple(range(node.axis, node.type.rank))
    _, centred, variance = emit_moments(rewriter, node.input, axes, node.name)
    epsilon = splat(rewriter, variance.type, node.epsilon, f"{node.name}_epsilon")
    deviation = emit(Sqrt(emit(Add(variance, epsilon))), f"{node.name}_deviation")
    shape = (1,) * node.axis + node.scale.type.shape
    normal = emit(Mul(centred, emit(Reciprocal(deviation))))
    result = emit(Mul(normal, emit(Reshape(node.scale, shape))))
    return result if node.bias is None else emit(Add(result, emit(Reshape(node.bias, shape))))


def normalized(x: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    """Return ``(x - mean) / sqrt(variance + epsilon)`` along *axes* of an array."""
    centred = x - _mean(x, axes)
    return centred / np.sqrt(_mean(centred * centred, axes) + epsilon)


def _mean(x: Any, axes: tuple[int, ...]) -> Any:
    count = np.float64(prod(x.shape[axis] for axis in axes))
    return np.sum(x, axis=axes, keepdims=True) / count


@dataclass(frozen=True, eq=False, repr=False)
class AxisNormalization(Node):
    """Base of softmax and its logarithm: what a number becomes depends on those along *axis*.

    Attributes:
        axis: Axis to go along, counted from the front.
    """

    input: Value
    axis: int

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, FLOATS)
        require_axis(self, self.axis, self.input.type.rank)
        return self.input.type

    @override
    def cost(self) -> Cost:
        """Count maximum, distance, exp, sum and quotient."""
        return Cost(others=5 * self.type.size)


@define_node("softmax")
class Softmax(AxisNormalization):
    """Exponentials that sum to 1 along *axis*: ``exp(input - m) / sum of exp(input - m)``.

    ``m`` is the largest element along the axis. NaN if an element is NaN or +inf, or all are -inf.
    """

    @override
    def evaluate(self, input: Array) -> Array:
        x = wide(input)
        with np.errstate(all="ignore"):
            powers = np.exp(x - np.max(x, axis=self.axis, keepdims=True, initial=-np.inf))
            return fitted(powers / np.sum(powers, axis=self.axis, keepdims=True), self.type)


@define_node("log_softmax")
class LogSoftmax(AxisNormalization):
    """Logarithm of the softmax along *axis*: ``input - m - log(sum of exp(input - m))``.

    ``m`` is the largest element along the axis.
    """

    @override
    def evaluate(self, input: Array) -> Array:
        x = wide(input)
        with np.errstate(all="ignore"):
            shifted = x - np.max(x, axis=self.axis, keepdims=True, initial=-np.inf)
            total = np.sum(np.exp(shifted), axis=self.axis, keepdims=True)
            return fitted(shifted - np.log(total), self.type)


@lowers(LogSoftmax)
def lower_log_softmax(node: LogSoftmax, rewriter: Rewriter) -> Value:
    """Express it as differences from the largest element and from the logarithm of the sum."""
    emit, axes = rewriter.emit, (node.axis,)
    shifted = emit(Sub(node.input, emit(ReduceMax(node.input, axes))), f"{node.name}_shifted")
    total = emit(ReduceSum(emit(Exp(shifted)), axes))
    return emit(Sub(shifted, emit(Log(total))))
