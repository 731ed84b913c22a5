"""Elementary functions of ``float32`` through ``float64``, at most 0.51 ulp off.

Twice the width leaves 29 bits to spare: arguments are reduced in two steps, sums that cancel do not
need a form of their own, and short polynomials are enough. That costs half the lanes, which is
little beside a call of the C library for each lane. Other kinds go to the C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from glow_nb.base.types import ElementKind
from glow_nb.simd.arithmetic import absolute, copysign, require_float, sqrt, trunc
from glow_nb.simd.convert import convert
from glow_nb.simd.elementary import between, polynomial
from glow_nb.simd.lanes import FLOAT32, FLOAT64, INT32, Lanes
from glow_nb.simd.rare import unless

Function = Callable[[Lanes], Lanes]

_ROUND = 6755399441055744.0
"""1.5 * 2**52: adding it leaves the nearest integer in the low bits of a ``float64``."""

_ONE_BITS, _TWO_52_BITS = 0x3FF0000000000000, 0x4330000000000000
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
_FAR = 2.0**40
"""From here on a quarter turn more or less is not known from two constants."""

_SIN = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(5, -1, -1))
_COS = tuple((-1) ** k / math.factorial(2 * k) for k in range(6, -1, -1))
_EXP = tuple(1 / math.factorial(k) for k in range(9, -1, -1))
_SINH = tuple(1 / math.factorial(2 * k + 1) for k in range(5, -1, -1))
_LOG = tuple(1 / (2 * k + 1) for k in range(7, -1, -1))
_ATAN = (
    -0.03770982101092515, 0.0697750536944428, -0.08993338783906446, 0.11103549547118387,
    -0.1428539216357153, 0.19999993215492612, -0.3333333327867821, 0.9999999999992759,
)  # fmt: skip
"""``atan(t) / t`` in ``t ** 2`` for t up to tan(pi / 8), fitted to 1e-12."""


def by_way_of_float64(name: str, compute: Function) -> Function:
    """Return the function that computes ``float32`` in ``float64``, and calls C for the rest."""

    def function(x: Lanes) -> Lanes:
        require_float(x, name)
        if x.kind is not FLOAT32:
            return x.call_library(name)
        return convert(compute(convert(x, FLOAT64)), FLOAT32)

    return function


def _exp(x: Lanes) -> Lanes:
    """``e ** x`` in ``float64``, for x from -700 to 700."""
    shifted = x.fma(math.log2(math.e), _ROUND)
    rest = (shifted - _ROUND).fma(-math.log(2), x)
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
    shifted = x.fma(2 / math.pi, _ROUND)
    number = shifted - _ROUND
    rest = number.fma(-_HALF_PI_LOW, number.fma(-_HALF_PI_HIGH, x))
    square = rest * rest
    return shifted.bits(), polynomial(square, _SIN) * rest, polynomial(square, _COS)


def _sine(x: Lanes, ahead: int) -> Lanes:
    """Sine of x + *ahead* quarter turns."""
    turns, sine, cosine = _quarter_turns(x)
    turns = turns + ahead
    size = (turns & 1).compare("!=", 0).select(cosine, sine)
    sign = (turns & 2).shift_left(62)
    return (size.bits() ^ sign).as_float(FLOAT64)


def _tangent(x: Lanes) -> Lanes:
    turns, sine, cosine = _quarter_turns(x)
    is_odd = (turns & 1).compare("!=", 0)
    minus = x.full(-0.0) - cosine
    return is_odd.select(minus, sine).divide(is_odd.select(sine, cosine))


def periodic(name: str, compute: Function) -> Function:
    """Return a function of an angle; angles that are very large go to the C library."""
    near = by_way_of_float64(name, compute)

    def function(x: Lanes) -> Lanes:
        if x.kind is not FLOAT32:
            return near(x)
        (result,) = unless(absolute(x) >= _FAR, [near(x)], lambda: [x.call_library(name)])
        return result

    return function


def _arctangent(x: Lanes) -> Lanes:
    size = absolute(x)
    is_large, is_middle = size > 1 + math.sqrt(2), size > math.sqrt(2) - 1
    over = is_large.select(-1.0, is_middle.select(size - 1.0, size))
    under = is_large.select(size, is_middle.select(size + 1.0, size.full(1.0)))
    reduced = over.divide(under)
    turned = is_large.select(math.pi / 2, is_middle.select(math.pi / 4, size.full(0.0)))
    return copysign(polynomial(reduced * reduced, _ATAN).fma(reduced, turned), x)


def _arcsine(x: Lanes) -> Lanes:
    return _arctangent(x.divide(sqrt((x.full(1.0) - x) * (x + 1.0))))


def _arccosine(x: Lanes) -> Lanes:
    half = _arctangent(sqrt((x.full(1.0) - x).divide(x + 1.0)))
    return half + half


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
    "sin": periodic("sin", lambda x: _sine(x, 0)),
    "cos": periodic("cos", lambda x: _sine(x, 1)),
    "tan": periodic("tan", _tangent),
    "asin": by_way_of_float64("asin", _arcsine),
    "acos": by_way_of_float64("acos", _arccosine),
    "atan": by_way_of_float64("atan", _arctangent),
    "sinh": by_way_of_float64("sinh", _hyperbolic_sine),
    "cosh": by_way_of_float64("cosh", _hyperbolic_cosine),
    "asinh": by_way_of_float64("asinh", _inverse_sine),
    "acosh": by_way_of_float64("acosh", _inverse_cosine),
    "atanh": by_way_of_float64("atanh", _inverse_tangent),
}
