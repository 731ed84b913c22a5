"""Functions of ``float32`` at every bit pattern, against the C library in ``float64``."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from tests.unit.kernels.running import RunningKernel

EVERY, CHUNK = 1 << 32, 1 << 18
"""How many bit patterns there are, and how many are taken at a time."""
SMALLEST_NORMAL = 2.0**-126
_compiled: Any = njit(nogil=True, error_model="numpy")
ULP = np.ldexp(1.0, np.maximum(np.arange(256), 1) - 150)
"""The unit of the last place of a ``float32``, by the bits of its exponent."""


class Worst(NamedTuple):
    """The largest error in units of the last place; where it is, and what was found there."""

    ulp: float
    argument: float
    result: float


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _swish(x: float) -> float:
    return x / (1.0 + math.exp(-x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _gelu(x: float) -> float:
    return 0.5 * x * math.erfc(x * -math.sqrt(0.5))


def _gelu_tanh(x: float) -> float:
    return x / (1.0 + math.exp(-2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def _rsqrt(x: float) -> float:
    return 1.0 / math.sqrt(x)


def _exp2(x: float) -> float:
    if x < -200.0:
        return 0.0
    return math.pow(2.0, min(x, 127.0))


def _exp_nonpositive(x: float) -> float:
    return math.exp(-abs(x))


def _inverse_erf(x: float) -> float:
    """Return the inverse of erf: Winitzki's approximation, then Halley's steps."""
    size = abs(x)
    if not size < 1.0:
        return math.copysign(math.inf, x) if size == 1.0 else math.nan
    if size < 1e-4:
        return 0.5 * math.sqrt(math.pi) * x * (1.0 + math.pi / 12.0 * x * x)
    log = math.log1p(-size * size)
    half = 2.0 / (math.pi * 0.147) + 0.5 * log
    y = math.sqrt(math.sqrt(half * half - log / 0.147) - half)
    for _ in range(3):
        excess = math.erf(y) - size if size < 0.5 else (1.0 - size) - math.erfc(y)
        change = excess * 0.5 * math.sqrt(math.pi) * math.exp(y * y)
        y -= change / (1.0 + y * change)
    return math.copysign(y, x)


def _inverse_fourth_root(x: float) -> float:
    return 1.0 / math.sqrt(math.sqrt(max(abs(x), SMALLEST_NORMAL)))


TRUTH: dict[str, Callable[[float], float]] = {
    "sigmoid": _sigmoid,
    "swish": _swish,
    "softplus": _softplus,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "rsqrt": _rsqrt,
    "exp2": _exp2,
    "exp_nonpositive": _exp_nonpositive,
    "inverse_erf": _inverse_erf,
    "inverse_fourth_root": _inverse_fourth_root,
}
"""Functions that the C library does not have, without sums that cancel."""


def worst_of_all(name: str, kernel: RunningKernel, smallest: float = 0.0) -> Worst:
    """Return the largest error of the function *name*, computed by *kernel*, CHUNK at a time.

    It is infinity where NaN, infinity or a sign is wrong. Where the truth is below *smallest*, any
    result that is not larger is right.
    """
    function = _compiled(TRUTH[name]) if name in TRUTH else getattr(math, name)
    compare = _comparison(function, smallest)

    def worst_from(start: int) -> Worst:
        x = np.arange(start, start + CHUNK, dtype=np.uint32).view(np.float32)
        found, expected = np.empty_like(x), np.empty_like(x)
        kernel(found, x)
        error, place = compare(x, found, expected, expected.view(np.uint32), ULP)
        return Worst(error, float(x[place]), float(found[place]))

    with ThreadPoolExecutor() as pool:
        return max(pool.map(worst_from, range(0, EVERY, CHUNK)))


def _comparison(function: Any, smallest: float) -> Any:
    """Return a compiled loop that finds where an array is farthest from *function*.

    ``expected``, with its bits, is room for the truth as a ``float32``.
    """

    def compare(x, found, expected, bits, ulp):  # type: ignore[no-untyped-def]
        worst, place = -1.0, 0
        for i in range(x.size):
            truth = function(np.float64(x[i]))
            expected[i] = truth
            result = np.float64(found[i])
            if np.isnan(truth) or np.isnan(result):
                error = 0.0 if np.isnan(truth) and np.isnan(result) else np.inf
            elif abs(truth) < smallest:
                error = 0.0 if abs(result) <= smallest else np.inf
            elif np.signbit(truth) != np.signbit(result):
                error = np.inf
            elif np.isinf(expected[i]) or np.isinf(result):
                error = 0.0 if expected[i] == found[i] else np.inf
            else:
                error = abs(result - truth) / ulp[(bits[i] >> 23) & 255]
            if error > worst:
                worst, place = error, i
        return worst, place

    return _compiled(compare)
