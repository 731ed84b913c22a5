"""Gradients of functions of one element: ``up``, that of the result, times the derivative.

The derivative is written in the element ``x`` and the result ``y``, whichever is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.roots import vanishes_with_gradient
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.activation import Relu, Sigmoid, Softplus, Tanh
from glow_nb.hlir.ops.elementwise import (
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitCast,
    Ceil,
    ConvertTo,
    Cos,
    Cosh,
    Erf,
    Exp,
    Floor,
    IsInf,
    IsNaN,
    Log,
    Neg,
    Not,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Tan,
)
from glow_nb.hlir.ops.families import UnaryElementwise
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.rules import OperandGradients, gradient, no_gradient

Formula = Callable[[Term, Term], Term]
"""Takes ``up`` and either ``x`` or ``y``, and gives the gradient of x."""

OF_ELEMENT: dict[type[UnaryElementwise], Formula] = {
    Abs: lambda up, x: up * x.apply(Sign),  # 0 at 0, as in PyTorch
    Acos: lambda up, x: -(up / ((1 - x) * (1 + x)).apply(Sqrt)),
    Acosh: lambda up, x: up / ((x - 1).apply(Sqrt) * (x + 1).apply(Sqrt)),
    Asin: lambda up, x: up / ((1 - x) * (1 + x)).apply(Sqrt),
    Asinh: lambda up, x: up / (x * x + 1).apply(Sqrt),
    Atan: lambda up, x: up / (x * x + 1),
    Atanh: lambda up, x: up / ((1 - x) * (1 + x)),
    Cos: lambda up, x: -(up * x.apply(Sin)),
    Cosh: lambda up, x: up * x.apply(Sinh),
    Erf: lambda up, x: up * ((-(x * x)).apply(Exp) * (2 / math.sqrt(math.pi))),
    Log: lambda up, x: up / x,
    Sin: lambda up, x: up * x.apply(Cos),
    Sinh: lambda up, x: up * x.apply(Cosh),
    Softplus: lambda up, x: up * x.apply(Sigmoid),
}
OF_RESULT: dict[type[UnaryElementwise], Formula] = {
    Exp: lambda up, y: up * y,
    Reciprocal: lambda up, y: -(up * (y * y)),
    Relu: lambda up, y: where(y <= 0, 0, up),  # 0 at 0, as in PyTorch
    Sigmoid: lambda up, y: up * ((1 - y) * y),
    Tan: lambda up, y: up * (y * y + 1),
    Tanh: lambda up, y: up * (1 - y * y),
}


@gradient(*OF_ELEMENT)
def gradient_by_element(
    node: UnaryElementwise, upstream: Value, builder: Backward
) -> OperandGradients:
    """Apply the formula in ``x``."""
    up, x = builder.terms(upstream, node.input)
    return {"input": OF_ELEMENT[type(node)](up, x).value}


@gradient(*OF_RESULT)
def gradient_by_result(
    node: UnaryElementwise, upstream: Value, builder: Backward
) -> OperandGradients:
    """Apply the formula in ``y``; the operand need not be kept for it."""
    up, y = builder.terms(upstream, node)
    return {"input": OF_RESULT[type(node)](up, y).value}


@gradient(Sqrt)
def sqrt_gradient(node: Sqrt, upstream: Value, builder: Backward) -> OperandGradients:
    """``up / (2 y)``; for a sum of squares, of which this is the norm, it is 0 at 0."""
    up, y = builder.terms(upstream, node)
    divisor = y + y
    if vanishes_with_gradient(node.input):
        divisor = where(y.equals(0), math.inf, divisor)
    return {"input": (up / divisor).value}


@gradient(Neg)
def neg_gradient(node: Neg, upstream: Value, builder: Backward) -> OperandGradients:
    """``-up``."""
    return {"input": builder.emit(Neg(upstream))}


@gradient(Ceil, Floor, Round, Sign)
def step_gradient(node: UnaryElementwise, upstream: Value, builder: Backward) -> OperandGradients:
    """0 everywhere, also at the steps, as in PyTorch."""
    return {}


@gradient(ConvertTo)
def convert_to_gradient(node: ConvertTo, upstream: Value, builder: Backward) -> OperandGradients:
    """Converted back, from one kind of floats to the other."""
    return {"input": builder.emit(ConvertTo(upstream, node.input.type.kind))}


no_gradient("its results are truth values", IsInf, IsNaN, Not)
no_gradient("it takes bits, not numbers", BitCast)
