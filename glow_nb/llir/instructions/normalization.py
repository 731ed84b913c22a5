"""Normalizations and softmax, for backends that do not want them lowered."""

from __future__ import annotations

from glow_nb.hlir.ops import normalization as nodes
from glow_nb.llir.instructions.node_instruction import NodeInstruction, UnaryInstruction
from glow_nb.llir.program import In, OptionalIn, Out, define_instruction


@define_instruction("local_response_normalization", node=nodes.LocalResponseNormalization)
class LocalResponseNormalizationInst(UnaryInstruction):
    """``dest = input / (bias + alpha / size * sum(input ** 2)) ** beta``.

    The sum goes over *size* neighbours along the last axis.
    """

    size: int
    alpha: float
    beta: float
    bias: float


@define_instruction("layer_normalization", node=nodes.LayerNormalization)
class LayerNormalizationInst(NodeInstruction):
    """``dest = (input - mean) / sqrt(variance + epsilon) * scale + bias``.

    Mean and variance go over the axes from *axis* on; the variance is of the centred values.
    """

    dest: Out
    input: In
    scale: In
    bias: OptionalIn
    axis: int
    epsilon: float


@define_instruction("softmax", node=nodes.Softmax)
class SoftmaxInst(UnaryInstruction):
    """``dest = exp(input - m) / sum(exp(input - m))`` along *axis*, with m the maximum."""

    axis: int


@define_instruction("log_softmax", node=nodes.LogSoftmax)
class LogSoftmaxInst(UnaryInstruction):
    """``dest = input - m - log(sum(exp(input - m)))`` along *axis*, with m the maximum."""

    axis: int
