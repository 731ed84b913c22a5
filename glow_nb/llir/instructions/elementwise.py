"""Functions of one element; the activations are in ``activation.py``."""

from __future__ import annotations

from glow_nb.hlir.ops import elementwise as nodes
from glow_nb.llir.instructions.node_instruction import INPLACE_UNARY, UnaryInstruction
from glow_nb.llir.program import define_instruction
from glow_nb.types import ElementKind


@define_instruction("erf", scalar="erf(input)", inplace=INPLACE_UNARY, node=nodes.Erf)
class ErfInst(UnaryInstruction):
    """``dest = erf(input)``."""


@define_instruction("exp", scalar="exp(input)", inplace=INPLACE_UNARY, node=nodes.Exp)
class ExpInst(UnaryInstruction):
    """``dest = exp(input)``."""


@define_instruction("log", scalar="log(input)", inplace=INPLACE_UNARY, node=nodes.Log)
class LogInst(UnaryInstruction):
    """``dest = log(input)``, the natural logarithm."""


@define_instruction("sqrt", scalar="sqrt(input)", inplace=INPLACE_UNARY, node=nodes.Sqrt)
class SqrtInst(UnaryInstruction):
    """``dest = sqrt(input)``."""


@define_instruction("reciprocal", scalar="1 / input", inplace=INPLACE_UNARY, node=nodes.Reciprocal)
class ReciprocalInst(UnaryInstruction):
    """``dest = 1 / input``."""


@define_instruction("neg", scalar="-input", inplace=INPLACE_UNARY, node=nodes.Neg)
class NegInst(UnaryInstruction):
    """``dest = -input``."""


@define_instruction("abs", scalar="abs(input)", inplace=INPLACE_UNARY, node=nodes.Abs)
class AbsInst(UnaryInstruction):
    """``dest = |input|``."""


@define_instruction("sign", scalar="sign(input)", inplace=INPLACE_UNARY, node=nodes.Sign)
class SignInst(UnaryInstruction):
    """``dest`` is -1, 0 or 1, NaN for NaN."""


@define_instruction("floor", scalar="floor(input)", inplace=INPLACE_UNARY, node=nodes.Floor)
class FloorInst(UnaryInstruction):
    """``dest`` is the largest whole number that is not above *input*."""


@define_instruction("ceil", scalar="ceil(input)", inplace=INPLACE_UNARY, node=nodes.Ceil)
class CeilInst(UnaryInstruction):
    """``dest`` is the smallest whole number that is not below *input*."""


@define_instruction("round", scalar="rint(input)", inplace=INPLACE_UNARY, node=nodes.Round)
class RoundInst(UnaryInstruction):
    """``dest`` is the nearest whole number; halves go to the even one."""


@define_instruction("not", scalar="~input", inplace=INPLACE_UNARY, node=nodes.Not)
class NotInst(UnaryInstruction):
    """``dest = not input``."""


@define_instruction("sin", scalar="sin(input)", inplace=INPLACE_UNARY, node=nodes.Sin)
class SinInst(UnaryInstruction):
    """``dest = sin(input)``, radians."""


@define_instruction("cos", scalar="cos(input)", inplace=INPLACE_UNARY, node=nodes.Cos)
class CosInst(UnaryInstruction):
    """``dest = cos(input)``, radians."""


@define_instruction("tan", scalar="tan(input)", inplace=INPLACE_UNARY, node=nodes.Tan)
class TanInst(UnaryInstruction):
    """``dest = tan(input)``, radians."""


@define_instruction("asin", scalar="asin(input)", inplace=INPLACE_UNARY, node=nodes.Asin)
class AsinInst(UnaryInstruction):
    """``dest = asin(input)``, radians."""


@define_instruction("acos", scalar="acos(input)", inplace=INPLACE_UNARY, node=nodes.Acos)
class AcosInst(UnaryInstruction):
    """``dest = acos(input)``, radians."""


@define_instruction("atan", scalar="atan(input)", inplace=INPLACE_UNARY, node=nodes.Atan)
class AtanInst(UnaryInstruction):
    """``dest = atan(input)``, radians."""


@define_instruction("sinh", scalar="sinh(input)", inplace=INPLACE_UNARY, node=nodes.Sinh)
class SinhInst(UnaryInstruction):
    """``dest = sinh(input)``."""


@define_instruction("cosh", scalar="cosh(input)", inplace=INPLACE_UNARY, node=nodes.Cosh)
class CoshInst(UnaryInstruction):
    """``dest = cosh(input)``."""


@define_instruction("asinh", scalar="asinh(input)", inplace=INPLACE_UNARY, node=nodes.Asinh)
class AsinhInst(UnaryInstruction):
    """``dest = asinh(input)``."""


@define_instruction("acosh", scalar="acosh(input)", inplace=INPLACE_UNARY, node=nodes.Acosh)
class AcoshInst(UnaryInstruction):
    """``dest = acosh(input)``."""


@define_instruction("atanh", scalar="atanh(input)", inplace=INPLACE_UNARY, node=nodes.Atanh)
class AtanhInst(UnaryInstruction):
    """``dest = atanh(input)``."""


@define_instruction("is_nan", scalar="isnan(input)", node=nodes.IsNaN)
class IsNaNInst(UnaryInstruction):
    """``dest`` is true where *input* is NaN."""


@define_instruction(
    "is_inf", scalar="isinf(input) & where(input > 0, positive, negative)", node=nodes.IsInf
)
class IsInfInst(UnaryInstruction):
    """``dest`` is true where *input* is infinite with a sign that is asked for."""

    positive: bool
    negative: bool


@define_instruction("convert_to", scalar="convert(input)", node=nodes.ConvertTo)
class ConvertToInst(UnaryInstruction):
    """``dest = kind(input)``; a float becomes an integer by dropping the fraction."""

    kind: ElementKind


@define_instruction("bit_cast", scalar="bit_cast(input)", node=nodes.BitCast)
class BitCastInst(UnaryInstruction):
    """``dest`` has the bits of *input*."""

    kind: ElementKind
