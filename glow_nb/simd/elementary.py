"""Elementary functions: polynomials for ``float32``, the C library lane by lane for the rest.

Largest errors over every ``float32``, in units of the last place: exp 1.01, expm1 1.46, log 0.83,
log1p 1.30, tanh 2.61, erf 1.02, sigmoid 2.49, gelu 3.71; ``docs/accuracy.md`` has the arguments.
NaN, infinities and denormal numbers are right, but where a function says so. Methods: Cody-Waite
reduction and minimax polynomials (exp fitted here to 0.05 ulp, log by Cephes); erf after N. Juffa's
two-interval form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glow_nb.simd.arithmetic import absolute, copysign, require_float, sqrt
from glow_nb.simd.lanes import FLOAT32, Lanes

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
ROUND_TO_INTEGER = 12582912.0
"""1.5 * 2**23: adding it leaves the nearest integer in the low bits of a ``float32``."""

_EXP = (1.3814535923e-3, 8.3687454462e-3, 4.1668392718e-2, 1.6666521132e-1, 4.9999994040e-1)
"""(exp(r) - 1 - r) / r**2 for |r| <= ln(2) / 2."""

_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_ERF_SMALL = (
    -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1,
)  # fmt: skip
_MILLS = (
    -5.7451758534e-2, 1.9297318161e-1, -2.0601752400e-1, 2.7992499992e-2, 4.7144046985e-3,
    8.4476232529e-2, 1.3404166698e-1, 1.5956261754e-1, 1.5957783163e-1,
)  # fmt: skip
_NORMAL = (
    -7.6542046372e-6, 1.1348636326e-4, -1.1863299878e-3, 9.9733229727e-3, -6.6490359604e-2,
    3.9894229174e-1,
)  # fmt: skip
_INFINITY = float("inf")
_NAN = float("nan")


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Horner's rule, the coefficient of the highest power first."""
    result = x.full(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result.fma(x, coefficient)
    return result


def _reduce_exp(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return n as integers, r, and exp(r) - 1 - r, where x = n ln 2 + r and |r| <= ln(2) / 2."""
    shifted = x.fma(LOG2_E, ROUND_TO_INTEGER)
    number = shifted - ROUND_TO_INTEGER
    rest = number.fma(-LN2_LOW, number.fma(-LN2_HIGH, x))
    integer = shifted.bits() - x.full(ROUND_TO_INTEGER).bits()
    return integer, rest, polynomial(rest, _EXP) * (rest * rest)


def _power_of_two(exponent: Lanes) -> Lanes:
    """``2 ** exponent`` for integers in [-126, 127]."""
    return (exponent + 127).shift_left(23).as_float(FLOAT32)


def between(x: Lanes, low: float, high: float) -> Lanes:
    """Limit *x*; NaN stays."""
    above = (x < low).select(low, x)
    return (above > high).select(high, above)


def exp(x: Lanes) -> Lanes:
    """``e ** x``; overflows to infinity, underflows gradually."""
    if x.kind is not FLOAT32:
        return x.call_library("exp")
    integer, rest, tail = _reduce_exp(between(x, -104.5, 89.0))
    half = integer.shift_right(1)
    return (tail + rest + 1.0) * _power_of_two(half) * _power_of_two(integer - half)


def exp_nonpositive(x: Lanes) -> Lanes:
    """``e ** x`` for x <= 0, as softmax needs it: at most 1.5 ulp, and 0 below -87.33."""
    if x.kind is not FLOAT32:
        return x.call_library("exp")
    return (x < -87.33).select(0.0, _exp_normal(x))


def _exp_normal(x: Lanes) -> Lanes:
    """``e ** x`` for x in [-87.33, 89], infinity from 88.38 on."""
    power, rest = _reduce_exp_normal(x)
    return polynomial(rest, (*_EXP, 1.0, 1.0)) * power


def _reduce_exp_normal(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return ``2 ** n`` and r where x = n ln 2 + r and |r| <= ln(2) / 2, for -126 <= n <= 128."""
    shifted = x.fma(LOG2_E, ROUND_TO_INTEGER)
    number = shifted - ROUND_TO_INTEGER
    rest = number.fma(-LN2_LOW, number.fma(-LN2_HIGH, x))
    return (shifted.bits().shift_left(23) + (127 << 23)).as_float(FLOAT32), rest


def expm1(x: Lanes) -> Lanes:
    """``e ** x - 1`` without cancellation near zero."""
    if x.kind is not FLOAT32:
        return x.call_library("expm1")
    integer, rest, tail = _reduce_exp(between(x, -26.0, 89.0))
    half_scale = _power_of_two(integer - 1)
    large = (tail + rest).fma(half_scale, half_scale - 0.5) * 2.0
    small = integer.compare("==", 0).select(tail + rest, large)
    return x.compare("==", 0.0).select(x, small)


def log(x: Lanes) -> Lanes:
    """Natural logarithm; -inf at 0, NaN below."""
    if x.kind is not FLOAT32:
        return x.call_library("log")
    is_denormal = x < 1.17549435e-38
    scaled = is_denormal.select(x * 8388608.0, x)
    # The exponent counts from sqrt(1/2), so that the mantissa lies in [sqrt(1/2), sqrt(2)).
    offset = scaled.bits() - 0x3F3504F3
    exponent = offset.shift_right(23)
    mantissa = ((offset & 0x007FFFFF) + 0x3F3504F3).as_float(FLOAT32) - 1.0
    number = x.like(x.builder.sitofp(exponent.value, x.value.type))
    number = is_denormal.select(number - 23.0, number)
    square = mantissa * mantissa
    tail = polynomial(mantissa, _LOG) * mantissa * square
    tail = square.fma(-0.5, number.fma(LN2_LOW, tail))
    result = number.fma(LN2_HIGH, mantissa + tail)
    return _log_limits(x, result)


def _log_limits(x: Lanes, result: Lanes) -> Lanes:
    """Put in what a logarithm is where its polynomial does not reach."""
    result = x.compare("==", 0.0).select(-_INFINITY, result)
    result = x.compare("==", _INFINITY).select(_INFINITY, result)
    return (x >= 0.0).select(result, x.full(_NAN))


def log1p(x: Lanes) -> Lanes:
    """``log(1 + x)`` without cancellation near zero."""
    if x.kind is not FLOAT32:
        return x.call_library("log1p")
    total = x + 1.0
    main = log(total)
    lost = (x - (total - 1.0)).divide(total)
    corrected = (absolute(main) < _INFINITY).select(main + lost, main)
    return (absolute(x) < 1e-7).select(x, corrected)


def sigmoid(x: Lanes) -> Lanes:
    """``1 / (1 + exp(-x))``; 0 below -88.38, where it would be denormal."""
    require_float(x, "sigmoid")
    negative = x.full(-0.0) - x
    if x.kind is not FLOAT32:
        return x.full(1.0).divide(exp(negative) + 1.0)
    return x.full(1.0).divide(_exp_normal(between(negative, -87.33, 89.0)) + 1.0)


def tanh(x: Lanes) -> Lanes:
    """Hyperbolic tangent, ``e / (e + 2)`` with ``e = expm1(2 |x|)``."""
    if x.kind is not FLOAT32:
        return x.call_library("tanh")
    size = between(absolute(x), 0.0, 10.0)
    power, rest = _reduce_exp_normal(size + size)
    tail = polynomial(rest, _EXP).fma(rest * rest, rest)
    grown = tail.fma(power, power - 1.0)
    return copysign(grown.divide(grown + 2.0), x)


def erf(x: Lanes) -> Lanes:
    """Error function."""
    if x.kind is not FLOAT32:
        return x.call_library("erf")
    size = between(absolute(x), 0.0, 4.0)
    square = size * size
    low = size.fma(-1.72853470e-5, 3.83197126e-4)
    high = size.fma(-3.88396438e-3, 2.42546219e-2)
    power = low.fma(square, high)
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        power = power.fma(size, coefficient)
    far = x.full(1.0) - _exp_normal(power.fma(size, x.full(-0.0) - size))
    near = polynomial(square, _ERF_SMALL).fma(x, x)
    return (size > 0.927734375).select(copysign(far, x), near)


def gelu(x: Lanes) -> Lanes:
    """``x`` times the normal distribution function of x; 0 where it would be denormal.

    Up to 1 the distribution is ``1 / 2`` and an odd polynomial. Its tail is ``exp(-x**2 / 2)``
    times a smooth function, which is a polynomial in ``1 / (1 + 0.4 |x|)``; the square is known
    exactly: what its rounding lost corrects the exponential. Both are fitted here, to 0.1 ulp.
    """
    require_float(x, "gelu")
    if x.kind is not FLOAT32:
        return x * 0.5 * (x * -math.sqrt(0.5)).call_library("erfc")
    size = between(absolute(x), 0.0, 14.5)
    square = size * size
    lost = size.fma(size, x.full(-0.0) - square)
    slope = size.fma(0.4, 1.0)
    inverse = x.full(1.0).divide(slope)
    # What rounding made of the slope and its inverse; the tail varies as 1.2 to 1.8 powers of it.
    off = (size.fma(0.4, x.full(1.0) - slope)).fma(inverse, slope.fma(inverse, -1.0))
    negative = x.full(-0.0) - x
    factor = (negative > size).select(negative, size)
    half = square * -0.5
    power, rest = _reduce_exp_normal(half)
    rest = off.fma(-1.5, lost.fma(-0.5, rest))
    ratio = polynomial(inverse, _MILLS) * (inverse * factor)
    tail = ratio.fma(polynomial(rest, (*_EXP, 1.0)) * rest, ratio)
    tail = tail * (half < -87.33).select(0.0, power)
    far = (x > 0.0).select(x - tail, x.full(-0.0) - tail)
    near = polynomial(square, _NORMAL).fma(x, 0.5) * x
    return (size > 1.0).select(far, near)


def inverse_fourth_root(x: Lanes) -> Lanes:
    """``x ** -0.25`` for x that is positive and not denormal: at most 1.6 ulp; 0 for infinity.

    A quarter of the exponent, taken off in the bits, is 3 % off; each of three steps of Newton's
    method squares that. They cost a third of two square roots and a quotient.
    """
    if x.kind is not FLOAT32:
        return x.full(1.0).divide(sqrt(sqrt(x)))
    root = (x.bits().full(0x4F588000) - x.bits().shift_right(2)).as_float(FLOAT32)
    quarter = x * -0.25
    for _ in range(3):
        square = root * root
        root = root.fma((quarter * square).fma(square, 0.25), root)
    return x.compare("==", _INFINITY).select(0.0, root)


def integer_power(x: Lanes, exponent: Lanes) -> Lanes:
    """``x ** exponent`` of integers, which wrap; those with a negative exponent round to zero."""
    is_odd = exponent & 1
    # Beyond 63 only -1, 0 and 1 do not overflow, and for them the parity decides.
    bits = (exponent > 63).select(is_odd + 62, exponent)
    if not x.kind.is_signed:
        return _power_by_squaring(x, bits)
    is_negative = exponent < 0
    result = _power_by_squaring(x, is_negative.select(is_odd, bits))
    vanishes = is_negative & x.compare("!=", 1) & x.compare("!=", -1)
    return vanishes.select(0, result)


def _power_by_squaring(x: Lanes, exponent: Lanes) -> Lanes:
    """``x ** exponent`` for exponents from 0 to 63, by squaring."""
    result, square = x.full(1), x
    for bit in range(6):
        is_set = (exponent & (1 << bit)).compare("!=", 0)
        result = is_set.select(result * square, result)
        square = square * square
    return result
