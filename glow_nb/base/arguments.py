"""Checks of the arguments of public functions, before anything runs."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from glow_nb.base.errors import FeedError, GlowError, OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.types import MAX_RANK, Array

Shapes = Mapping[str, int | Sequence[int]]
Constants = Mapping[str, Array]

_ADDRESS = re.compile(r"[A-Za-z][\w+.-]+:/")
"""The beginning of an address; one letter would be a drive."""

MOST_SHOWN = 20
"""Items of an argument that an error shows."""

MOST_THREADS = 1024
"""More threads take longer to start and to synchronize than they save on any machine."""


def whole_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return the argument called *name* as an int; a NumPy integer will do.

    Raises:
        OptionError: It is no whole number, or not from *least* to *most*.
    """
    number = as_integer(value)
    if number is None or number < least or (most is not None and number > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise OptionError(f"{name}={described(value)}: give a whole number {wanted}")
    return number


def as_integer(value: Any) -> int | None:
    """Return *value* as an int; None if it is none, as a bool is."""
    if isinstance(value, bool | np.bool_ | np.ndarray):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def truth(name: str, value: object) -> bool:
    """Return the argument called *name* as a bool; raise OptionError if it is none.

    A text such as "no" would count as true.
    """
    if isinstance(value, bool):
        return value
    raise OptionError(f"{name}={described(value)}: give True or False")


def _as_float(value: Any) -> float:
    """Return a number, of Python or NumPy, as a float; infinity if it is too large, else NaN."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number:
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number that no float can be
        return math.inf if value > 0 else -math.inf


def number(name: str, value: object, least: float) -> float:
    """Return the argument called *name* as a float; infinity will do.

    Raises:
        OptionError: It is no number, or less than *least*.
    """
    found = _as_float(value)
    if found >= least:
        return found
    raise OptionError(f"{name}={described(value)}: give a number of {least:g} or more")


def finite_number(name: str, value: object, least: float = -math.inf) -> float:
    """Return the argument called *name* as a float.

    Raises:
        OptionError: It is no finite number, or less than *least*.
    """
    found = _as_float(value)
    if math.isfinite(found) and found >= least:
        return found
    wanted = "a finite number" if least == -math.inf else f"a number of at least {least:g}"
    raise OptionError(f"{name}={described(value)}: give {wanted}")


def seconds(name: str, value: object, least: float = 0.0) -> float:
    """Return the argument called *name* as a number of seconds; raise OptionError if it is none."""
    found = _as_float(value)
    if math.isfinite(found) and found >= least:
        return found
    wanted = "a number of seconds" if least == -math.inf else f"{least:g} seconds or more"
    raise OptionError(f"{name}={described(value)}: give {wanted}")


def as_shapes(shapes: object) -> Shapes | None:
    """Return the ``shapes=`` of a user with plain numbers; raise OptionError if it is none."""
    if shapes is None:
        return None
    if not isinstance(shapes, Mapping):
        raise OptionError(f"shapes={described(shapes)}: give a dict such as {{'batch': 8}}")
    return {_name("shapes", name): _size(name, given) for name, given in shapes.items()}


def _name(argument: str, name: object) -> str:
    if not isinstance(name, str):
        raise OptionError(f"{argument}={{{name!r:.80}: ...}}: the names must be text")
    return name


def _size(name: str, given: object) -> int | tuple[int, ...]:
    """Return one size, or a shape, of at least 0."""
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Sequence) and not isinstance(given, str | bytes | bytearray):
        is_shape, numbers = True, [as_integer(size) for size in given]
    else:
        is_shape, numbers = False, [as_integer(given)]
    if len(numbers) > MAX_RANK:
        raise OptionError(
            f"shapes={{{name!r}: ...}}: a shape of {len(numbers)} dimensions; tensors have at most "
            f"{MAX_RANK}"
        )
    sizes = tuple(size for size in numbers if size is not None and size >= 0)
    if len(sizes) < len(numbers):
        raise OptionError(
            f"shapes={{{name!r}: {described(given)}}}: give a size of 0 or more, or a tuple of such"
        )
    return sizes if is_shape else sizes[0]


def as_constants(constants: object) -> dict[str, Array]:
    """Return the ``constants=`` of a user as arrays; raise OptionError if it is none."""
    if constants is None:
        return {}
    if not isinstance(constants, Mapping):
        raise OptionError(f"constants={described(constants)}: give a dict of arrays by input name")
    return {
        _name("constants", name): array_of_numbers(
            OptionError, f"constants={{{name!r:.80}: ...}}", value
        )
        for name, value in constants.items()
    }


def fits_as_it_is(array: object, dtype: np.dtype[Any], shape: tuple[int, ...]) -> TypeGuard[Array]:
    """Return whether a kernel can read *array* in place.

    If it cannot, :func:`as_array` may still convert the array.
    """
    return (
        type(array) is np.ndarray
        and array.dtype == dtype
        and array.shape == shape
        and array.flags.carray
    )


def as_array(name: str, value: object) -> Array:
    """Return what was fed to the input *name* as an array; raise FeedError if it is none."""
    return array_of_numbers(FeedError, f"input {name!r}", value)


def array_of_numbers(kind: type[GlowError], subject: str, value: object) -> Array:
    """Return *value* as an array of numbers; raise *kind* about the *subject* if it is none."""
    if type(value) is np.ndarray and value.dtype != object:
        return value
    if _is_too_deep(value):
        raise kind(f"{subject}: lists of more than {MAX_RANK} dimensions, the most of an array")
    with foreign(kind, f"{subject}: a {type(value).__name__} that is no array"):
        array = as_it_lies(kind, subject, value)
        if array is None:
            array = np.asarray(value)
    if _has_mask(value):
        raise kind(
            f"{subject}: a masked array, whose mask would be ignored; give numbers for the masked "
            "elements: array.filled(0)"
        )
    if array.dtype == object:
        given = "None" if value is None else f"a {type(value).__name__} of Python objects"
        raise kind(f"{subject}: {given} is no array of numbers; give a NumPy array")
    return array


def as_it_lies(kind: type[GlowError], subject: str, value: Any) -> Array | None:
    """Return an array of another library as a NumPy array on the same memory, by DLPack.

    The result is None for a NumPy array, and for one that does not support DLPack.

    Raises:
        GlowError: It is on another device; an error of class *kind* about the *subject*.
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return None
    device, number = value.__dlpack_device__()
    if int(device) not in _HOST_DEVICES:
        name = _DEVICES.get(int(device), f"device of kind {int(device)}")
        raise kind(
            f"{subject}: a {type(value).__name__} on {name} {number}, and networks read the "
            "processor's memory alone; move it there first, as tensor.cpu() does"
        )
    try:
        array: Array = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):  # what it lends, NumPy does not know
        if not hasattr(value, "__array__"):
            raise
        return None
    return array


