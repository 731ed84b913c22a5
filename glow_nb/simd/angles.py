"""Sine, cosine and tangent of ``float64``, and their inverses of ``float32`` and ``float64``.

A quarter turn in three parts, of which a fused multiply-add loses nothing, reduces an angle; the
polynomials are fitted here. Largest errors are in ``docs/accuracy.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from glow_nb.base.types import ElementKind
from glow_nb.simd.arithmetic import absolute, copysign, require_float, sqrt
from glow_nb.simd.double import ROUND
from glow_nb.simd.lanes import FLOAT32, FLOAT64, Lanes
from glow_nb.simd.polynomials import polynomial
from glow_nb.simd.rare import unless

Function = Callable[[Lanes], Lanes]

_QUARTER_TURN = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
FAR = 2.0**40
"""From here on a quarter turn more or less is not known from these constants."""

_SIN = (
    1.589667825406276e-10, -2.5050756226836696e-08, 2.755731368083682e-06, -0.00019841269829779003,
    0.008333333333322382, -0.16666666666666632,
)  # fmt: skip
"""``(sin(r) - r) / r**3`` in ``r**2``, for |r| up to pi / 4."""
_COS = (
    -1.1359557760718732e-11, 2.0875721605631174e-09, -2.7557314340647993e-07,
    2.4801587289444007e-05, -0.0013888888888874066, 0.0416666666666666,
)  # fmt: skip
"""``(cos(r) - 1 + r**2 / 2) / r**4`` in ``r**2``, for |r| up to pi / 4."""
_ATAN = {
    FLOAT32: (
        -0.06081263642, 0.1059521055, -0.1424375355, 0.1999848512, -0.3333331532,
    ),
    FLOAT64: (
        -0.01790738437827732, 0.038064998730407286, -0.05039332860816248, 0.05847897921394047,
        -0.06663105540577385, 0.07692060370435216, -0.09090897767635356, 0.1111111078383618,
        -0.14285714280204495, 0.1999999999995367, -0.333333333333332,
    ),
}  # fmt: skip
"""``(atan(t) - t) / t**3`` in ``t**2``, for |t| up to tan(pi / 8)."""
_ASIN = {
    FLOAT32: (
        0.04221777859, 0.02414824062, 0.04547692765, 0.07495243491, 0.1666675388,
    ),
    FLOAT64: (
        0.03195847376886728, -0.01629334330529092, 0.019573431639560598, 0.006511030456304133,
        0.012173237427084678, 0.013884604992357089, 0.017359770433320206, 0.022371753568793014,
        0.030381959329319055, 0.04464285682353054, 0.07500000000342984, 0.16666666666665383,
    ),
}  # fmt: skip
"""``(asin(t) - t) / t**3`` in ``t**2``, for |t| up to 1 / 2."""


def _parts(number: float, kind: ElementKind) -> tuple[float, float]:
    """Return *number*, a multiple of pi, in *kind*, and what that lacks."""
    high = float(np.asarray(number).astype(kind.dtype))
    lost = number - high if kind is FLOAT32 else number / math.pi * 1.2246467991473532e-16
    return high, lost


def _quarter_turns(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return n as integers, and sine and cosine of x - n pi / 2, which is within pi / 4."""
    shifted = x.fma(2 / math.pi, ROUND)
    number, rest = shifted - ROUND, x
    for part in _QUARTER_TURN:
        rest = number.fma(-part, rest)
    square = rest * rest
    sine = (polynomial(square, _SIN) * square).fma(rest, rest)
    half = square * 0.5
    near = x.full(1.0) - half
    cosine = near + polynomial(square, _COS).fma(square * square, (x.full(1.0) - near) - half)
    return shifted.bits(), sine, cosine


def sine_of(turned: tuple[Lanes, Lanes, Lanes], ahead: int) -> Lanes:
    """Sine of an angle n pi / 2 + r, and *ahead* quarter turns; *turned* are n, sin(r), cos(r)."""
    turns, sine, cosine = turned
    turns = turns + ahead
    size = (turns & 1).compare("!=", 0).select(cosine, sine)
    sign = (turns & 2).shift_left(62)
    return (size.bits() ^ sign).as_float(FLOAT64)


