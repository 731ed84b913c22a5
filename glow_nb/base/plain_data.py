"""Dataclasses as plain data, which JSON can hold, and back; every value is checked when it is read.

Fields may be numbers, texts, members of enumerations, dataclasses, tuples, dicts from texts to one
of these, or one of these or None. Fields that have their defaults are left out. Open sizes, which
stand for numbers, are written as their text.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from glow_nb.base.errors import CompileError
from glow_nb.base.size import Size

T = TypeVar("T")

ReadSize = Callable[[object], int]
"""Returns the size that a text stands for."""


def to_plain(value: Any) -> Any:
    """Return *value* as dicts, lists, numbers and texts."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Size):
        return str(value)
    if isinstance(value, tuple):
        return [to_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: to_plain(each) for key, each in value.items()}
    if dataclasses.is_dataclass(value):
        return {
            field.name: to_plain(each)
            for field in dataclasses.fields(value)
            if (each := getattr(value, field.name)) != field.default
        }
    return value


def from_plain(kind: type[T], plain: Any, where: str = "", size: ReadSize | None = None) -> T:
    """Return the *kind* that *plain* represents; *where* is its place in the data.

    Texts that stand for numbers are read by *size*, if there are open ones.

    Raises:
        CompileError: Something is missing, is there besides, or is of another kind.
        GlowError: A dataclass refuses what it is made of.
    """
    made: T = _from_plain(kind, plain, where or kind.__name__, size)
    return made


def _from_plain(kind: Any, plain: Any, where: str, size: ReadSize | None) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(plain, list):
        items = arguments[:1] * len(plain) if arguments[-1] is Ellipsis else arguments
        if len(items) == len(plain):
            pairs = enumerate(zip(items, plain, strict=True))
            return tuple(_from_plain(i, e, f"{where}[{n}]", size) for n, (i, e) in pairs)
    if origin is dict and isinstance(plain, dict):
        return {k: _from_plain(arguments[1], e, f"{where}.{k}", size) for k, e in plain.items()}
    if NoneType in arguments:
        (other,) = set(arguments) - {NoneType}
        return None if plain is None else _from_plain(other, plain, where, size)
    if dataclasses.is_dataclass(kind) and isinstance(plain, dict):
        return _make(kind, plain, where, size)
    if plain in _values(kind):
        return kind(plain)
    if type(plain) is kind:
        return plain
    if kind is float and type(plain) is int and abs(plain) <= sys.float_info.max:
        return float(plain)
    if kind is int and isinstance(plain, str) and size is not None:
        return size(plain)
    raise CompileError(f"{where}: {plain!r:.80} stands where {_name(kind)} should be")


def _make(kind: Any, plain: Mapping[str, Any], where: str, size: ReadSize | None) -> Any:
    """Return the dataclass *kind* with the fields of *plain*, and the defaults of the others."""
    kinds = _field_kinds(kind)
    if not _required(kind) <= set(plain) <= set(kinds):
        raise CompileError(
            f"{where}: it has {sorted(plain)!s:.200}, a {_name(kind)} has {sorted(kinds)}"
        )
    return kind(
        **{n: _from_plain(kinds[n], each, f"{where}.{n}", size) for n, each in plain.items()}
    )


@cache
def _field_kinds(kind: Any) -> Mapping[str, Any]:
    """Return the kinds of the fields of a dataclass by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@cache
def _required(kind: Any) -> frozenset[str]:
    """Return the names of the fields of a dataclass that have no default."""
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return frozenset(
        f.name for f in fields if f.default is missing and f.default_factory is missing
    )


def _values(kind: Any) -> list[Any]:
    """Return the plain form of a member of the enumeration *kind*; nothing if it is none."""
    return [m.value for m in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
