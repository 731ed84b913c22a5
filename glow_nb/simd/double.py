"""Exponentials, logarithms and error functions of ``float64``, vector by vector.

Largest errors seen, in units of the last place: exp 1.03, expm1 2.2, log 0.76, log1p 1.4, tanh 2.7,
erf 1.1; ``docs/accuracy.md`` has more. NaN, infinities, signs and denormal numbers are right.
Methods: Cody-Waite reduction, whose products a fused multiply-add keeps exact; minimax polynomials
fitted here; logarithms in ``s = (m - 1) / (m + 1)`` as in fdlibm; the complementary error function
as an exponential times a polynomial in ``(t - 4) / (t + 4)`` (Shepherd and Laframboise, 1981).
"""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.simd.arithmetic import absolute, copysign, sqrt
from glow_nb.simd.lanes import FLOAT64, Lanes
from glow_nb.simd.polynomials import below, between, polynomial

LN2_HIGH, LN2_LOW = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E = 1.4426950408889634
ROUND = 6755399441055744.0
"""1.5 * 2**52: adding it leaves the nearest integer in the low bits of a ``float64``."""
BIAS = 1023
"""What stands in the exponent of 1.0."""
MANTISSA = 52
_INFINITY, _NAN = float("inf"), float("nan")
_ONE_BITS, _TWO_52_BITS = 0x3FF0000000000000, 0x4330000000000000
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_SMALLEST_NORMAL = 2.2250738585072014e-308

_FAR = 2.0**54
"""From here on a number plus or minus one, and the square root of its square, are the number."""

_EXP_TAIL = (
    2.5117678638455726e-08, 2.763133857919862e-07, 2.755721691506218e-06, 2.4801489791268702e-05,
    0.0001984126991665899, 0.001388888894714816, 0.008333333333307547, 0.04166666666651497,
    0.166666666666667, 0.5000000000000013,
)  # fmt: skip
"""``(exp(r) - 1 - r) / r**2`` for |r| <= ln(2) / 2."""
_LOG_TAIL = (
    0.14796389495680096, 0.15314013040954125, 0.1818356552957238, 0.2222219855517116,
    0.2857142874251474, 0.399999999994143, 0.6666666666666734,
)  # fmt: skip
"""``(log((1 + s) / (1 - s)) - 2 * s) / s**3`` in ``s**2``, for s up to 0.1716."""
_ERF = (
    -8.150810412965011e-10, 1.3897369629504403e-08, -1.624668360649437e-07, 1.6452068433517299e-06,
    -1.492508680223196e-05, 0.00012055311804783341, -0.000854832649830926, 0.005223977617174301,
    -0.026866170644362503, 0.1128379167095143, -0.3761263890318368, 0.12837916709551256,
)  # fmt: skip
"""``erf(t) / t - 1`` in ``t**2``, for t up to 0.95."""
_ERFC = (
    -8.442303940278665e-09, -8.221712231251745e-09, 1.0152026988033309e-07, 5.5613367002620407e-08,
    -8.199748439901572e-07, 3.134524623981515e-07, 5.7089955487825105e-06, -1.1234157232739105e-05,
    -2.440022993133926e-05, 0.00015062638871866433, -0.00019925602640978983,
    -0.0007577744536917532, 0.0050319697893835965, -0.01619773387856284, 0.037167515565444724,
    -0.06633036582836814, 0.09373283499622952, -0.10103906603555161, 0.06809705425476288,
    0.015379652102605904, -0.13962111684056316, 1.2329951186255526,
)  # fmt: skip
"""``exp(t**2) * erfc(t) * (1 + 2 * t)`` in ``(t - 4) / (t + 4)``, for t from 0 to 28."""


def _reduce(x: Lanes, bias: int = BIAS) -> tuple[Lanes, Lanes]:
    """Return a number with exponent n + *bias*, and r, where x = n ln 2 + r, |r| <= ln(2) / 2.

    That is ``2 ** n`` if *bias* is the usual one. The exponent wraps.
    """
    offset = ROUND + bias
    shifted = x.fma(LOG2_E, offset)
    number = shifted - offset
    rest = number.fma(-LN2_LOW, number.fma(-LN2_HIGH, x))
    return shifted.bits().shift_left(MANTISSA).as_float(FLOAT64), rest


def _expm1_near(rest: Lanes) -> Lanes:
    """``e ** rest - 1`` for an exponent within ln(2) / 2."""
    return polynomial(rest, _EXP_TAIL).fma(rest * rest, rest)


def exp(x: Lanes) -> Lanes:
    """``e ** x``; the power of two is multiplied in two steps, so that it underflows gradually."""
    power, rest = _reduce(between(x, -746.0, 710.0), bias=2 * BIAS)
    last = (x < 0).select(2.0**-64, x.full(2.0**64))
    first = (power.bits() - last.bits()).as_float(FLOAT64)
    return _expm1_near(rest).fma(first, first) * last


def exp2(x: Lanes) -> Lanes:
    """``2 ** x`` for x <= 1023; 0 below -1022.5."""
    x = (x < -BIAS).select(-BIAS, x)
    offset = ROUND + BIAS
    shifted = x + offset
    power = shifted.bits().shift_left(MANTISSA).as_float(FLOAT64)
    return _expm1_near((x - (shifted - offset)) * LN2_HIGH).fma(power, power)


def half_expm1(x: Lanes) -> Lanes:
    """``(e ** x - 1) / 2`` without cancellation near zero; overflows one factor of two later."""
    quarter, rest = _reduce(between(x, -40.0, 710.6), BIAS - 2)
    tail = _expm1_near(rest)
    large = tail.fma(quarter, quarter - 0.25) * 2.0
    return quarter.compare("==", 0.25).select(tail * 0.5, large)


