"""Arithmetic and logic on two tensors of equal rank: ``result[i] = f(lhs[i], rhs[i])``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.extremes import larger, smaller
from glow_nb.base.schema import OneOf
from glow_nb.hlir.graph import define_node
from glow_nb.hlir.ops.families import BOOL, INTEGERS, BinaryElementwise, Kinds


def _is_integer(x: Any) -> bool:
    return bool(np.issubdtype(x.dtype, np.integer))


@define_node("add", scalar="lhs + rhs", commutes=True)
class Add(BinaryElementwise):
    """Sum: ``result[i] = lhs[i] + rhs[i]``; integers wrap."""

    compute = np.add


@define_node("sub", scalar="lhs - rhs")
class Sub(BinaryElementwise):
    """Difference: ``result[i] = lhs[i] - rhs[i]``; integers wrap."""

    compute = np.subtract


@define_node("mul", scalar="lhs * rhs", commutes=True)
class Mul(BinaryElementwise):
    """Product: ``result[i] = lhs[i] * rhs[i]``; integers wrap."""

    compute = np.multiply


@define_node("div", scalar="lhs / rhs")
class Div(BinaryElementwise):
    """Quotient: ``result[i] = lhs[i] / rhs[i]``.

    Integers truncate toward zero; an integer divided by zero gives 0.
    """

    @override
    def compute(self, x: Any, y: Any) -> Any:
        if not _is_integer(x):
            return x / y
        floored = x // y
        has_remainder = floored * y != x
        return floored + (has_remainder & ((x < 0) != (y < 0)) & (y != 0))


@define_node("pow", scalar="pow(lhs, rhs)")
class Pow(BinaryElementwise):
    """Power: ``result[i] = lhs[i] ** rhs[i]``.

    Integers wrap; with a negative exponent they truncate toward zero: 1 and -1 keep their size,
    0 and all others give 0.
    """

    @override
    def compute(self, x: Any, y: Any) -> Any:
        if not _is_integer(x):
            return np.power(x, y)
        power = np.power(x, np.maximum(y, 0))
        is_unit = (x == 1) | (x + x.dtype.type(1) == 0) & (x != 0)
        inverse = np.where(is_unit, np.power(x, y % 2), 0)
        return np.where(y < 0, inverse, power)


@define_node("maximum", scalar="maximum(lhs, rhs)", commutes=True)
class Maximum(BinaryElementwise):
    """Larger element, of two zeros the positive one; NaN if either is NaN."""

    compute = staticmethod(larger)


@define_node("minimum", scalar="minimum(lhs, rhs)", commutes=True)
class Minimum(BinaryElementwise):
    """Smaller element, of two zeros the negative one; NaN if either is NaN."""

    compute = staticmethod(smaller)


@define_node("modulo", scalar="fmod(lhs, rhs) if fmod else lhs % rhs")
class Modulo(BinaryElementwise):
    """Remainder of ``lhs[i] / rhs[i]``; an integer modulo zero gives 0.

    Attributes:
        fmod: The result has the sign of ``lhs``, as C's ``fmod``; else that of ``rhs``, as
            Python's ``%``.
    """

    fmod: bool = False

    @override
    def compute(self, x: Any, y: Any) -> Any:
        return np.fmod(x, y) if self.fmod else np.mod(x, y)


@define_node("bitwise_and", scalar="lhs & rhs", commutes=True)
class BitwiseAnd(BinaryElementwise):
    """Bits set in both integers."""

    kinds: ClassVar[Kinds] = INTEGERS

    compute = np.bitwise_and


@define_node("bitwise_or", scalar="lhs | rhs", commutes=True)
class BitwiseOr(BinaryElementwise):
    """Bits set in either integer."""

    kinds: ClassVar[Kinds] = INTEGERS

    compute = np.bitwise_or


@define_node("bitwise_xor", scalar="lhs ^ rhs", commutes=True)
class BitwiseXor(BinaryElementwise):
    """Bits set in exactly one of the integers."""

    kinds: ClassVar[Kinds] = INTEGERS

    compute = np.bitwise_xor


@define_node("bit_shift", scalar="lhs << rhs if direction == 'left' else lhs >> rhs")
class BitShift(BinaryElementwise):
    """Shift the bits of unsigned integers by ``rhs[i]`` places; by the width or more gives 0.

    Attributes:
        direction: ``left`` or ``right``.
    """

    kinds: ClassVar[Kinds] = frozenset(kind for kind in INTEGERS if not kind.is_signed)
    direction: Annotated[str, OneOf("left", "right")]

    @override
    def compute(self, x: Any, y: Any) -> Any:
        return np.left_shift(x, y) if self.direction == "left" else np.right_shift(x, y)


@define_node("and", scalar="lhs & rhs", commutes=True)
class And(BinaryElementwise):
    """True where both are true."""

    kinds: ClassVar[Kinds] = BOOL

    compute = np.bitwise_and


@define_node("or", scalar="lhs | rhs", commutes=True)
class Or(BinaryElementwise):
    """True where either is true."""

    kinds: ClassVar[Kinds] = BOOL

    compute = np.bitwise_or


@define_node("xor", scalar="lhs ^ rhs", commutes=True)
class Xor(BinaryElementwise):
    """True where exactly one is true."""

    kinds: ClassVar[Kinds] = BOOL

    compute = np.bitwise_xor
