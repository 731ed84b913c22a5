"""Activation functions, element by element; each is one expression (paper 5.2)."""

from __future__ import annotations

from glow_nb.hlir.ops import activation as nodes
from glow_nb.llir.instructions.node_instruction import (
    INPLACE_UNARY,
    NodeInstruction,
    UnaryInstruction,
)
from glow_nb.llir.program import In, Out, define_instruction


@define_instruction("relu", scalar="maximum(input, 0)", inplace=INPLACE_UNARY, node=nodes.Relu)
class ReluInst(UnaryInstruction):
    """``dest = max(input, 0)``."""


@define_instruction(
    "leaky_relu",
    scalar="where(input < 0, input * alpha, input)",
    inplace=INPLACE_UNARY,
    node=nodes.LeakyRelu,
)
class LeakyReluInst(UnaryInstruction):
    """``dest = input * alpha`` where the input is negative, else ``input``."""

    alpha: float


@define_instruction(
    "prelu",
    scalar="where(input < 0, input * slope, input)",
    inplace=(("dest", "input"), ("dest", "slope")),
    node=nodes.PRelu,
)
class PReluInst(NodeInstruction):
    """``dest = input * slope`` where the input is negative, else ``input``; slope broadcasts."""

    dest: Out
    input: In
    slope: In


@define_instruction(
    "clip",
    scalar="minimum(maximum(input, minimum), maximum)",
    inplace=INPLACE_UNARY,
    node=nodes.Clip,
)
class ClipInst(UnaryInstruction):
    """``dest = min(max(input, minimum), maximum)``.

    For integers IRGen has made the bounds whole numbers; they saturate to the kind.
    """

    minimum: float
    maximum: float


@define_instruction("sigmoid", scalar="sigmoid(input)", inplace=INPLACE_UNARY, node=nodes.Sigmoid)
class SigmoidInst(UnaryInstruction):
    """``dest = 1 / (1 + exp(-input))``."""


@define_instruction("tanh", scalar="tanh(input)", inplace=INPLACE_UNARY, node=nodes.Tanh)
class TanhInst(UnaryInstruction):
    """``dest = tanh(input)``."""


@define_instruction(
    "elu",
    scalar="where(input >= 0, input, alpha * expm1(input))",
    inplace=INPLACE_UNARY,
    node=nodes.Elu,
)
class EluInst(UnaryInstruction):
    """``dest = input`` where it is positive, else ``alpha * (exp(input) - 1)``."""

    alpha: float


@define_instruction(
    "hard_sigmoid",
    scalar="minimum(maximum(alpha * input + beta, 0), 1)",
    inplace=INPLACE_UNARY,
    node=nodes.HardSigmoid,
)
class HardSigmoidInst(UnaryInstruction):
    """``dest = min(max(alpha * input + beta, 0), 1)``."""

    alpha: float
    beta: float


@define_instruction(
    "swish",
    scalar="input * sigmoid(input * alpha)",
    inplace=INPLACE_UNARY,
    node=nodes.Swish,
)
class SwishInst(UnaryInstruction):
    """``dest = input / (1 + exp(-alpha * input))``."""

    alpha: float


@define_instruction(
    "hard_swish",
    scalar="input * minimum(maximum(input * 0.16666666666666666 + 0.5, 0), 1)",
    inplace=INPLACE_UNARY,
    node=nodes.HardSwish,
)
class HardSwishInst(UnaryInstruction):
    """``dest = input * min(max(input / 6 + 1/2, 0), 1)``."""


@define_instruction(
    "softplus",
    scalar="maximum(input, 0) + log1p(exp(-abs(input)))",
    inplace=INPLACE_UNARY,
    node=nodes.Softplus,
)
class SoftplusInst(UnaryInstruction):
    """``dest = log(1 + exp(input))``, in the form that does not overflow."""


@define_instruction(
    "gelu",
    scalar=(
        "input * sigmoid(1.5957691216057308 * (input + 0.044715 * input * input * input))"
        " if approximate == 'tanh' else gelu(input)"
    ),
    inplace=INPLACE_UNARY,
    node=nodes.Gelu,
)
class GeluInst(UnaryInstruction):
    """``dest = input * cdf(input)`` of the standard normal distribution.

    The cdf is ``(1 + erf(input / sqrt 2)) / 2``, or its ``tanh`` approximation.
    """

    approximate: str