def expm1(x: Lanes) -> Lanes:
    """``e ** x - 1`` without cancellation near zero."""
    return x.compare("==", 0.0).select(x, half_expm1(x) * 2.0)


def log(x: Lanes) -> Lanes:
    """Natural logarithm; -inf at 0, NaN below."""
    is_denormal = x < _SMALLEST_NORMAL
    number, mantissa = _split(is_denormal.select(x * 2.0**54, x))
    number = is_denormal.select(number - 54.0, number)
    over = mantissa - 1.0
    ratio = over.divide(over + 2.0)
    square = ratio * ratio
    half_square = over * over * 0.5
    tail = polynomial(square, _LOG_TAIL).fma(square, half_square) * ratio
    result = number.fma(LN2_HIGH, over - (half_square - number.fma(LN2_LOW, tail)))
    result = x.compare("==", 0.0).select(-_INFINITY, result)
    result = x.compare("==", _INFINITY).select(_INFINITY, result)
    return (x >= 0.0).select(result, x.full(_NAN))


def _split(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return n and m in [sqrt(1/2), sqrt(2)), where x = 2**n * m is positive and not denormal."""
    offset = x.bits() - _ROOT_HALF_BITS
    biased = x.like((offset + _ONE_BITS).value, ElementKind.UINT64)
    exponent = biased.shift_right(MANTISSA) | _TWO_52_BITS
    mantissa = ((offset & 0xFFFFFFFFFFFFF) + _ROOT_HALF_BITS).as_float(FLOAT64)
    return exponent.as_float(FLOAT64) - (2.0**52 + BIAS), mantissa


def log1p(x: Lanes) -> Lanes:
    """``log(1 + x)`` without cancellation near zero."""
    total = x + 1.0
    main = log(total)
    lost = (x - (total - 1.0)).divide(total)
    corrected = (absolute(main) < _INFINITY).select(main + lost, main)
    return (absolute(x) < 2.0**-54).select(x, corrected)


def tanh(x: Lanes) -> Lanes:
    """Hyperbolic tangent, ``e / (e + 1)`` with ``e = expm1(2 |x|) / 2``."""
    grown = half_expm1(below(absolute(x), 20.0) * 2.0)
    return copysign(grown.divide(grown + 1.0), x)


def sinh(x: Lanes) -> Lanes:
    """Hyperbolic sine, ``e + e / (2 e + 1)`` with ``e = expm1(|x|) / 2``."""
    grown = half_expm1(absolute(x))
    limited = below(grown, _FAR)  # so that infinity is not divided by itself
    return copysign(grown + limited.divide(limited + limited + 1.0), x)


def cosh(x: Lanes) -> Lanes:
    """Hyperbolic cosine, ``e + 1 / (4 e)`` with ``e = exp(|x|) / 2``."""
    half = half_expm1(absolute(x)) + 0.5
    return half + x.full(0.25).divide(half)


def asinh(x: Lanes) -> Lanes:
    """Inverse hyperbolic sine, ``log1p(|x| + x**2 / (1 + sqrt(x**2 + 1)))``."""
    size = absolute(x)
    square = size * size
    near = size + square.divide(sqrt(square + 1.0) + 1.0)
    return copysign(_log1p_or_twice(size, near), x)


def acosh(x: Lanes) -> Lanes:
    """Inverse hyperbolic cosine, ``log1p(t + sqrt(t * (x + 1)))`` with ``t = x - 1``."""
    excess = x - 1.0
    near = excess + sqrt(excess * (x + 1.0))
    return (x >= 1.0).select(_log1p_or_twice(x, near), x.full(_NAN))


def _log1p_or_twice(size: Lanes, near: Lanes) -> Lanes:
    """``log1p(near)``, or ``log(2 * size)`` where *size* is large."""
    is_far = size > _FAR
    result = log1p(is_far.select(size, near))
    return is_far.select(result + LN2_HIGH, result)


def atanh(x: Lanes) -> Lanes:
    """Inverse hyperbolic tangent, ``log1p(2 |x| / (1 - |x|)) / 2``."""
    size = absolute(x)
    twice = size + size
    result = log1p(twice + (twice * size).divide(x.full(1.0) - size)) * 0.5
    return (size <= 1.0).select(copysign(result, x), x.full(_NAN))


def erf(x: Lanes) -> Lanes:
    """Error function."""
    size = absolute(x)
    near = _erf_near(size)
    return copysign((size > 0.95).select(x.full(1.0) - _erfc_positive(size), near), x)


def erfc(x: Lanes) -> Lanes:
    """``1 - erf(x)`` without cancellation."""
    size = absolute(x)
    tail = _erfc_positive(size)
    far = (x < 0).select(tail.full(2.0) - tail, tail)
    return (size > 0.5).select(far, x.full(1.0) - _erf_near(x))


def _erf_near(x: Lanes) -> Lanes:
    """Error function up to 0.95."""
    return polynomial(x * x, _ERF).fma(x, x)


def _erfc_positive(x: Lanes) -> Lanes:
    """``1 - erf(x)`` for x >= 0; what is lost of the square joins the exponential afterwards."""
    x = below(x, 28.0)
    square = x * x
    lost = x.fma(x, square * -1.0)
    power = exp(square * -1.0)
    factor = polynomial((x - 4.0).divide(x + 4.0), _ERFC).divide(x + x + 1.0)
    return (power * lost).fma(factor * -1.0, power * factor)
