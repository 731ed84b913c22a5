"""The larger and the smaller of two numbers, and of many: what every engine takes them for.

As in IEEE 754-2019, the result is NaN if any of the numbers is, and -0.0 is less than 0.0, so that
the order of the numbers does not matter. NumPy leaves the sign of a zero to the processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def larger(x: Any, y: Any) -> Any:
    """Return the larger of each two numbers."""
    found = np.maximum(x, y)
    # Of two zeros the sum is positive unless both are negative.
    return _with_zeros(found, (x == 0) & (y == 0), x, y, 1)


def smaller(x: Any, y: Any) -> Any:
    """Return the smaller of each two numbers."""
    found = np.minimum(x, y)
    return _with_zeros(found, (x == 0) & (y == 0), x, y, -1)


def largest(x: Any, axes: tuple[int, ...], least: Any) -> Any:
    """Return the largest number along *axes*; of none *least*."""
    found = np.max(x, axis=axes, initial=least)
    if found.dtype.kind != "f":
        return found
    has_positive = np.any(~np.signbit(x), axis=axes)
    return np.where(found == 0, np.where(has_positive, 0.0, -0.0), found)


def smallest(x: Any, axes: tuple[int, ...], greatest: Any) -> Any:
    """Return the smallest number along *axes*; of none *greatest*."""
    found = np.min(x, axis=axes, initial=greatest)
    if found.dtype.kind != "f":
        return found
    has_negative = np.any(np.signbit(x), axis=axes)
    return np.where(found == 0, np.where(has_negative, -0.0, 0.0), found)


def _with_zeros(found: Any, are_zeros: Any, x: Any, y: Any, sign: int) -> Any:
    """Return *found*, and where both are zeros, the one whose sign is *sign*."""
    if np.asarray(found).dtype.kind != "f":
        return found
    zeros = sign * (sign * x + sign * y)
    return np.where(are_zeros, zeros, found).astype(found.dtype)
