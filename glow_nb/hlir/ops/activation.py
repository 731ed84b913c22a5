"""Activation functions: ``result[i] = f(input[i])``, each with its lowering to arithmetic."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.extremes import larger, smaller
from glow_nb.base.schema import OneOf
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Maximum, Minimum
from glow_nb.hlir.ops.elementwise import Abs, Erf, Exp, Log, error_complement
from glow_nb.hlir.ops.families import (
    NUMBERS,
    SIGNED,
    Kinds,
    UnaryElementwise,
    bounds_of,
    broadcast_type,
    fitted,
    require_kind,
    splat,
    wide,
)
from glow_nb.hlir.ops.formulas.scalar import lower_by_formula
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("relu", scalar="maximum(input, 0)")
class Relu(UnaryElementwise):
    """Clamp negative elements to zero: ``result[i] = max(input[i], 0)``.

    NaN stays NaN, and -0.0 becomes 0.0.
    """

    kinds: ClassVar[Kinds] = SIGNED

    @override
    def compute(self, x: Any) -> Any:
        return larger(x, x.dtype.type(0))


@define_node("leaky_relu", scalar="where(input < 0, input * alpha, input)")
class LeakyRelu(UnaryElementwise):
    """Scale negative elements: ``x if x >= 0 else alpha * x``.

    Attributes:
        alpha: The factor of negative elements.
    """

    alpha: float = 0.01

    @override
    def compute(self, x: Any) -> Any:
        return np.where(x >= 0, x, self.alpha * x)


@define_node("prelu", scalar="where(input < 0, input * slope, input)")
class PRelu(Node):
    """Scale negative elements by a learned slope: ``x if x >= 0 else slope * x``.

    ``slope`` has the rank of ``input`` and broadcasts to its shape.
    """

    input: Value
    slope: Value

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, SIGNED)
        require_kind(self, "slope", self.slope.type, SIGNED)
        result = broadcast_type(self, input=self.input.type, slope=self.slope.type)
        self.require(
            result == self.input.type,
            f"'slope' of type {self.slope.type} does not broadcast to 'input' {self.input.type}",
        )
        return result

    @override
    def evaluate(self, input: Array, slope: Array) -> Array:
        x = wide(input)
        with np.errstate(all="ignore"):
            return fitted(np.where(x >= 0, x, wide(slope) * x), self.type)


@define_node("clip", scalar="minimum(maximum(input, minimum), maximum)")
class Clip(UnaryElementwise):
    """Clamp to a range: ``min(max(input[i], minimum), maximum)``; NaN stays NaN.

    Where ``minimum`` is above ``maximum`` every element becomes ``maximum``. For integers the
    bounds are narrowed to whole numbers of the kind.

    Attributes:
        minimum: The lower bound; -inf for none.
        maximum: The upper bound; inf for none.
    """

    kinds: ClassVar[Kinds] = NUMBERS
    minimum: float = -math.inf
    maximum: float = math.inf

    @property
    def bounds(self) -> tuple[Any, Any]:
        """The bounds as numbers of the element kind."""
        kind = self.input.type.kind
        if kind.is_float:
            return self.minimum, self.maximum
        least, greatest = bounds_of(kind)
        low, high = (min(max(bound, least), greatest) for bound in (self.minimum, self.maximum))
        return math.ceil(low), math.floor(high)

    @override
    def infer_type(self) -> TensorType:
        self.require(
            not (math.isnan(self.minimum) or math.isnan(self.maximum)),
            f"the bounds {self.minimum} and {self.maximum} must not be NaN",
        )
        return super().infer_type()

    @override
    def compute(self, x: Any) -> Any:
        low, high = self.bounds
        low, high = x.dtype.type(low), x.dtype.type(high)
        return smaller(larger(x, low), high)


@lowers(Clip)
def lower_clip(node: Clip, rewriter: Rewriter) -> Value:
    """Express it as a maximum and a minimum; a bound that every element keeps needs neither."""
    low, high = node.bounds
    least, greatest = bounds_of(node.type.kind)
    result = node.input
    if low != least:
        bound = splat(rewriter, node.type, low, f"{node.name}_minimum")
        result = rewriter.emit(Maximum(result, bound))
    if high != greatest:
        bound = splat(rewriter, node.type, high, f"{node.name}_maximum")
        result = rewriter.emit(Minimum(result, bound))
    return result


@define_node("sigmoid", scalar="sigmoid(input)")
class Sigmoid(UnaryElementwise):
    """Logistic function: ``1 / (1 + exp(-input[i]))``."""

    @override
    def compute(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-x))


@define_node("tanh", scalar="tanh(input)")
class Tanh(UnaryElementwise):
    """Hyperbolic tangent."""

    compute = np.tanh


@define_node("elu", scalar="where(input >= 0, input, alpha * expm1(input))")
class Elu(UnaryElementwise):
    """Exponential linear unit: ``x if x >= 0 else alpha * (exp(x) - 1)``.

    Attributes:
        alpha: The result goes to ``-alpha`` for small elements.
    """

    alpha: float = 1.0

    @override
    def compute(self, x: Any) -> Any:
        return np.where(x >= 0, x, self.alpha * np.expm1(x))


@lowers(Elu)
def lower_elu(node: Elu, rewriter: Rewriter) -> Value:
    """Express it by an exponential that positive elements cannot overflow."""
    x = Term(rewriter, node.input)
    power = x.joined(Minimum, 0).apply(Exp)
    return where(x >= 0, x, (power - 1) * node.alpha).value


@define_node("hard_sigmoid", scalar="minimum(maximum(alpha * input + beta, 0), 1)")
class HardSigmoid(UnaryElementwise):
    """Piecewise linear sigmoid: ``max(0, min(1, alpha * input[i] + beta))``.

    Attributes:
        alpha: The slope.
        beta: The value at 0.
    """

    alpha: float = 0.2
    beta: float = 0.5

    @override
    def compute(self, x: Any) -> Any:
        return np.maximum(0, np.minimum(1, self.alpha * x + self.beta))


@define_node("swish", scalar="input * sigmoid(input * alpha)")
class Swish(UnaryElementwise):
    """The element times its sigmoid: ``x / (1 + exp(-alpha * x))``; also called SiLU.

    Attributes:
        alpha: The factor of the element in the sigmoid.
    """

    alpha: float = 1.0

    @override
    def compute(self, x: Any) -> Any:
        return x * (1 / (1 + np.exp(-self.alpha * x)))


@define_node(
    "hard_swish", scalar="input * minimum(maximum(input * 0.16666666666666666 + 0.5, 0), 1)"
)
class HardSwish(UnaryElementwise):
    """Piecewise swish: ``x * max(0, min(1, x / 6 + 1 / 2))``."""

    @override
    def compute(self, x: Any) -> Any:
        return x * np.maximum(0, np.minimum(1, x / 6 + 0.5))


@define_node("softplus", scalar="softplus(input)")
class Softplus(UnaryElementwise):
    """Smooth rectifier: ``log(1 + exp(input[i]))``, without overflow for large elements."""

    @override
    def compute(self, x: Any) -> Any:
        return np.logaddexp(0, x)


@lowers(Softplus)
def lower_softplus(node: Softplus, rewriter: Rewriter) -> Value:
    """Express it as ``max(x, 0) + log(1 + exp(-abs(x)))``, where nothing overflows."""
    x = Term(rewriter, node.input)
    total = (-x.apply(Abs)).apply(Exp) + 1
    return (x.joined(Maximum, 0) + total.apply(Log)).value


@define_node(
    "gelu",
    scalar=(
        "input * sigmoid(1.5957691216057308 * (input + 0.044715 * input * input * input))"
        " if approximate == 'tanh' else gelu(input)"
    ),
)
class Gelu(UnaryElementwise):
    """Gaussian error linear unit.

    Attributes:
        approximate: ``none`` for ``x / 2 * (1 + erf(x / sqrt(2)))``; ``tanh`` for
            ``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.
    """

    approximate: Annotated[str, OneOf("none", "tanh")] = "none"

    @override
    def compute(self, x: Any) -> Any:
        if self.approximate == "none":
            return x / 2 * error_complement(-x / math.sqrt(2))
        return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@lowers(Gelu)
def lower_gelu(node: Gelu, rewriter: Rewriter) -> Value:
    """Express it as half the element times one plus an error function or hyperbolic tangent."""
    x = Term(rewriter, node.input)
    if node.approximate == "none":
        bent = (x * math.sqrt(0.5)).apply(Erf)
    else:
        bent = (x * math.sqrt(2 / math.pi) * (x * x * 0.044715 + 1)).apply(Tanh)
    return (x * 0.5 * (bent + 1)).value


for _node_class in (Relu, LeakyRelu, PRelu, HardSigmoid, Swish, HardSwish):
    lowers(_node_class)(lower_by_formula)
