"""Numbers as they are written on a command line: ``16000``, ``1,3,64,64``, ``[[1,2],[3,4]]``."""

from __future__ import annotations

import json
import math
import re
from math import prod

import numpy as np

from glow_nb.base.conversion import converted, is_small_float
from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array, ElementKind, SymbolicType


def array_of(text: str, type: SymbolicType, subject: str) -> Array:
    """Return the numbers in *text* as an array of the kind of *type*.

    One number, or a list of them, gets the shape of *type* if that is known and has as many
    elements.

    Raises:
        OptionError: About *subject*: these are no numbers, or none of this kind.
    """
    if type.kind is None:
        raise OptionError(f"{subject}: the model does not say of which kind this input is")
    values = _values(text, subject)
    array = _of_kind(values, type.kind)
    if array is None:
        raise OptionError(f"{subject}: the input is {type}, which cannot hold these numbers")
    sizes = [size for size in type.shape or () if isinstance(size, int)]
    is_known = type.shape is not None and len(sizes) == len(type.shape)
    return array.reshape(sizes) if is_known and _fills(array, sizes) else array


def _fills(array: Array, sizes: list[int]) -> bool:
    return array.ndim <= 1 and array.size == prod(sizes)


def _values(text: str, subject: str) -> Array:
    """Return the numbers and truth values in *text*, as Python objects."""
    plain = text.strip().lower()
    listed = f"[{plain}]" if "," in plain and not plain.startswith("[") else plain
    listed = re.sub(r"\binf(inity)?\b", "Infinity", re.sub(r"\bnan\b", "NaN", listed))
    try:
        values = np.array(json.loads(listed, parse_float=_finite), dtype=object)
    except (ValueError, RecursionError):
        values = np.array(None)
    if not all(isinstance(value, bool | int | float) for value in values.ravel()):
        raise OptionError(
            f"{subject}: this is no number, no list of numbers of one length such as 1,2 or "
            "[[1,2],[3,4]], and no FILE.npy"
        )
    return values


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is more than a float64 holds")
    return number


def _of_kind(values: Array, kind: ElementKind) -> Array | None:
    """Return *values* in *kind*; None if one of them is no number that *kind* has."""
    if kind is ElementKind.BOOL:
        return values.astype(bool) if all(value in (0, 1) for value in values.ravel()) else None
    if any(isinstance(value, bool) for value in values.ravel()):
        return None
    if kind.is_float or is_small_float(kind):
        return _floats(values, kind)
    least, greatest = kind.limits
    if not all(isinstance(value, int) and least <= value <= greatest for value in values.ravel()):
        return None
    return converted(values.astype(np.int64 if kind.is_signed else np.uint64), kind)


def _floats(values: Array, kind: ElementKind) -> Array | None:
    """Return *values* rounded to *kind*; None if one is larger than all of its numbers."""
    try:
        wide = values.astype(np.float64)
    except OverflowError:
        return None
    array = converted(wide, kind)
    back = converted(array, ElementKind.FLOAT64)
    return array if np.array_equal(np.isfinite(back), np.isfinite(wide)) else None
