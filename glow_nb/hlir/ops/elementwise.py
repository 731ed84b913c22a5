"""Functions of one element: ``result[i] = f(input[i])``; activations are in ``activation.py``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import bits_as, converted
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.families import (
    ALL,
    BOOL,
    NUMBERS,
    SIGNED,
    Kinds,
    UnaryElementwise,
    fitted,
    require_kind,
)

if TYPE_CHECKING:
    from glow_nb.hlir.builder import Emitter

_erf, _erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)


@define_node("exp", scalar="exp(input)")
class Exp(UnaryElementwise):
    """Exponential: ``result[i] = e ** input[i]``."""

    compute = np.exp


@define_node("log", scalar="log(input)")
class Log(UnaryElementwise):
    """Natural logarithm: -inf at 0, NaN below."""

    compute = np.log


@define_node("sqrt", scalar="sqrt(input)")
class Sqrt(UnaryElementwise):
    """Square root: NaN below 0."""

    compute = np.sqrt


@define_node("reciprocal", scalar="1 / input")
class Reciprocal(UnaryElementwise):
    """Reciprocal: ``result[i] = 1 / input[i]``."""

    @override
    def compute(self, x: Any) -> Any:
        return 1 / x


@define_node("erf", scalar="erf(input)")
class Erf(UnaryElementwise):
    """Error function: ``2 / sqrt(pi) * integral of exp(-t**2) for t in 0..input[i]``."""

    @override
    def compute(self, x: Any) -> Any:
        return error_function(x)


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """Return ``x y + z`` of floats, rounded once, or twice from a sum that is wide enough.

    A product of float32 is exact in float64; the sum is rounded there, and to its own kind. Other
    numbers than floats become float64.
    """
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    made: Array = (x.astype(wide) * y + z).astype(x.dtype)
    return made


def error_function(x: Any) -> Any:
    """Return erf of each element of *x*, as float64."""
    return np.asarray(_erf(x)).astype(np.float64)


def error_complement(x: Any) -> Any:
    """Return 1 - erf of each element of *x*, without cancellation, as float64."""
    return np.asarray(_erfc(x)).astype(np.float64)


@define_node("neg", scalar="-input")
class Neg(UnaryElementwise):
    """Negation; the least integer stays as it is (two's complement)."""

    kinds: ClassVar[Kinds] = SIGNED

    compute = np.negative


@define_node("abs", scalar="abs(input)")
class Abs(UnaryElementwise):
    """Absolute value; the least integer stays as it is (two's complement)."""

    kinds: ClassVar[Kinds] = NUMBERS

    compute = np.abs


@define_node("sign", scalar="sign(input)")
class Sign(UnaryElementwise):
    """Sign: -1, 0 or 1; NaN stays NaN."""

    kinds: ClassVar[Kinds] = NUMBERS

    compute = np.sign


@define_node("floor", scalar="floor(input)")
class Floor(UnaryElementwise):
    """Greatest whole number that is not above the element."""

    compute = np.floor


@define_node("ceil", scalar="ceil(input)")
class Ceil(UnaryElementwise):
    """Least whole number that is not below the element."""

    compute = np.ceil


@define_node("round", scalar="rint(input)")
class Round(UnaryElementwise):
    """Nearest whole number, halves to the even one."""

    compute = np.rint


@define_node("not", scalar="~input")
class Not(UnaryElementwise):
    """Logical negation of bool elements."""

    kinds: ClassVar[Kinds] = BOOL

    compute = np.logical_not


@define_node("sin", scalar="sin(input)")
class Sin(UnaryElementwise):
    """Sine of radians; NaN at infinities."""

    compute = np.sin


@define_node("cos", scalar="cos(input)")
class Cos(UnaryElementwise):
    """Cosine of radians; NaN at infinities."""

    compute = np.cos


@define_node("tan", scalar="tan(input)")
class Tan(UnaryElementwise):
    """Tangent of radians; NaN at infinities."""

    compute = np.tan


@define_node("asin", scalar="asin(input)")
class Asin(UnaryElementwise):
    """Inverse sine in radians; NaN outside -1..1."""

    compute = np.arcsin


@define_node("acos", scalar="acos(input)")
class Acos(UnaryElementwise):
    """Inverse cosine in radians; NaN outside -1..1."""

    compute = np.arccos


@define_node("atan", scalar="atan(input)")
class Atan(UnaryElementwise):
    """Inverse tangent in radians."""

    compute = np.arctan


@define_node("sinh", scalar="sinh(input)")
class Sinh(UnaryElementwise):
    """Hyperbolic sine: ``(exp(x) - exp(-x)) / 2``."""

    compute = np.sinh


@define_node("cosh", scalar="cosh(input)")
class Cosh(UnaryElementwise):
    """Hyperbolic cosine: ``(exp(x) + exp(-x)) / 2``."""

    compute = np.cosh


@define_node("asinh", scalar="asinh(input)")
class Asinh(UnaryElementwise):
    """Inverse hyperbolic sine."""

    compute = np.arcsinh


@define_node("acosh", scalar="acosh(input)")
class Acosh(UnaryElementwise):
    """Inverse hyperbolic cosine; NaN below 1."""

    compute = np.arccosh


@define_node("atanh", scalar="atanh(input)")
class Atanh(UnaryElementwise):
    """Inverse hyperbolic tangent; NaN outside -1..1."""

    compute = np.arctanh


@define_node("is_nan", scalar="isnan(input)")
class IsNaN(UnaryElementwise):
    """True where the element is NaN."""

    compute = np.isnan

    @override
    def infer_type(self) -> TensorType:
        return super().infer_type().with_kind(ElementKind.BOOL)


@define_node("is_inf", scalar="isinf(input) & where(input > 0, positive, negative)")
class IsInf(UnaryElementwise):
    """True where the element is an infinity of a wanted sign.

    Attributes:
        positive: +inf counts.
        negative: -inf counts.
    """

    positive: bool = True
    negative: bool = True

    @override
    def infer_type(self) -> TensorType:
        return super().infer_type().with_kind(ElementKind.BOOL)

    @override
    def compute(self, x: Any) -> Any:
        return (np.isposinf(x) & self.positive) | (np.isneginf(x) & self.negative)


@define_node("convert_to", scalar="convert(input)")
class ConvertTo(UnaryElementwise):
    """Convert the elements to another *kind*, as :func:`glow_nb.base.conversion.converted` says.

    Attributes:
        kind: The kind of the result.
    """

    kinds: ClassVar[Kinds] = ALL
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "input", self.input.type, self.kinds)
        return self.input.type.with_kind(self.kind)

    @override
    def compute(self, x: Any) -> Any:
        return converted(x, self.kind)


def as_kind(builder: Emitter, value: Value, kind: ElementKind) -> Value:
    """Return *value*, converted if it is of another *kind*."""
    return value if value.type.kind is kind else builder.emit(ConvertTo(value, kind))


@define_node("bit_cast", scalar="bit_cast(input)")
class BitCast(UnaryElementwise):
    """Reinterpret the bits of each element as an element of another *kind* of the same size.

    A bool has 8 bits; of the bits of another kind it tells whether any is set.

    Attributes:
        kind: The kind of the result.
    """

    kinds: ClassVar[Kinds] = ALL
    kind: ElementKind

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, self.kinds)
        self.require(
            type.kind.bits == self.kind.bits,
            f"'input' is {type} with {type.kind.bits} bits an element, but {self.kind.value} has "
            f"{self.kind.bits}; the sizes must be equal",
        )
        return type.with_kind(self.kind)

    @override
    def evaluate(self, input: Array) -> Array:
        return fitted(bits_as(input, self.kind), self.type)
