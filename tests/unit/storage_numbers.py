"""The numbers that conversion to and from storage kinds is tested on."""

from __future__ import annotations

import numpy as np

from glow_nb.base.conversion import converted
from glow_nb.base.types import Array, ElementKind

UNFIT = (
    *(np.nan, np.inf, -np.inf, -0.0, -0.5, 3e38, -3e38, 9.3e18, -9.3e18, 2.0**63, 2.0**64, 1e10),
    *(
        -1e10,
        3e9,
        -3e9,
        2.0**31,
        -(2.0**31),
        2.0**32,
        7e4,
        -7e4,
        300.0,
        -300.0,
        200.0,
        -129.0,
        -1.0,
    ),
)
"""Floats that do not fit some kind of integers, and neighbours of these."""


def codes_of(kind: ElementKind) -> Array:
    """Return every number of a storage kind, by its bits."""
    return np.arange(1 << kind.bits, dtype=np.uint8).view(kind.dtype)


def every_float16() -> Array:
    """Return all 65,536 of them, NaNs included."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def near_boundaries(kind: ElementKind) -> Array:
    """Return, in float32, each number of *kind*, the midpoints of neighbours, and what is next to
    them; beyond the largest number, as far again; and what is special."""
    numbers = converted(codes_of(kind), ElementKind.FLOAT32).astype(np.float64)
    finite = np.unique(numbers[np.isfinite(numbers)])
    ends = [2 * finite[-1] - finite[-2], 4 * finite[-1], 2 * finite[0] - finite[1], 4 * finite[0]]
    points = np.unique([*finite, *ends])
    points = np.concatenate([points, (points[:-1] + points[1:]) / 2])
    with np.errstate(over="ignore"):
        exact = points.astype(np.float32)
    around = [np.nextafter(exact, np.float32(side)) for side in (-np.inf, np.inf)]
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45, -1e-45, 3e38], np.float32)
    return np.concatenate([exact, *around, special])
