"""Elementary functions of ``float32``; those of ``float64`` are in :mod:`glow_nb.simd.double`.

Largest errors over every ``float32``, in units of the last place: exp 0.90, expm1 1.46, log 0.83,
log1p 1.30, tanh 2.61, erf 1.02, sigmoid 2.49, softplus 1.95, gelu 3.70; ``docs/accuracy.md`` has
the arguments. NaN, infinities and denormal numbers are right, but where a function says so.
Methods: Cody-Waite reduction and minimax polynomials (those without a name fitted here, log by
Cephes); erf after N. Juffa's two-interval form. As epilogues of products they should cost little:
few instructions, at most one division, and polynomials that need no second branch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glow_nb.simd import double
from glow_nb.simd.arithmetic import absolute, copysign, neg, require_float, sqrt
from glow_nb.simd.lanes import FLOAT32, Lanes
from glow_nb.simd.polynomials import below, between, polynomial

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
ROUND_TO_INTEGER = 12582912.0
"""1.5 * 2**23: adding it leaves the nearest integer in the low bits of a ``float32``."""
BIAS = 127
"""What stands in the exponent of 1.0."""

_EXP = (
    1.3814535923e-3, 8.3687454462e-3, 4.1668392718e-2, 1.6666521132e-1, 4.9999994040e-1, 1.0, 1.0,
)  # fmt: skip
"""exp(r) for |r| <= ln(2) / 2, fitted here to 0.05 ulp."""

_EXP2 = (
    1.3264728477e-3, 9.6715129912e-3, 5.5507335812e-2, 2.4022242427e-1, 6.9314700365e-1, 1.0,
)  # fmt: skip
"""2 ** r for |r| <= 1 / 2, fitted here to 1.6 ulp, exact at 0."""

_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_ERF_SMALL = (
    -5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1,
)  # fmt: skip
_ERF_LARGE = (
    1.72853470e-5, -3.83197126e-4, 3.88396438e-3, -2.42546219e-2, 1.06777877e-1, 6.34846687e-1,
    1.28717512e-1,
)  # fmt: skip
"""-log(1 - erf(t)) / t - 1 for t from 0.92 to 4, which is computed in two halves at first."""
_MILLS = (
    0.00817948393523693, 0.07641489803791046, 0.3305566906929016, 0.76282799243927,
    0.8299999833106995,
)  # fmt: skip
_MILLS_REST = (0.020436855033040047, 0.1930539309978485, 0.7696400284767151, 1.659999966621399)
_MILLS_SLOPE = 2.5066332817077637
"""With p and q, these polynomials in t from 0 to 13.27, the normal distribution function of -t is
``exp(-t**2 / 2) * p / (slope * t * p + q)``. Of the factors that p and q could have in common,
this one rounds least where q is near its constant."""
_LOG1P = (
    -0.0032910071313381195, 0.020088259130716324, -0.05746026709675789, 0.10661361366510391,
    -0.15344975888729095, 0.1969212144613266, -0.24958020448684692, 0.33330464363098145,
    -0.4999993145465851,
)  # fmt: skip
"""(log(1 + u) - u) / u**2 for u from 0 to 1."""
_INFINITY = float("inf")
_NAN = float("nan")


def _power_of_two(x: Lanes, factor: float, bias: int = BIAS) -> tuple[Lanes, Lanes]:
    """Return n, the integer nearest to ``factor * x``, and a number with exponent n + *bias*.

    That is ``2 ** n`` if *bias* is the usual one. The exponent wraps.
    """
    offset = ROUND_TO_INTEGER + bias
    shifted = x.fma(factor, offset)
    return shifted - offset, shifted.bits().shift_left(23).as_float(FLOAT32)


def _reduce_exp(x: Lanes, scale: float = 1.0, bias: int = BIAS) -> tuple[Lanes, Lanes]:
    """Return ``2 ** n`` and r, where scale * x = n ln 2 + scale * r and |scale * r| <= ln(2) / 2.

    *scale* is a power of two, or minus one; *bias* as in :func:`_power_of_two`.
    """
    number, power = _power_of_two(x, scale * LOG2_E, bias)
    return power, number.fma(-LN2_LOW / scale, number.fma(-LN2_HIGH / scale, x))


def _scaled(coefficients: Sequence[float], scale: float) -> list[float]:
    """Return the coefficients of the polynomial of *scale* times its argument."""
    powers = range(len(coefficients))[::-1]
    return [c * scale**power for c, power in zip(coefficients, powers, strict=True)]


def _exp_near(rest: Lanes, scale: float = 1.0, factor: float = 1.0) -> Lanes:
    """``factor * e ** (scale * rest)`` for an exponent within ln(2) / 2."""
    return polynomial(rest, [factor * c for c in _scaled(_EXP, scale)])


def _exp_times(rest: Lanes, power: Lanes, scale: float = 1.0) -> Lanes:
    """``power * e ** (scale * rest)``; the power does not wait for the polynomial."""
    *tail, _ = _scaled(_EXP, scale)
    return polynomial(rest, tail).fma(rest * power, power)


def _expm1_near(rest: Lanes, scale: float = 1.0) -> Lanes:
    """``(e ** (scale * rest) - 1) / scale`` for an exponent within ln(2) / 2."""
    *tail, _, _ = (c / scale for c in _scaled(_EXP, scale))
    return polynomial(rest, tail).fma(rest * rest, rest)


def exp(x: Lanes) -> Lanes:
    """``e ** x``; overflows to infinity, underflows gradually.

    The power of two is multiplied in two steps, of which ``2 ** 64`` or its inverse is one.
    """
    if x.kind is not FLOAT32:
        return double.exp(x)
    power, rest = _reduce_exp(between(x, -104.5, 89.0), bias=2 * BIAS)
    last = (x.bits() < 0).select(2.0**-64, x.full(2.0**64))
    first = (power.bits() - last.bits()).as_float(FLOAT32)
    return _exp_times(rest, first) * last


def exp_nonpositive(x: Lanes) -> Lanes:
    """``e ** x`` for x <= 0, as softmax needs it: at most 1.5 ulp, and 0 below -87.33."""
    if x.kind is not FLOAT32:
        return double.exp(x)
    power, rest = _reduce_exp(x)
    return (x < -87.33).select(0.0, _exp_near(rest) * power)


def exp2(x: Lanes) -> Lanes:
    """``2 ** x`` for x <= 127, as attention needs it: at most 2.1 ulp, and 0 below -126.5.

    Nothing is rounded before the polynomial. Of its 11 instructions 6 multiply.
    """
    if x.kind is not FLOAT32:
        return double.exp2(x)
    x = (x < -BIAS).select(-BIAS, x)
    offset = ROUND_TO_INTEGER + BIAS
    shifted = x + offset
    power = shifted.bits().shift_left(23).as_float(FLOAT32)
    return polynomial(x - (shifted - offset), _EXP2) * power


def expm1(x: Lanes) -> Lanes:
    """``e ** x - 1`` without cancellation near zero."""
    if x.kind is not FLOAT32:
        return double.expm1(x)
    half, rest = _reduce_exp(between(x, -26.0, 89.0), bias=BIAS - 1)
    tail = _expm1_near(rest)
    large = tail.fma(half, half - 0.5) * 2.0
    small = half.compare("==", 0.5).select(tail, large)
    return x.compare("==", 0.0).select(x, small)


def log(x: Lanes) -> Lanes:
    """Natural logarithm; -inf at 0, NaN below."""
    if x.kind is not FLOAT32:
        return double.log(x)
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
        return double.log1p(x)
    total = x + 1.0
    main = log(total)
    lost = (x - (total - 1.0)).divide(total)
    corrected = (absolute(main) < _INFINITY).select(main + lost, main)
    return (absolute(x) < 1e-7).select(x, corrected)


def softplus(x: Lanes) -> Lanes:
    """``log(1 + exp(x))`` as ``max(x, 0) + log1p(exp(-|x|))``."""
    require_float(x, "softplus")
    positive, size = (x < 0.0).select(0.0, x), absolute(x)
    if x.kind is not FLOAT32:
        return positive + log1p(exp(neg(size)))
    power, rest = _reduce_exp(below(size, 104.5), -1.0, BIAS + 64)
    small = _exp_times(rest, power * 2.0**-64, -1.0)
    return positive + (polynomial(small, _LOG1P) * small).fma(small, small)


def sigmoid(x: Lanes) -> Lanes:
    """``1 / (1 + exp(-x))``; 0 below -88.38, where it would be denormal."""
    require_float(x, "sigmoid")
    if x.kind is not FLOAT32:
        return x.full(1.0).divide(exp(neg(x)) + 1.0)
    # At the lower limit the power is infinite.
    power, rest = _reduce_exp(between(x, -89.0, 18.0), -1.0)
    return x.full(1.0).divide(_exp_near(rest, -1.0).fma(power, 1.0))


def _with_sign_of(size: Lanes, x: Lanes) -> Lanes:
    """Return *size*, which is 0, more, or NaN, with the sign of *x*, in two instructions."""
    return (size.bits() | (x.bits() & -(2**31))).as_float(x.kind)


def tanh(x: Lanes) -> Lanes:
    """Hyperbolic tangent, ``e / (e + 1)`` with ``e = expm1(2 |x|) / 2``."""
    if x.kind is not FLOAT32:
        return double.tanh(x)
    size = below(absolute(x), 10.0)
    number, power = _power_of_two(size, 2.0 * LOG2_E)
    near = _expm1_near(number.fma(-0.5 * LN2, size), 2.0)
    grown = near.fma(power, power.fma(0.5, -0.5))
    return _with_sign_of(grown.divide(grown + 1.0), x)


def erf(x: Lanes) -> Lanes:
    """Error function."""
    if x.kind is not FLOAT32:
        return double.erf(x)
    size = below(absolute(x), 4.0)
    square = size * size
    high, low = (polynomial(size, part) for part in (_ERF_LARGE[:2], _ERF_LARGE[2:4]))
    exponent = high.fma(square, low)
    for coefficient in _ERF_LARGE[4:]:
        exponent = exponent.fma(size, coefficient)
    exponent = exponent.fma(size, size)
    power, rest = _reduce_exp(exponent, -1.0)
    far = _exp_near(rest, -1.0, -1.0).fma(power, 1.0)
    near = polynomial(square, _ERF_SMALL).fma(size, size)
    return _with_sign_of((size > 0.927734375).select(far, near), x)


def gelu(x: Lanes) -> Lanes:
    """``x`` times the normal distribution function of x; 0 where it would be denormal.

    That is ``max(x, 0)`` less t = |x| times the distribution of -t, which is ``exp(-t**2 / 2)``
    times a smooth function: a quotient of polynomials without subtractions (in -t, which saves
    an instruction). The square is reduced before it is rounded.
    """
    require_float(x, "gelu")
    if x.kind is not FLOAT32:
        return x * 0.5 * double.erfc(x * -math.sqrt(0.5))
    minus = (x.bits() | -(2**31)).as_float(FLOAT32)
    # From this limit on, what stands in the exponent of the power is 0, and so is the power.
    t = (minus < -13.26).select(-13.26, minus)
    number, power = _power_of_two(t * t, -0.5 * LOG2_E)
    rest = number.fma(2.0 * LN2_LOW, t.fma(t, number * (2.0 * LN2_HIGH)))
    mills = polynomial(t, _scaled(_MILLS, -1.0))
    *slopes, constant = _scaled(_MILLS_REST, -1.0)
    divisor = mills.fma(-_MILLS_SLOPE, polynomial(t, slopes)).fma(t, constant)
    scaled = mills * power * (x > t).select(t, x)
    tail = (scaled * rest).fma(polynomial(rest, _scaled(_EXP, -0.5)[:-1]), scaled)
    result = (x < 0.0).select(0.0, x) + tail.divide(divisor)
    return copysign(result, x)  # the zeros, too


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
    if not x.kind.is_signed:
        return _power_by_squaring(x, exponent)
    is_negative = exponent < 0
    result = _power_by_squaring(x, is_negative.select(exponent & 1, exponent))
    vanishes = is_negative & x.compare("!=", 1) & x.compare("!=", -1)
    return vanishes.select(0, result)


def _power_by_squaring(x: Lanes, exponent: Lanes) -> Lanes:
    """``x ** exponent`` for exponents that are not negative, by squaring, with all their bits."""
    result, square = x.full(1), x
    for bit in range(8 * x.kind.size_bytes - x.kind.is_signed):
        is_set = (exponent & (1 << bit)).compare("!=", 0)
        result = is_set.select(result * square, result)
        square = square * square
    return result
