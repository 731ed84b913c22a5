"""Dataclasses as plain data, which JSON can hold, and back; every value is checked when it is read.

Fields may be numbers, texts, members of enumerations, dataclasses, tuples of any length of one of
these, or one of these or None. Open sizes, which stand for numbers, are written as their text.
"""

from __future__ import annotations

import dataclasses
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
    if dataclasses.is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def from_plain(kind: type[T], plain: Any, where: str = "", size: ReadSize | None = None) -> T:
    """Return the *kind* that *plain* stands for; *where* is its place in the data.

    Texts that stand for numbers are read by *size*, if there are open ones.

    Raises:
        CompileError: Something is missing, is there besides, or is of another kind.
        GlowError: A dataclass refuses what it is made of.
    """
    made: T = _from_plain(kind, plain, where or kind.__name__, size)
    return made


def _from_plain(kind: Any, plain: Any, where: str, size: ReadSize | None) -> Any:
    arguments = get_args(kind)
    if get_origin(kind) is tuple and isinstance(plain, list):
        item = arguments[0]
        return tuple(_from_plain(item, e, f"{where}[{n}]", size) for n, e in enumerate(plain))
    if NoneType in arguments:
        (other,) = set(arguments) - {NoneType}
        return None if plain is None else _from_plain(other, plain, where, size)
    if dataclasses.is_dataclass(kind) and isinstance(plain, dict):
        return _make(kind, plain, where, size)
    if plain in _values(kind):
        return kind(plain)
    if type(plain) is kind:
        return plain
    if kind is int and isinstance(plain, str) and size is not None:
        return size(plain)
    raise CompileError(f"{where}: {plain!r:.80} stands where {_name(kind)} should be")


def _make(kind: Any, plain: Mapping[str, Any], where: str, size: ReadSize | None) -> Any:
    """Return the dataclass *kind* with exactly the fields of *plain*."""
    kinds = _field_kinds(kind)
    if set(plain) != set(kinds):
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


def _values(kind: Any) -> list[Any]:
    """Return what stands for a member of the enumeration *kind*; nothing if it is none."""
    return [m.value for m in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
