"""The activation functions of recurrent cells, by name, with their two numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import activation as ops
from glow_nb.hlir.ops.elementwise import Abs
from glow_nb.hlir.ops.formulas.terms import Term, where

Formula = Callable[[Term, float, float], Term]


@dataclass(frozen=True)
class Activation:
    """A function of one number.

    Attributes:
        formula: Emits it, for a term and the values of alpha and beta.
        alpha: The default of alpha; None if the function has none.
        beta: The same for beta.
    """

    formula: Formula
    alpha: float | None = None
    beta: float | None = None


def _of_node(make: Callable[[Value, float, float], Node]) -> Formula:
    return lambda x, alpha, beta: Term(x.builder, x.builder.emit(make(x.value, alpha, beta)))


ACTIVATIONS: dict[str, Activation] = {
    "affine": Activation(lambda x, alpha, beta: alpha * x + beta, 1.0, 0.0),
    "elu": Activation(_of_node(lambda x, alpha, _: ops.Elu(x, alpha=alpha)), 1.0),
    "hard_sigmoid": Activation(
        _of_node(lambda x, alpha, beta: ops.HardSigmoid(x, alpha=alpha, beta=beta)), 0.2, 0.5
    ),
    "leaky_relu": Activation(_of_node(lambda x, alpha, _: ops.LeakyRelu(x, alpha=alpha)), 0.01),
    "relu": Activation(_of_node(lambda x, *_: ops.Relu(x))),
    "scaled_tanh": Activation(lambda x, alpha, beta: alpha * (beta * x).apply(ops.Tanh), 1.0, 1.0),
    "sigmoid": Activation(_of_node(lambda x, *_: ops.Sigmoid(x))),
    "softplus": Activation(_of_node(lambda x, *_: ops.Softplus(x))),
    "softsign": Activation(lambda x, *_: x / (1 + x.apply(Abs))),
    "tanh": Activation(_of_node(lambda x, *_: ops.Tanh(x))),
    "thresholded_relu": Activation(lambda x, alpha, _: where(x >= alpha, x, 0.0), 1.0),
}
"""What a cell may apply: the functions that the specification of ONNX's RNN lists."""
