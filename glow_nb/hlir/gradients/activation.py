"""Gradients of activation functions: ``up``, that of the result, times the derivative.

A rule that can tell the derivative from the result does not read the operand, which then need not
be kept for the backward pass.
"""

from __future__ import annotations

import math

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.broadcasting import summed
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.activation import (
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    PRelu,
    Sigmoid,
    Swish,
)
from glow_nb.hlir.ops.elementwise import Erf, Exp
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.rules import OperandGradients, gradient


@gradient(LeakyRelu)
def leaky_relu_gradient(node: LeakyRelu, upstream: Value, builder: Backward) -> OperandGradients:
    """``up`` where the element is positive, else ``alpha * up``; so at 0, as in PyTorch."""
    up = builder.term(upstream)
    return {"input": where(_is_positive(node, builder), up, up * node.alpha).value}


def _is_positive(node: LeakyRelu | Elu, builder: Backward) -> Term:
    """Return where the element is positive: by the result, if that has the sign of the element."""
    return builder.term(node if node.alpha > 0 else node.input) > 0


@gradient(PRelu)
def prelu_gradient(node: PRelu, upstream: Value, builder: Backward) -> OperandGradients:
    """``up`` where ``x > 0``, else ``slope * up``; the slope gets ``x * up`` there."""
    up, x, slope = builder.terms(upstream, node.input, node.slope)
    return summed(
        node,
        builder,
        input=lambda: where(x > 0, up, slope * up),
        slope=lambda: where(x > 0, 0, x * up),
    )


@gradient(Clip)
def clip_gradient(node: Clip, upstream: Value, builder: Backward) -> OperandGradients:
    """``up`` where ``minimum <= x <= maximum``, else 0; as in PyTorch it passes at the bounds."""
    up, x = builder.terms(upstream, node.input)
    inside = [
        *([x >= node.minimum] if node.minimum != -math.inf else []),
        *([x <= node.maximum] if node.maximum != math.inf else []),
    ]
    for condition in inside:
        up = where(condition, up, 0)
    return {"input": up.value}


@gradient(Elu)
def elu_gradient(node: Elu, upstream: Value, builder: Backward) -> OperandGradients:
    """``up`` where the element is positive, else ``up * (y + alpha)``; so at 0, as in PyTorch."""
    up, y = builder.terms(upstream, node)
    return {"input": where(_is_positive(node, builder), up, up * (y + node.alpha)).value}


@gradient(HardSigmoid)
def hard_sigmoid_gradient(
    node: HardSigmoid, upstream: Value, builder: Backward
) -> OperandGradients:
    """``alpha * up`` where ``0 < y < 1``, else 0; 0 at both ends, as in PyTorch."""
    up, y = builder.terms(upstream, node)
    return {"input": where((y > 0) & (y < 1), up * node.alpha, 0).value}


@gradient(Swish)
def swish_gradient(node: Swish, upstream: Value, builder: Backward) -> OperandGradients:
    """``up * s * (1 + alpha * x * (1 - s))`` with ``s = sigmoid(alpha * x)``."""
    up, x = builder.terms(upstream, node.input)
    scaled = x if node.alpha == 1 else x * node.alpha
    gate = scaled.apply(Sigmoid)
    return {"input": (up * (gate * (1 + scaled * (1 - gate)))).value}


@gradient(HardSwish)
def hard_swish_gradient(node: HardSwish, upstream: Value, builder: Backward) -> OperandGradients:
    """``up * (x / 3 + 1 / 2)`` where ``-3 < x < 3``, 0 up to -3, ``up`` from 3 on, as PyTorch."""
    up, x = builder.terms(upstream, node.input)
    slope = where(x < 3, x * (1 / 3) + 0.5, 1)
    return {"input": (up * where(x > -3, slope, 0)).value}


@gradient(Gelu)
def gelu_gradient(node: Gelu, upstream: Value, builder: Backward) -> OperandGradients:
    """Of ``x * F(x)``: ``up * (F(x) + x * F'(x))``."""
    up, x = builder.terms(upstream, node.input)
    slope = _gaussian_slope(x) if node.approximate == "none" else _tanh_slope(x)
    return {"input": (up * slope).value}


def _gaussian_slope(x: Term) -> Term:
    """``F(x) = (1 + erf(x / sqrt(2))) / 2``, the distribution function of a Gaussian."""
    share = (x * math.sqrt(0.5)).apply(Erf) * 0.5 + 0.5
    return share + x * ((x * x * -0.5).apply(Exp) * (1 / math.sqrt(2 * math.pi)))


def _tanh_slope(x: Term) -> Term:
    """``F(x) = sigmoid(a * x * (1 + b * x * x))`` with ``a = 2 * sqrt(2 / pi)``, ``b = 0.044715``.

    Far from 0 the slope of F is 0, and stays so: it is multiplied by x twice, since the square of x
    may be infinite.
    """
    a, b = 2 * math.sqrt(2 / math.pi), 0.044715
    share = (x * (x * x * (a * b) + a)).apply(Sigmoid)
    slope = x * share * (1 - share)
    return share + slope * a + slope * x * x * (3 * a * b)
