"""Facts about constants: their numbers, and whether these are one number repeated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glow_nb.base.payload import array_or_none
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Constant, Value


def is_known(value: Value) -> bool:
    """True for a constant that has numbers; asking for those may mean that they are made."""
    return isinstance(value, Constant) and value.payload is not None


def array_of(value: Value) -> Array | None:
    """Return the numbers of a constant that has them, else None."""
    return array_or_none(value.payload) if isinstance(value, Constant) else None


def uniform(value: Value) -> Any:
    """Return the number that every element of a constant is, as a Python scalar; else None.

    NaN is no number, and a constant without elements has none.
    """
    array = array_of(value)
    return None if array is None else uniform_number(array)


def uniform_number(array: Array) -> Any:
    """Return the number that every element of *array* is, as a Python scalar; else None."""
    if array.size == 0:
        return None
    first, last = (array[(place,) * array.ndim] for place in (0, -1))
    if first != last or first != first or (array.size > 2 and (array != first).any()):
        return None
    return float(first) if array.dtype == ElementKind.BFLOAT16.dtype else first.item()


def is_uniform(value: Value, number: float) -> bool:
    """True for a constant all of whose elements equal *number*."""
    return bool(uniform(value) == number)


def has_number(kind: ElementKind, number: float) -> bool:
    """Return whether *kind* has *number*: integers exactly, floats after rounding."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            element = np.full((), number, kind.dtype)
    except (OverflowError, ValueError):
        return False
    if kind.is_float:
        return bool(np.isfinite(element)) or not math.isfinite(number)
    return bool(element == number)


def tolerance_of(kind: ElementKind) -> float:
    """Return the relative error that a number written down in *kind*, or float32, may have."""
    bits = {ElementKind.FLOAT16: 10, ElementKind.BFLOAT16: 7}.get(kind, 23)
    return 4 * 2.0**-bits


def is_about(value: Value, number: float) -> bool:
    """True for a constant all of whose elements are *number*, rounded."""
    found = uniform(value)
    return found is not None and math.isclose(found, number, rel_tol=tolerance_of(value.type.kind))
