"""Gradients of normalizations, of the statistics that they divide by, and of softmax."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from glow_nb.hlir.backpropagate import through_lowering
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.parts import part
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.arithmetic import Pow
from glow_nb.hlir.ops.batch_norm_training import BatchNormTraining
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.elementwise import Exp, Reciprocal, Sqrt
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.group_normalization import GroupNormalization
from glow_nb.hlir.ops.normalization import (
    BatchNormalization,
    LayerNormalization,
    LocalResponseNormalization,
    LogSoftmax,
    Moments,
    Softmax,
)
from glow_nb.hlir.ops.reduction import ReduceMean, ReduceSum
from glow_nb.hlir.ops.shape import Pad, Reshape, Slice
from glow_nb.hlir.rules import OperandGradients, gradient

gradient(BatchNormTraining)(through_lowering)
gradient(GroupNormalization)(through_lowering)


@gradient(BatchNormalization)
def batch_normalization_gradient(
    node: BatchNormalization, upstream: Value, builder: Backward
) -> OperandGradients:
    """With ``r = 1 / sqrt(variance + epsilon)``, and sums over all but the channels.

    Each is a vector along the channels, but for that of the input::

        d_input = scale * r * dy            d_mean = -scale * r * sum(dy)
        d_bias = sum(dy)                    d_variance = -scale * r**3 / 2 * sum(dy * centred)
        d_scale = r * sum(dy * centred)     centred = input - mean

    Mean and variance may be those of the input itself: the rest comes by their own gradients.
    """
    if not node.type.size:  # statistics that give no finite factor have no part in anything
        return {}
    shape = [1] * node.type.rank
    shape[node.channel_axis] = node.scale.type.size
    up, x, scale, variance = builder.terms(upstream, node.input, node.scale, node.variance)
    inverse = (variance + node.epsilon).apply(Sqrt).apply(Reciprocal)
    factor = scale * inverse
    found: dict[str, Value] = {}
    if builder.wants(node.input):
        found["input"] = (up * _shaped(factor, shape)).value
    if builder.wants(node.bias) or builder.wants(node.mean):
        total = _summed(up, node.summed_axes)
        found |= {"bias": total.value, "mean": (-(factor * total)).value}
    if builder.wants(node.scale) or builder.wants(node.variance):
        centred = x - _shaped(builder.term(node.mean), shape)
        spread = _summed(up * centred, node.summed_axes) * inverse
        found["scale"] = spread.value
        found["variance"] = (spread * (factor * inverse) * -0.5).value
    return found


@gradient(Moments)
def moments_gradient(
    node: Moments, upstream: tuple[Value | None, Value | None], builder: Backward
) -> OperandGradients:
    """``(d_mean + 2 * (input - mean) * d_variance) / count``.

    The mean has no part in the gradient of the variance: the distances from it sum up to 0.
    """
    mean_slope, variance_slope = upstream
    share, parts = part(builder, node.results[0], node.count), list[Term]()
    if variance_slope is not None:
        centred = builder.term(node.input) - builder.term(node.results[0])
        parts.append(centred * (builder.term(variance_slope) * (share * 2)))
    if mean_slope is not None:
        parts.append(builder.term(mean_slope) * share)
    if variance_slope is None:  # the mean alone: the same for all elements
        return {"input": builder.emit(Broadcast(parts[0].value, node.input.type.shape))}
    return {"input": sum(parts[1:], parts[0]).value}


@gradient(LayerNormalization)
def layer_normalization_gradient(
    node: LayerNormalization, upstream: Value, builder: Backward
) -> OperandGradients:
    """With the statistics of the input, made once more.

    Where ``normal = (input - mean) * r``, ``r = 1 / sqrt(variance + epsilon)`` and ``g = dy *
    scale``::

        d_input = (g - mean(g) - normal * mean(g * normal)) * r
        d_scale = sum(dy * normal)          d_bias = sum(dy)
    """
    rank, type = node.type.rank, node.scale.type
    axes, leading = tuple(range(node.axis, rank)), tuple(range(node.axis))
    moments = builder.emit(Moments(node.input, axes))
    up, x, mean, variance = builder.terms(upstream, node.input, *moments.results)
    inverse = (variance + node.epsilon).apply(Sqrt).apply(Reciprocal)
    normal = (x - mean) * inverse
    found: dict[str, Value] = {}
    if builder.wants(node.input):
        slope = up * _shaped(builder.term(node.scale), (1,) * node.axis + type.shape)
        along = normal * _mean(slope * normal, axes)
        found["input"] = ((slope - _mean(slope, axes) - along) * inverse).value
    if builder.wants(node.scale):
        found["scale"] = _summed(up * normal, leading).value
    if node.bias is not None and builder.wants(node.bias):
        found["bias"] = _summed(up, leading).value
    return found


@gradient(LocalResponseNormalization)
def local_response_normalization_gradient(
    node: LocalResponseNormalization, upstream: Value, builder: Backward
) -> OperandGradients:
    """With ``divisor = bias + alpha / size * sum of input ** 2`` around each channel.

    ``dy / divisor ** beta - 2 * alpha * beta / size * input * sum of dy * y / divisor``, the sum
    over the channels that this one is a neighbour of. With *alpha* or *beta* 0 the input is only
    scaled, also where the divisor is 0.
    """
    before = (node.size - 1) // 2
    after = node.size - 1 - before
    up, x, y = builder.terms(upstream, node.input, node)
    factor = -2 * node.alpha * node.beta / node.size
    if not factor:
        power = Pow(up.number(node.bias).value, up.number(-node.beta).value)
        return {"input": (up * builder.term(builder.emit(power))).value}
    divisor = _neighbours(x * x, before, after) * (node.alpha / node.size) + node.bias
    power = Pow(divisor.value, divisor.number(-node.beta).value)
    others = _neighbours(up * y / divisor, after, before)
    return {"input": (up * builder.term(builder.emit(power)) + x * others * factor).value}


def _neighbours(term: Term, before: int, after: int) -> Term:
    """Return for each channel the sum of *before* channels, of itself, and of *after* channels."""
    builder, (*lead, channels) = term.builder, term.value.type.shape
    zeros = (0,) * len(lead)
    padded = builder.emit(Pad(term.value, (*zeros, before, *zeros, after)))
    windows = (
        Slice(padded, (*zeros, first), (*lead, first + channels), (1,) * (len(lead) + 1))
        for first in range(before + after + 1)
    )
    return reduce(Term.__add__, (Term(builder, builder.emit(window)) for window in windows))


@gradient(Softmax)
def softmax_gradient(node: Softmax, upstream: Value, builder: Backward) -> OperandGradients:
    """``y * (dy - sum(dy * y))``."""
    up, y = builder.terms(upstream, node)
    return {"input": (y * (up - _summed(up * y, (node.axis,), keep_dims=True))).value}


@gradient(LogSoftmax)
def log_softmax_gradient(node: LogSoftmax, upstream: Value, builder: Backward) -> OperandGradients:
    """``dy - exp(y) * sum(dy)``."""
    up, y = builder.terms(upstream, node)
    return {"input": (up - y.apply(Exp) * _summed(up, (node.axis,), keep_dims=True)).value}


def _shaped(term: Term, shape: Sequence[int]) -> Term:
    return Term(term.builder, term.builder.emit(Reshape(term.value, tuple(shape))))


def _summed(term: Term, axes: tuple[int, ...], *, keep_dims: bool = False) -> Term:
    return Term(term.builder, term.builder.emit(ReduceSum(term.value, axes, keep_dims)))


def _mean(term: Term, axes: tuple[int, ...]) -> Term:
    return Term(term.builder, term.builder.emit(ReduceMean(term.value, axes)))
