"""Batch normalization in training mode, and its lowering to moments and the inference form."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, Mul
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.families import (
    FLOATS,
    fitted,
    require_axis,
    require_kind,
    require_type,
    splat,
    wide,
)
from glow_nb.hlir.ops.normalization import (
    BatchNormalization,
    ChannelNormalization,
    Moments,
    channel_shape,
)
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("batch_norm_training")
class BatchNormTraining(ChannelNormalization):
    """Normalize each channel by the statistics of the batch, and move the running ones.

    ``[result, running_mean, running_variance]``: the result is that of :class:`BatchNormalization`
    by the mean and the variance (of the population) of the input itself; the running ones are
    ``momentum * old + (1 - momentum) * that of the batch``. Vectors are ``[C]``; the running
    statistics may be of another kind of floats.
    """

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        type = self.input.type
        require_kind(self, "input", type, FLOATS)
        require_axis(self, self.channel_axis, type.rank)
        channels = (type.shape[self.channel_axis],)
        for name in ("scale", "bias", "mean", "variance"):
            found = getattr(self, name).type
            kinds = FLOATS if name in ("mean", "variance") else frozenset({type.kind})
            require_kind(self, name, found, kinds)
            require_type(self, name, found.with_shape(channels), "input")
        return type, self.mean.type, self.variance.type

    @override
    def evaluate(
        self, input: Array, scale: Array, bias: Array, mean: Array, variance: Array
    ) -> tuple[Array, ...]:
        x, shape = wide(input), channel_shape(input.ndim, self.channel_axis)
        count = self.input.type.size // self.mean.type.size if x.size else 0
        with np.errstate(all="ignore"):  # of no elements, means are not numbers
            found = x.sum(self.summed_axes) / count
            spread = ((x - found.reshape(shape)) ** 2).sum(self.summed_axes) / count
            factor = wide(scale) / np.sqrt(spread + self.epsilon)
            result = (x - found.reshape(shape)) * factor.reshape(shape) + wide(bias).reshape(shape)
            moved = [
                self.momentum * wide(old) + (1 - self.momentum) * new
                for old, new in ((mean, found), (variance, spread))
            ]
        return tuple(
            fitted(array, type)
            for array, type in zip((result, *moved), self.result_types, strict=True)
        )

    @override
    def cost(self) -> Cost:
        """Count the sums of the moments, and a factor and an offset for each channel."""
        return Cost(2 * self.input.type.size, 2 * self.input.type.size)


@lowers(BatchNormTraining)
def by_moments(node: BatchNormTraining, rewriter: Rewriter) -> tuple[Value, ...]:
    """Express it by moments and the inference form."""
    moments = rewriter.emit(Moments(node.input, node.summed_axes), f"{node.name}_moments")
    channels = node.scale.type.shape
    mean, variance = (rewriter.emit(Reshape(found, channels)) for found in moments.results)
    normal = BatchNormalization(
        node.input,
        node.scale,
        node.bias,
        mean,
        variance,
        epsilon=node.epsilon,
        channel_axis=node.channel_axis,
        momentum=node.momentum,
    )
    return (
        rewriter.emit(normal),
        _running(rewriter, node.mean, mean, node.momentum),
        _running(rewriter, node.variance, variance, node.momentum),
    )


def _running(builder: Builder, old: Value, new: Value, momentum: float) -> Value:
    kept = builder.emit(Mul(old, splat(builder, old.type, momentum, "kept")))
    new = as_kind(builder, new, old.type.kind)
    taken = builder.emit(Mul(new, splat(builder, old.type, 1 - momentum, "taken")))
    return builder.emit(Add(kept, taken))


def in_inference_form(node: BatchNormTraining, builder: Builder) -> tuple[Value, ...]:
    """Return what *node* is in use: it normalizes by the running statistics, which stay."""
    kind = node.input.type.kind
    normal = BatchNormalization(
        node.input,
        node.scale,
        node.bias,
        as_kind(builder, node.mean, kind),
        as_kind(builder, node.variance, kind),
        epsilon=node.epsilon,
        channel_axis=node.channel_axis,
        momentum=node.momentum,
    )
    return builder.emit(normal, node.name), node.mean, node.variance
