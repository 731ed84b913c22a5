"""Elementary functions of ``float32`` through ``float64``, at most 0.51 ulp off.

Twice the width leaves 29 bits to spare: arguments are reduced in two steps, sums that cancel do not
need a form of their own, and short polynomials are enough. That costs half the lanes, which is
little beside a call of the C library for each lane. The functions of ``float64`` itself are in
:mod:`glow_nb.simd.double` and :mod:`glow_nb.simd.angles`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from glow_nb.base.types import ElementKind
from glow_nb.simd import angles, double
from glow_nb.simd.arithmetic import absolute, copysign, require_float, sqrt, trunc
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import FLOAT32, FLOAT64, INT32, Lanes
from glow_nb.simd.polynomials import between, polynomial
from glow_nb.simd.rare import unless

Function = Callable[[Lanes], Lanes]

_ONE_BITS, _TWO_52_BITS = 0x3FF0000000000000, 0x4330000000000000
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(5, -1, -1))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(6, -1, -1))
_EXP = tuple(1 / math.factorial(k) for k in range(9, -1, -1))
_SINH = tuple(1 / math.factorial(2 * k + 1) for k in range(5, -1, -1))
_LOG = tuple(1 / (2 * k + 1) for k in range(7, -1, -1))


def by_way_of_float64(compute: Function, exact: Function) -> Function:
    """Return a function that *compute* computes for ``float32``, in ``float64``.

    For ``float64`` itself it is *exact*.
    """

    def function(x: Lanes) -> Lanes:
        if x.kind is not FLOAT32:
            return exact(x)
        return convert(compute(convert(x, FLOAT64)), FLOAT32)

    return function


def _exp(x: Lanes) -> Lanes:
    """``e ** x`` in ``float64``, for x from -700 to 700."""
    shifted = x.fma(math.log2(math.e), double.ROUND)
    rest = (shifted - double.ROUND).fma(-math.log(2), x)
    power = (shifted.bits().shift_left(52) + _ONE_BITS).as_float(FLOAT64)
    return polynomial(rest, _EXP) * power


def _log(x: Lanes) -> Lanes:
    """Natural logarithm of positive ``float64`` numbers that are not denormal."""
    # The exponent counts from sqrt(1/2), so that the mantissa lies in [sqrt(1/2), sqrt(2)).
    offset = x.bits() - _ROOT_HALF_BITS
    biased = x.like((offset + _ONE_BITS).value, ElementKind.UINT64)
    exponent = biased.shift_right(52) | _TWO_52_BITS
    number = exponent.as_float(FLOAT64) - (2.0**52 + 1023)
    mantissa = ((offset & 0xFFFFFFFFFFFFF) + _ROOT_HALF_BITS).as_float(FLOAT64)
    ratio = (mantissa - 1.0).divide(mantissa + 1.0)
    tail = polynomial(ratio * ratio, _LOG) * (ratio + ratio)
    return number.fma(math.log(2), tail)


def log_of(x: Lanes) -> Lanes:
    """:func:`_log` with its limits: -inf at 0, inf at inf, NaN below and for NaN."""
    result = _log(x)
    result = x.compare("==", 0.0).select(-math.inf, result)
    result = x.compare("==", math.inf).select(math.inf, result)
    return (x >= 0.0).select(result, x.full(math.nan))


def _quarter_turns(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return n as integers, and sine and cosine of x - n pi / 2, which is within pi / 4."""
    shifted = x.fma(2 / math.pi, double.ROUND)
    number = shifted - double.ROUND
    rest = number.fma(-_HALF_PI_LOW, number.fma(-_HALF_PI_HIGH, x))
    square = rest * rest
    return shifted.bits(), polynomial(square, _SIN) * rest, polynomial(square, _COS)


def periodic(name: str, compute: Function, exact: Function) -> Function:
    """Return a function of an angle; angles that are very large go to the C library."""
    near = by_way_of_float64(compute, exact)

    def function(x: Lanes) -> Lanes:
        require_float(x, name)
        if x.kind is not FLOAT32:
            return exact(x)
        (result,) = unless(absolute(x) >= angles.FAR, [near(x)], lambda: [x.call_library(name)])
        return result

    return function


def _hyperbolic_sine(x: Lanes) -> Lanes:
    power = _exp(between(x, -100.0, 100.0))
    large = (power - x.full(1.0).divide(power)) * 0.5
    return (absolute(x) < 0.5).select(polynomial(x * x, _SINH) * x, large)


def _hyperbolic_cosine(x: Lanes) -> Lanes:
    power = _exp(between(x, -100.0, 100.0))
    return (power + x.full(1.0).divide(power)) * 0.5


_TINY = 2.0**-13
"""Below it, ``x`` is what its inverse hyperbolic sine and tangent round to."""


def _inverse_sine(x: Lanes) -> Lanes:
    size = absolute(x)
    result = log_of(size + sqrt(size.fma(size, 1.0)))
    return copysign((size < _TINY).select(size, result), x)


def _inverse_cosine(x: Lanes) -> Lanes:
    return log_of((x >= 1.0).select(x + sqrt((x - 1.0) * (x + 1.0)), x.full(math.nan)))


def _inverse_tangent(x: Lanes) -> Lanes:
    result = log_of((x + 1.0).divide(x.full(1.0) - x)) * 0.5
    return (absolute(x) < _TINY).select(x, result)


def power(x: Lanes, exponent: Lanes) -> Lanes:
    """``x ** exponent`` of ``float32``; the limits are those of C."""
    size, wide = absolute(convert(x, FLOAT64)), convert(exponent, FLOAT64)
    scaled = between(log_of(size) * wide, -300.0, 300.0)
    result = convert(_exp(scaled), FLOAT32)
    is_whole = trunc(exponent).compare("==", exponent)
    bit = convert(exponent, INT32) & 1
    is_odd = is_whole & bit.compare("!=", 0) & (absolute(exponent) < 2.0**24)
    sign = is_odd.select(x.bits(), x.bits().full(0))
    sign = sign & -(2**31)
    signed = (result.bits() | sign).as_float(FLOAT32)
    is_real = (x >= 0.0) | is_whole | x.compare("==", -math.inf)
    known = x.is_nan() | exponent.is_nan() | is_real
    signed = known.select(signed, x.full(math.nan))
    is_one = x.compare("==", 1.0) | exponent.compare("==", 0.0)
    is_edge = x.compare("==", -1.0) & absolute(exponent).compare("==", math.inf)
    return (is_one | is_edge).select(1.0, signed)


FUNCTIONS: dict[str, Function] = {
    "sin": periodic("sin", lambda x: angles.sine_of(_quarter_turns(x), 0), angles.sin),
    "cos": periodic("cos", lambda x: angles.sine_of(_quarter_turns(x), 1), angles.cos),
    "tan": periodic("tan", lambda x: angles.tangent_of(_quarter_turns(x)), angles.tan),
    "asin": angles.asin,
    "acos": angles.acos,
    "atan": angles.atan,
    "sinh": by_way_of_float64(_hyperbolic_sine, double.sinh),
    "cosh": by_way_of_float64(_hyperbolic_cosine, double.cosh),
    "asinh": by_way_of_float64(_inverse_sine, double.asinh),
    "acosh": by_way_of_float64(_inverse_cosine, double.acosh),
    "atanh": by_way_of_float64(_inverse_tangent, double.atanh),
}