_HOST_DEVICES = (1, 3, 11, 13)
"""Kinds of devices of DLPack whose memory the processor reads: its own, what is pinned for a GPU of
CUDA or ROCm, and what CUDA manages."""

_DEVICES = {2: "CUDA device", 8: "Metal device", 7: "Vulkan device", 10: "ROCm device"}
"""Names of some other kinds."""


def _is_too_deep(value: object) -> bool:
    """Return whether lists in lists, as far as their first elements go, are more than axes."""
    depth = 0
    while isinstance(value, list | tuple) and value and depth <= MAX_RANK:
        value, depth = value[0], depth + 1
    return depth > MAX_RANK


def _has_mask(value: object) -> bool:
    """Return whether *value* is a masked array, or a list of what NumPy made one array of."""
    if isinstance(value, list | tuple):
        return any(map(_has_mask, value))
    return isinstance(value, np.ma.MaskedArray)


def as_path(path: object) -> Path:
    """Return *path*, in which ``~`` is the user's folder.

    Raises:
        OptionError: It is neither text nor a path, or names no file.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or not _has_bytes(text):
        raise OptionError(f"{described(path)} is no path; give that of a file, as text or a Path")
    if _ADDRESS.match(text):
        raise OptionError(f"{text!r:.200} is an address; download the file, and give its path")
    if text.startswith("~") and not os.path.exists(text):
        text = os.path.expanduser(text)
    return Path(text)


def described(value: object) -> str:
    """Return how errors refer to an argument: by its text if that is short and meaningful."""
    return f"{value!r:.80}" if _is_plain(value) else f"a {type(value).__name__}"


def _is_plain(value: object) -> bool:
    """Return whether *value* is short to print: a word, a number, a class, or some of these."""
    if isinstance(value, dict):
        return len(value) <= MOST_SHOWN and all(map(_is_plain, (*value, *value.values())))
    if isinstance(value, list | tuple | set | frozenset):
        return len(value) <= MOST_SHOWN and all(map(_is_plain, value))
    return value is None or isinstance(
        value, str | bytes | bytearray | int | float | type | Path | np.generic | np.dtype
    )


def _has_bytes(text: str) -> bool:
    """Return whether the file system has bytes for *text*: it has none for a lone surrogate."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
