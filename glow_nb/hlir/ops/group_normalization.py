"""Normalization of each sample by groups of its channels, with its lowering to moments."""

from __future__ import annotations

from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, Div, Mul, Sub
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.elementwise import Sqrt
from glow_nb.hlir.ops.families import (
    FLOATS,
    fitted,
    require_axis,
    require_kind,
    require_type,
    splat,
    wide,
)
from glow_nb.hlir.ops.normalization import Moments, channel_shape, normalized
from glow_nb.hlir.ops.reduction import ReduceMean
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("group_normalization")
class GroupNormalization(Node):
    """Normalize each sample by mean and variance of groups of neighbouring channels.

    ``result = (input - mean) / sqrt(variance + epsilon) * scale + bias``; mean and variance are
    those of the elements of a sample, axis 0, in the channels of one group. ``scale`` and ``bias``
    are vectors ``[C]``. With as many groups as channels it is an instance normalization.

    Attributes:
        groups: Their number, a divisor of that of the channels.
        channel_axis: Axis of the channels, counted from the front, not 0.
        epsilon: Added to the variance.
    """

    input: Value
    scale: Value
    bias: Value
    groups: int
    channel_axis: int
    epsilon: float

    @override
    def infer_type(self) -> TensorType:
        type, axis = self.input.type, self.channel_axis
        require_kind(self, "input", type, FLOATS)
        require_axis(self, axis, type.rank)
        self.require(axis != 0, "channel_axis is 0, that of the samples, but must be positive")
        channels = type.shape[axis]
        self.require(
            self.groups > 0 and channels % self.groups == 0,
            f"groups is {self.groups}, but must divide the {channels} channels of {type}",
        )
        for name in ("scale", "bias"):
            require_type(self, name, TensorType(type.kind, (channels,)), "input")
        return type

    @property
    def group_size(self) -> int:
        """Channels of a group."""
        return self.type.shape[self.channel_axis] // self.groups

    @property
    def group_elements(self) -> int:
        """Elements that are normalized together."""
        return self.group_size * prod(self.type.shape[axis] for axis in self.other_axes)

    @property
    def other_axes(self) -> tuple[int, ...]:
        """All axes but those of samples and channels."""
        return tuple(axis for axis in range(1, self.input.type.rank) if axis != self.channel_axis)

    @override
    def evaluate(self, input: Array, scale: Array, bias: Array) -> Array:
        axis = self.channel_axis
        shape = input.shape
        cut = (*shape[:axis], self.groups, self.group_size, *shape[axis + 1 :])
        axes = tuple(each for each in range(1, len(cut)) if each != axis)
        by_channel = channel_shape(len(shape), axis)
        with np.errstate(all="ignore"):
            normal = normalized(wide(input).reshape(cut), axes, self.epsilon).reshape(shape)
            result = normal * wide(scale).reshape(by_channel) + wide(bias).reshape(by_channel)
        return fitted(result, self.type)

    @override
    def cost(self) -> Cost:
        """Count mean, distance, variance (a multiply-add), and scale with bias (another)."""
        return Cost(2 * self.type.size, 3 * self.type.size)


@lowers(GroupNormalization)
def lower_group_normalization(node: GroupNormalization, rewriter: Rewriter) -> Value:
    """Express it by the moments of each channel, which are work for many threads.

    What is done to each element stands in one run of elementwise operators.
    """
    emit = rewriter.emit
    mean, variance = _moments_of_groups(node, rewriter)
    epsilon = splat(rewriter, variance.type, node.epsilon, f"{node.name}_epsilon")
    deviation = emit(Sqrt(emit(Add(variance, epsilon))), f"{node.name}_deviation")
    by_channel = tuple(
        size if axis == node.channel_axis else 1 for axis, size in enumerate(node.type.shape)
    )
    scale, bias = (emit(Reshape(vector, by_channel)) for vector in (node.scale, node.bias))
    factor = emit(Div(scale, deviation), f"{node.name}_factor")
    centred = emit(Sub(node.input, mean), f"{node.name}_centred")
    return emit(Add(emit(Mul(centred, factor)), bias))


def _moments_of_groups(node: GroupNormalization, builder: Builder) -> tuple[Value, Value]:
    """Return mean and variance of the group of each channel, with size 1 but for both axes.

    The variance of a group is the mean of those of its channels and the variance of their means.
    """
    emit, name = builder.emit, f"{node.name}_channels"
    mean, variance = emit(Moments(node.input, node.other_axes), name).results
    if node.group_size <= 1:
        return mean, variance
    shape, cut = mean.type.shape, (node.type.shape[0], node.groups, node.group_size)
    means, variances = (emit(Reshape(value, cut)) for value in (mean, variance))
    mean = emit(ReduceMean(means, (2,)), f"{node.name}_mean")
    apart = emit(Sub(means, mean))
    squares = emit(Add(variances, emit(Mul(apart, apart))))
    variance = emit(ReduceMean(squares, (2,)), f"{node.name}_variance")
    both = (emit(Broadcast(value, cut)) for value in (mean, variance))
    mean, variance = (emit(Reshape(value, shape)) for value in both)
    return mean, variance
