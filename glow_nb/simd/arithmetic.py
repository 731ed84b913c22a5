"""Arithmetic, comparisons, bit operations and rounding on vectors, with NumPy's meaning.

``maximum`` and ``minimum`` give NaN when either operand is NaN, and take -0.0 as less than 0.0; for
a bound that is known, ``at_least``, ``at_most`` and ``positive_part`` are shorter. Integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.base.errors import UnsupportedError
from glow_nb.simd.lanes import BOOL, Lanes

Binary = Callable[[Lanes, Lanes], Lanes]


def add(lhs: Lanes, rhs: Lanes) -> Lanes:
    """``lhs + rhs``; or, for bool."""
    return lhs | rhs if lhs.kind is BOOL else lhs + rhs


def sub(lhs: Lanes, rhs: Lanes) -> Lanes:
    """``lhs - rhs``."""
    return lhs - rhs


def mul(lhs: Lanes, rhs: Lanes) -> Lanes:
    """``lhs * rhs``; and, for bool."""
    return lhs & rhs if lhs.kind is BOOL else lhs * rhs


def fma(lhs: Lanes, rhs: Lanes, addend: Lanes) -> Lanes:
    """``lhs * rhs + addend``."""
    return lhs.fma(rhs, addend)


def maximum(lhs: Lanes, rhs: Lanes) -> Lanes:
    """The larger, of two zeros the positive one; NaN if either is NaN."""
    if not lhs.kind.is_float:
        return (lhs > rhs).select(lhs, rhs)
    return neg(minimum(neg(lhs), neg(rhs)))


def minimum(lhs: Lanes, rhs: Lanes) -> Lanes:
    """The smaller, of two zeros the negative one; NaN if either is NaN."""
    if not lhs.kind.is_float:
        return (lhs < rhs).select(lhs, rhs)
    # Each is the smaller, but of two zeros, or with a NaN, one is the left number and one the
    # right; the bits of both together are a negative zero then, or a NaN.
    first, second = (rhs < lhs).select(rhs, lhs), (lhs < rhs).select(lhs, rhs)
    return (first.bits() | second.bits()).as_float(lhs.kind)


def at_least(x: Lanes, bound: Lanes) -> Lanes:
    """``maximum(x, bound)`` for a *bound* that is neither NaN nor 0.0; one instruction."""
    return (x < bound).select(bound, x)


def at_most(x: Lanes, bound: Lanes) -> Lanes:
    """``minimum(x, bound)`` for a *bound* that is neither NaN nor -0.0; one instruction."""
    return (x > bound).select(bound, x)


def positive_part(x: Lanes) -> Lanes:
    """``maximum(x, 0.0)``."""
    return (x <= 0).select(0, x)


def largest(lhs: Lanes, rhs: Lanes) -> Lanes:
    """The larger, if neither is NaN; one instruction."""
    return (lhs < rhs).select(rhs, lhs)


def neg(x: Lanes) -> Lanes:
    """``-x``."""
    return x.like(x.builder.fneg(x.value)) if x.kind.is_float else x.full(0) - x


def absolute(x: Lanes) -> Lanes:
    """``|x|``."""
    if x.kind.is_float:
        return x.call("fabs")
    return (x < 0).select(neg(x), x) if x.kind.is_signed else x


def sign(x: Lanes) -> Lanes:
    """-1, 0 or 1; NaN for NaN; 0.0 for -0.0."""
    if not x.kind.is_signed:
        return (x > 0).select(1, x)
    return (x > 0).select(1, (x < 0).select(-1, x + 0))


def sqrt(x: Lanes) -> Lanes:
    """Square root, correctly rounded."""
    return x.call("sqrt")


def rsqrt(x: Lanes) -> Lanes:
    """``1 / sqrt(x)``, at most 1.5 ulp."""
    return x.full(1.0).divide(sqrt(x))


def floor(x: Lanes) -> Lanes:
    """Round down; integers stay."""
    return x.call("floor") if x.kind.is_float else x


def ceil(x: Lanes) -> Lanes:
    """Round up; integers stay."""
    return x.call("ceil") if x.kind.is_float else x


def rint(x: Lanes) -> Lanes:
    """Round to nearest, halves to even; integers stay."""
    return x.call("rint") if x.kind.is_float else x


def trunc(x: Lanes) -> Lanes:
    """Round towards zero; integers stay."""
    return x.call("trunc") if x.kind.is_float else x


def copysign(x: Lanes, sign_of: Lanes) -> Lanes:
    """The magnitude of *x* with the sign of *sign_of*."""
    return x.call("copysign", sign_of)


def isnan(x: Lanes) -> Lanes:
    """True where *x* is not a number."""
    return x.is_nan() if x.kind.is_float else x.full(False, BOOL)


def isinf(x: Lanes) -> Lanes:
    """True where *x* is an infinity."""
    if not x.kind.is_float:
        return x.full(False, BOOL)
    return absolute(x).compare("==", float("inf"))


def bit_and(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Bitwise and."""
    return lhs & rhs


def bit_or(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Bitwise or."""
    return lhs | rhs


def bit_xor(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Bitwise exclusive or."""
    return lhs ^ rhs


def bit_not(x: Lanes) -> Lanes:
    """Bitwise complement; logical for bool."""
    return x.like(x.builder.not_(x.value))


def shift_left(x: Lanes, count: Lanes) -> Lanes:
    """``x << count``; 0 when *count* is the width or more."""
    in_range = _is_shift(count)
    return in_range.select(x.shift_left(in_range.select(count, count.full(0))), x.full(0))


def shift_right(x: Lanes, count: Lanes) -> Lanes:
    """``x >> count``; only copies of the sign are left when *count* is the width or more."""
    widest = x.full(x.kind.size_bytes * 8 - 1)
    shifted = x.shift_right(_is_shift(count).select(count, widest))
    return shifted if x.kind.is_signed else _is_shift(count).select(shifted, x.full(0))


def _is_shift(count: Lanes) -> Lanes:
    """True where *count* is less than the width; a negative count is not."""
    small = count < count.kind.size_bytes * 8
    return small & (count >= 0) if count.kind.is_signed else small


def comparison(comparison_sign: str) -> Binary:
    """Return the comparison by *comparison_sign*, one of ``< <= > >= == !=``."""
    return lambda lhs, rhs: lhs.compare(comparison_sign, rhs)


def require_float(x: Lanes, name: str) -> None:
    """Raise UnsupportedError unless *x* is ``float32`` or ``float64``."""
    if not x.kind.is_float:
        raise UnsupportedError(f"{name}: no kernel for {x.kind.value}; convert to float32 first")
