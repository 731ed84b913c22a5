"""Tensors in JSON and in bytes, and the arrays that they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from glow_nb.base.types import Array, ElementKind
from glow_nb.runtime.serve.datatypes import NAMES
from glow_nb.runtime.serve.json_fields import TooLarge
from glow_nb.runtime.serve.refusal import bad_request

Bytes = npt.NDArray[np.uint8]


def from_bytes(subject: str, raw: Bytes, kind: ElementKind, shape: tuple[int, ...]) -> Array:
    """Return the tensor that lies in *raw*, without a copy; raise Refusal if it does not fit."""
    needed = prod(shape) * kind.size_bytes
    if len(raw) != needed:
        raise bad_request(
            f"{subject}: binary_data_size is {len(raw)}, but {NAMES[kind]} of shape "
            f"{list(shape)!s:.200} takes {needed} bytes"
        )
    if kind is ElementKind.BOOL and raw.size and raw.max() > 1:
        raise bad_request(f"{subject}: a byte of a BOOL is {raw.max()}, but must be 0 or 1")
    return raw.view(kind.dtype).reshape(shape)


def from_json(subject: str, data: object, kind: ElementKind, shape: tuple[int, ...]) -> Array:
    """Return the tensor that *data* lists, flat or nested; raise Refusal if it does not fit."""
    elements = _flat(subject, data, shape)
    if len(elements) != prod(shape):
        raise bad_request(
            f"{subject}: data has {len(elements)} elements, but shape {list(shape)!s:.200} has "
            f"{prod(shape)}"
        )
    _check_elements(subject, elements, shape, kind)
    exact = _exact(subject, elements, shape, kind)
    with np.errstate(over="ignore"):
        array = exact.astype(kind.dtype, copy=False)
    if "float" in kind.value and (beyond := np.isfinite(exact) & ~np.isfinite(array)).any():
        index = int(np.argmax(beyond))
        raise bad_request(
            f"{subject}: an element is {exact[index]}, which is too large for {NAMES[kind]}, at "
            f"{_place(index, shape)}"
        )
    return array.reshape(shape)


def _place(index: int, shape: Sequence[int]) -> list[int]:
    """Return where in a tensor of *shape* the element *index* is."""
    return [int(each) for each in np.unravel_index(index, tuple(shape))]


def _flat(subject: str, data: object, shape: Sequence[int]) -> list[Any]:
    """Return the elements of *data*, which is flat, or nested as *shape* says."""
    if not isinstance(data, list):
        raise bad_request(f"{subject}: data is {data!r:.40}, but must be a list")
    level = data
    for size in shape[1:]:
        if not level or type(level[0]) is not list:
            break
        if set(map(type, level)) != {list} or set(map(len, level)) != {size}:
            raise bad_request(
                f"{subject}: data is not nested as shape {list(shape)!s:.200} says; send it so, or "
                "flat"
            )
        level = list(chain.from_iterable(level))
    return level


def _check_elements(
    subject: str, elements: list[Any], shape: Sequence[int], kind: ElementKind
) -> None:
    """Raise Refusal unless *elements* are JSON's numbers, or truth values, for *kind*."""
    allowed: tuple[set[type], str] = {int}, "a whole number"
    if kind is ElementKind.BOOL:
        allowed = {bool}, "true or false"
    elif "float" in kind.value:
        allowed = {int, float}, "a number"
    types, wanted = allowed
    if wrong := set(map(type, elements)) - types:
        index = next(i for i, each in enumerate(elements) if type(each) in wrong)
        if type(elements[index]) is TooLarge:
            wanted += " that a float can be"
        raise bad_request(
            f"{subject}: an element is {elements[index]!r:.40}, but an element of {NAMES[kind]} "
            f"must be {wanted}, at {_place(index, shape)}"
        )


def _exact(subject: str, elements: list[Any], shape: Sequence[int], kind: ElementKind) -> Array:
    """Return *elements* in a kind of NumPy that holds all of *kind*."""
    if kind is ElementKind.BOOL:
        return np.array(elements, np.bool_)
    if "float" in kind.value:
        try:
            return np.array(elements, np.float64)
        except OverflowError as error:
            index = next(i for i, n in enumerate(elements) if abs(n) > sys.float_info.max)
            raise bad_request(
                f"{subject}: an element is too large for a float, at {_place(index, shape)}"
            ) from error
    least, greatest = kind.limits
    for value in (min(elements, default=least), max(elements, default=least)):
        if not least <= value <= greatest:
            raise bad_request(
                f"{subject}: an element is {value!s:.40}, but {NAMES[kind]} goes from {least} to "
                f"{greatest}, at {_place(elements.index(value), shape)}"
            )
    return np.array(elements, np.int64 if kind.is_signed else np.uint64)


def to_bytes(array: Array) -> memoryview:
    """Return the bytes of *array*, row by row, without a copy where they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def to_json(subject: str, array: Array) -> list[Any]:
    """Return the elements of *array*, flat; raise Refusal if JSON (RFC 8259) cannot say one."""
    kind = ElementKind.of(array.dtype)
    if "float" in kind.value:
        array = array.astype(np.float64)
        _check_finite(subject, array)
    elif kind.is_storage:
        array = array.astype(np.int64)
    elements: list[Any] = array.reshape(-1).tolist()
    return elements


def _check_finite(subject: str, array: Array) -> None:
    """Raise Refusal if an element of *array* is NaN or infinite."""
    odd = ~np.isfinite(array)
    if odd.any():
        place = tuple(np.argwhere(odd)[0])
        raise bad_request(
            f"{subject}: it has {array[place]} at {list(map(int, place))}, which JSON cannot say; "
            "ask for it in bytes, by its parameter binary_data"
        )
