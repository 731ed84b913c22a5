"""How far two results are apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from glow_nb.backends.interpreter import POISON
from glow_nb.types import Array


def distance(expected: Array, found: Array) -> float:
    """Return the largest difference over the largest number that is expected.

    Numbers that are not finite must be the same in both, otherwise the distance is infinite. If
    nothing but zeros is expected, it is the largest difference itself.
    """
    if expected.shape != found.shape:
        return np.inf
    wide, other = expected.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(wide)
    if not np.array_equal(wide[~finite], other[~finite], equal_nan=True):
        return np.inf
    if not finite.any():
        return 0.0
    largest = float(np.abs(wide[finite]).max())
    difference = float(np.abs(wide[finite] - other[finite]).max())
    if np.isnan(difference):
        return np.inf
    return difference / largest if largest else difference


def largest_distance(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """Return the largest :func:`distance` among the arrays of *expected* and their namesakes."""
    return max((distance(array, found[name]) for name, array in expected.items()), default=0.0)


def distance_of_written(expected: Array, found: Array) -> float:
    """Return the :func:`distance` where *expected* does not hold the bytes of poisoned memory."""
    flat = np.ascontiguousarray(expected).reshape(-1).view(np.uint8)
    written = (flat.reshape(expected.size, expected.itemsize) != POISON).any(axis=1)
    return distance(expected.reshape(-1)[written], found.reshape(-1)[written])
