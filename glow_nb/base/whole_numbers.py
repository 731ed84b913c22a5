"""What may be asked of a whole number that is plain or an open size (:mod:`glow_nb.base.size`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_PLAIN = frozenset({int, float, bool, str, type(None)})


def at(size: int, sizes: Mapping[str, int]) -> int:
    """Return the number that *size* is for *sizes* by the name of the symbol."""
    number: int = size.at(sizes) if hasattr(size, "at") else size
    return number


def bounds(size: int) -> tuple[int, int]:
    """Return numbers that *size* is never below and never above."""
    least, greatest = size.bounds if hasattr(size, "bounds") else (size, size)
    return least, greatest


def symbols_in(values: Iterable[object]) -> tuple[Any, ...]:
    """Return the symbols in *values*, each once: sizes stand there alone, or in tuples."""
    values = tuple(values)
    if _PLAIN.issuperset(map(type, values)):  # nearly all are, and may be thousands
        return ()
    found: dict[Any, None] = {}
    for value in values:
        inside = symbols_in(value) if isinstance(value, tuple) else getattr(value, "symbols", ())
        found.update(dict.fromkeys(inside))
    return tuple(found)


def parts_of(*sizes: int) -> int:
    """Return how many terms and factors *sizes* are made of."""
    return sum(getattr(size, "parts", 1) for size in sizes)
