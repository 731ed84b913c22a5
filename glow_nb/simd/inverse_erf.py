"""The inverse error function by Wichura's algorithm AS 241 (Applied Statistics 37, 1988).

It is written for ``float64``, whose rounding is the largest error; ``float32`` is converted to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from glow_nb.numerics.wichura import (
    FAR,
    FAR_OUTSIDE,
    MIDDLE,
    MIDDLE_RADIUS,
    MIDDLE_SIZE,
    OUTSIDE,
    Ratio,
)
from glow_nb.simd import double
from glow_nb.simd.arithmetic import absolute, copysign, require_float, sqrt
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import FLOAT32, FLOAT64, Lanes
from glow_nb.simd.polynomials import polynomial
from glow_nb.simd.wide import log_of


def inverse_erf(x: Lanes) -> Lanes:
    """Inverse of ``erf``; infinite at -1 and 1, NaN outside."""
    require_float(x, "inverse_erf")
    if x.kind is FLOAT32:  # none but -1 and 1 are so near to these as to be far outside
        return convert(_inverse(convert(x, FLOAT64), log_of, OUTSIDE), FLOAT32)
    return _inverse(x, double.log, OUTSIDE, FAR_OUTSIDE)


def _inverse(x: Lanes, log: Callable[[Lanes], Lanes], *outside: Ratio) -> Lanes:
    size = absolute(x)
    root = sqrt(log((x.full(1.0) - size) * 0.5) * -1.0)
    over, under = _parts(outside[0], root)
    for ratio in outside[1:]:
        is_far = root > FAR
        far_over, far_under = _parts(ratio, root)
        over, under = is_far.select(far_over, over), is_far.select(far_under, under)
    middle_over, middle_under = _parts(MIDDLE, (size * size).fma(-0.25, size.full(MIDDLE_RADIUS)))
    is_middle = size <= MIDDLE_SIZE
    over = is_middle.select(middle_over * (size * 0.5), over)
    result = over.divide(is_middle.select(middle_under, under)) * math.sqrt(0.5)
    result = size.compare("==", 1.0).select(math.inf, result)
    return copysign(result, x)


def _parts(ratio: Ratio, x: Lanes) -> tuple[Lanes, Lanes]:
    """Return numerator and denominator of *ratio*."""
    x = x - ratio.origin
    return polynomial(x, ratio.over), polynomial(x, (*ratio.under, 1.0))