def tangent_of(turned: tuple[Lanes, Lanes, Lanes]) -> Lanes:
    """Tangent of an angle n pi / 2 + r; *turned* are n, sin(r), cos(r)."""
    turns, sine, cosine = turned
    is_odd = (turns & 1).compare("!=", 0)
    minus = cosine.full(-0.0) - cosine
    return is_odd.select(minus, sine).divide(is_odd.select(sine, cosine))


def _of_an_angle(name: str, compute: Function) -> Function:
    """Return a function of an angle; angles that are very large go to the C library."""

    def function(x: Lanes) -> Lanes:
        is_far = absolute(x) >= FAR
        (result,) = unless(is_far, [compute(x)], lambda: [x.call_library(name)])
        return result

    return function


def _signed_zero(compute: Function) -> Function:
    """Return the odd function *compute* such that it keeps the sign of a zero."""
    return lambda x: x.compare("==", 0.0).select(x, compute(x))


sin = _of_an_angle("sin", _signed_zero(lambda x: sine_of(_quarter_turns(x), 0)))
cos = _of_an_angle("cos", lambda x: sine_of(_quarter_turns(x), 1))
tan = _of_an_angle("tan", _signed_zero(lambda x: tangent_of(_quarter_turns(x))))


def atan(x: Lanes) -> Lanes:
    """Inverse tangent; that of ``(x - 1) / (x + 1)`` or ``-1 / x`` and some eighths of a turn."""
    require_float(x, "atan")
    size = absolute(x)
    is_large, is_middle = size > 1 + math.sqrt(2), size > math.sqrt(2) - 1
    over = is_large.select(-1.0, is_middle.select(size - 1.0, size))
    under = is_large.select(size, is_middle.select(size + 1.0, size.full(1.0)))
    reduced = over.divide(under)
    square = reduced * reduced
    turned, lost = (
        is_large.select(half, is_middle.select(quarter, size.full(0.0)))
        for half, quarter in zip(
            _parts(math.pi / 2, x.kind), _parts(math.pi / 4, x.kind), strict=True
        )
    )
    tail = (polynomial(square, _ATAN[x.kind]) * square).fma(reduced, lost)
    return copysign(turned + (reduced + tail), x)


def _asin_parts(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return whether |x| > 1/2, and t and ``asin(t) - t``.

    t is |x|, or ``sqrt((1 - |x|) / 2)`` where that is smaller; its arc is half of the complement.
    """
    size = absolute(x)
    is_large = size > 0.5
    rest = (size.full(1.0) - size) * 0.5
    square = is_large.select(rest, size * size)
    t = is_large.select(sqrt(rest), size)
    return is_large, t, polynomial(square, _ASIN[x.kind]) * square * t


def asin(x: Lanes) -> Lanes:
    """Inverse sine; NaN outside -1..1."""
    require_float(x, "asin")
    is_large, t, tail = _asin_parts(x)
    high, low = _parts(math.pi / 2, x.kind)
    large = t.fma(-2.0, high)
    lost = t.fma(-2.0, x.full(high) - large) + low
    large = large + tail.fma(-2.0, lost)
    return copysign(is_large.select(large, t + tail), x)


def acos(x: Lanes) -> Lanes:
    """Inverse cosine; NaN outside -1..1."""
    require_float(x, "acos")
    is_large, t, tail = _asin_parts(x)
    (half, half_low), (whole, whole_low) = (
        _parts(number, x.kind) for number in (math.pi / 2, math.pi)
    )
    small = (x.full(half) - x) + (x.full(half_low) - copysign(tail, x))
    right = (t + tail) * 2.0
    left = t.fma(-2.0, whole) + tail.fma(-2.0, whole_low)
    return is_large.select((x < 0).select(left, right), small)
