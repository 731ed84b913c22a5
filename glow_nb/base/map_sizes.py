"""Sizes that stand inside of types, tuples and dataclasses, replaced all at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from glow_nb.base.size import Guard, Size, Symbol, hinted

T = TypeVar("T")

Change = Callable[[int], int]
"""Returns the replacement of an open size."""


def map_sizes(value: T, change: Change) -> T:
    """Return *value* with each open size in it changed; the very *value* if there is none.

    Sizes are looked for in tuples and in the fields of dataclasses, such as types and plans.
    """
    if isinstance(value, Size):
        return change(value)  # type: ignore[return-value]
    if isinstance(value, tuple) and type(value) is tuple:
        items = tuple(map_sizes(item, change) for item in value)
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items  # type: ignore[return-value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = _changed_fields(value, change)
        return dataclasses.replace(value, **changes) if changes else value
    return value


def _changed_fields(value: Any, change: Change) -> dict[str, Any]:
    changes = {}
    for field in dataclasses.fields(value):
        if field.init:
            old = getattr(value, field.name)
            new = map_sizes(old, change)
            if new is not old:
                changes[field.name] = new
    return changes


def at_hints(value: T) -> T:
    """Return *value* for the sizes of the example: estimates and choices are made for these."""
    return map_sizes(value, hinted)


def renaming(symbols: Mapping[Symbol, Symbol | int]) -> Change:
    """Return a change that replaces some symbols by other *symbols* or numbers."""

    def renamed(size: int) -> int:
        return size.with_symbols(symbols) if isinstance(size, Size) else size

    return renamed


def guard_with(guard: Guard, symbols: Mapping[Symbol, Symbol | int]) -> Guard:
    """Return *guard* about other *symbols*, those that are given."""
    change = renaming(symbols)
    left, right = map_sizes(guard.left, change), map_sizes(guard.right, change)
    return Guard(left, guard.relation, right)
