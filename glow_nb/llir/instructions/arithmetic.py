"""Functions of two operands, element by element, with broadcasting over equal ranks."""

from __future__ import annotations

from glow_nb.hlir.ops import arithmetic as nodes
from glow_nb.llir.instructions.node_instruction import INPLACE_BINARY, BinaryInstruction
from glow_nb.llir.program import define_instruction


@define_instruction("add", scalar="lhs + rhs", inplace=INPLACE_BINARY, node=nodes.Add)
class AddInst(BinaryInstruction):
    """``dest = lhs + rhs``."""


@define_instruction("sub", scalar="lhs - rhs", inplace=INPLACE_BINARY, node=nodes.Sub)
class SubInst(BinaryInstruction):
    """``dest = lhs - rhs``."""


@define_instruction("mul", scalar="lhs * rhs", inplace=INPLACE_BINARY, node=nodes.Mul)
class MulInst(BinaryInstruction):
    """``dest = lhs * rhs``."""


@define_instruction("div", scalar="lhs / rhs", inplace=INPLACE_BINARY, node=nodes.Div)
class DivInst(BinaryInstruction):
    """``dest = lhs / rhs``; of integers the quotient without its fraction."""


@define_instruction("pow", scalar="pow(lhs, rhs)", inplace=INPLACE_BINARY, node=nodes.Pow)
class PowInst(BinaryInstruction):
    """``dest = lhs ** rhs``."""


@define_instruction(
    "maximum", scalar="maximum(lhs, rhs)", inplace=INPLACE_BINARY, node=nodes.Maximum
)
class MaximumInst(BinaryInstruction):
    """``dest = max(lhs, rhs)``; NaN if either is."""


@define_instruction(
    "minimum", scalar="minimum(lhs, rhs)", inplace=INPLACE_BINARY, node=nodes.Minimum
)
class MinimumInst(BinaryInstruction):
    """``dest = min(lhs, rhs)``; NaN if either is."""


@define_instruction(
    "modulo",
    scalar="fmod(lhs, rhs) if fmod else lhs % rhs",
    inplace=INPLACE_BINARY,
    node=nodes.Modulo,
)
class ModuloInst(BinaryInstruction):
    """``dest`` is the remainder of ``lhs / rhs``: of lhs's sign with *fmod*, else of rhs's."""

    fmod: bool


@define_instruction(
    "bitwise_and", scalar="lhs & rhs", inplace=INPLACE_BINARY, node=nodes.BitwiseAnd
)
class BitwiseAndInst(BinaryInstruction):
    """``dest = lhs & rhs``, bit by bit."""


@define_instruction("bitwise_or", scalar="lhs | rhs", inplace=INPLACE_BINARY, node=nodes.BitwiseOr)
class BitwiseOrInst(BinaryInstruction):
    """``dest = lhs | rhs``, bit by bit."""


@define_instruction(
    "bitwise_xor", scalar="lhs ^ rhs", inplace=INPLACE_BINARY, node=nodes.BitwiseXor
)
class BitwiseXorInst(BinaryInstruction):
    """``dest = lhs ^ rhs``, bit by bit."""


@define_instruction(
    "bit_shift",
    scalar="lhs << rhs if direction == 'left' else lhs >> rhs",
    inplace=INPLACE_BINARY,
    node=nodes.BitShift,
)
class BitShiftInst(BinaryInstruction):
    """``dest`` is *lhs* shifted by *rhs* bits to the *direction*, ``left`` or ``right``."""

    direction: str


@define_instruction("and", scalar="lhs & rhs", inplace=INPLACE_BINARY, node=nodes.And)
class AndInst(BinaryInstruction):
    """``dest = lhs and rhs``, of bools."""


@define_instruction("or", scalar="lhs | rhs", inplace=INPLACE_BINARY, node=nodes.Or)
class OrInst(BinaryInstruction):
    """``dest = lhs or rhs``, of bools."""


@define_instruction("xor", scalar="lhs ^ rhs", inplace=INPLACE_BINARY, node=nodes.Xor)
class XorInst(BinaryInstruction):
    """``dest`` is true where exactly one of two bools is."""
