"""Random arrays for a network, if none are given."""

from __future__ import annotations

import numpy as np

from glow_nb.base.conversion import converted, is_small_float
from glow_nb.base.types import Array, ElementKind, TensorType


def random_array(type: TensorType, rng: np.random.Generator) -> Array:
    """Return an array of *type* to try a network with.

    Floats are normal with mean 0 and deviation 1; 8-bit integers cover their range, as pixels do;
    wider ones and bool are 0 or 1, which are valid as almost any index or mask. Storage kinds hold
    such numbers converted.
    """
    kind = type.kind
    if kind.is_float or is_small_float(kind):
        return converted(rng.standard_normal(type.shape, np.float32), kind)
    if kind.is_storage:
        return converted(rng.integers(0, 1 << kind.bits, type.shape), kind)
    if kind in (ElementKind.INT8, ElementKind.UINT8):
        limits = np.iinfo(kind.dtype)
        return rng.integers(limits.min, limits.max, type.shape, kind.dtype, endpoint=True)
    return rng.integers(0, 2, type.shape).astype(kind.dtype)
