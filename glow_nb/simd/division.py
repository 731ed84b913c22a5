"""Quotients and remainders, exact, as vectors; an integer divided by zero gives 0.

No processor divides vectors of integers. Their quotient is a product with the reciprocal of the
divisor, in floats that have bits to spare; LLVM computes the reciprocal once where a whole loop has
one divisor. The remainder of floats is what a single fused multiply-add leaves of them. Numbers for
which that is not exact are divided one after the other: 64-bit integers that are not small, and
floats with quotients that are no exact integers.
"""

from __future__ import annotations

from glow_nb.simd.arithmetic import absolute, copysign, floor, neg, trunc
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import FLOAT32, FLOAT64, Lanes
from glow_nb.simd.rare import unless
from glow_nb.simd.small_integers import float_of_small, high_bits, small_from_float
from glow_nb.simd.types import llvm_vector

_MANTISSA_BITS = {FLOAT32: 23, FLOAT64: 52}


def div(lhs: Lanes, rhs: Lanes) -> Lanes:
    """``lhs / rhs``; integers round towards zero, and x / 0 is 0."""
    return lhs.divide(rhs) if lhs.kind.is_float else _integer_quotient(lhs, rhs)[0]


def reciprocal(x: Lanes) -> Lanes:
    """``1 / x``."""
    return div(x.full(1), x)


def fmod(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Remainder with the sign of *lhs*, as in C; x mod 0 is 0 for integers, NaN for floats."""
    return _float_rest(lhs, rhs) if lhs.kind.is_float else _integer_quotient(lhs, rhs)[1]


def floor_div(lhs: Lanes, rhs: Lanes) -> Lanes:
    """``floor(lhs / rhs)``, Python's ``//``."""
    if lhs.kind.is_float:
        return _float_floor_div(lhs, rhs)
    quotient, rest = _integer_quotient(lhs, rhs)
    return _opposite_signs(rest, rhs).select(quotient - 1, quotient)


def mod(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Remainder with the sign of *rhs*, Python's ``%``; so has a remainder of 0.0."""
    rest = fmod(lhs, rhs)
    result = _opposite_signs(rest, rhs).select(rest + rhs, rest)
    if not lhs.kind.is_float:
        return result
    return rest.compare("==", 0).select(copysign(rest, rhs), result)


def _opposite_signs(rest: Lanes, divisor: Lanes) -> Lanes:
    """True where a non-zero remainder has not the sign of the divisor."""
    different = (rest < 0) ^ (divisor < 0)
    return different & rest.compare("!=", 0) & divisor.compare("!=", 0)


def _float_rest(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Return what ``fmod`` does.

    Rounding may make the quotient one too large, but no other wrong integer while it is exact; then
    the remainder is negative. It is a small multiple of the last place of the divisor, so neither
    it nor the sum that mends it is rounded.
    """
    size, divisor = absolute(lhs), absolute(rhs)
    quotient = size.divide(divisor)
    rest = neg(trunc(quotient)).fma(divisor, size)
    rest = (rest < 0).select(rest + divisor, rest)
    rest = copysign((size < divisor).select(size, rest), lhs)
    is_inexact = quotient >= 2.0 ** (_MANTISSA_BITS[lhs.kind] + 1)
    (result,) = unless(is_inexact, [rest], lambda: [lhs.call_library("fmod", rhs)])
    return result


def _float_floor_div(lhs: Lanes, rhs: Lanes) -> Lanes:
    """Floored quotient through the exact remainder, as Python and NumPy define it."""
    rest = fmod(lhs, rhs)
    ratio = lhs.divide(rhs)
    quotient = (lhs - rest).divide(rhs)
    quotient = _opposite_signs(rest, rhs).select(quotient - 1.0, quotient)
    floored = floor(quotient)
    nearest = (quotient - floored > 0.5).select(floored + 1.0, floored)
    result = quotient.compare("==", 0.0).select(copysign(lhs.full(0.0), ratio), nearest)
    return rhs.compare("==", 0.0).select(ratio, result)


def _integer_quotient(lhs: Lanes, rhs: Lanes) -> tuple[Lanes, Lanes]:
    """Quotient towards zero and remainder; the least integer over -1 is itself."""
    bits = 8 * lhs.kind.size_bytes
    quotient, rest = _long_quotient(lhs, rhs) if bits == 64 else _short_quotient(lhs, rhs)
    is_zero = rhs.compare("==", 0)
    return is_zero.select(0, quotient), is_zero.select(0, rest)


def _short_quotient(lhs: Lanes, rhs: Lanes) -> tuple[Lanes, Lanes]:
    """Divide integers of at most 32 bits."""
    wide = FLOAT32 if lhs.kind.size_bytes <= 2 else FLOAT64
    whole = _whole_quotient(convert(lhs, wide), convert(rhs, wide))
    bits = (whole + 1.5 * 2.0 ** _MANTISSA_BITS[wide]).bits()
    quotient = lhs.like(lhs.builder.trunc(bits.value, llvm_vector(lhs.kind, lhs.lanes)))
    return quotient, lhs - quotient * rhs


def _long_quotient(lhs: Lanes, rhs: Lanes) -> tuple[Lanes, Lanes]:
    """Divide 64-bit integers."""
    number, divisor = float_of_small(lhs), float_of_small(rhs)
    whole = _whole_quotient(number, divisor)
    rest = neg(whole).fma(divisor, number)
    usual = [small_from_float(each, lhs.kind) for each in (whole, rest)]
    is_large = (high_bits(lhs) | high_bits(rhs)).compare("!=", 0)
    quotient, rest = unless(is_large, usual, lambda: _divided_one_by_one(lhs, rhs))
    return quotient, rest


def _whole_quotient(number: Lanes, divisor: Lanes) -> Lanes:
    """Return the quotient, towards zero, of whole numbers that leave some bits of floats unused.

    A half more of the number makes up for the rounding of the reciprocal and of the product: it
    keeps the quotient half of the reciprocal away from integers, on both sides.
    """
    half = copysign(number.full(0.5), number)
    return trunc((number + half) * number.full(1.0).divide(divisor))


def _divided_one_by_one(lhs: Lanes, rhs: Lanes) -> tuple[Lanes, Lanes]:
    """Return quotient and remainder by scalar divisions, which must not meet 0 and -1."""
    is_zero = rhs.compare("==", 0)
    is_minus_one = rhs.compare("==", -1) if lhs.kind.is_signed else is_zero
    divisor = (is_zero | is_minus_one).select(1, rhs)
    divide = lhs.builder.sdiv if lhs.kind.is_signed else lhs.builder.udiv
    quotient = lhs.like(divide(lhs.value, divisor.value))
    rest = lhs - quotient * divisor
    return is_minus_one.select(lhs.full(0) - lhs, quotient), rest
