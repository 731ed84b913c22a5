"""Recognize triangles of open sizes: parts of constant ones, and comparisons of numbers that count.

Where sizes are known, such a triangle is a constant, and its numbers are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.known import array_of, is_uniform, uniform
from glow_nb.hlir.ops import (
    Add,
    Broadcast,
    ConvertTo,
    CumSum,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    Not,
    Reshape,
    Slice,
    Sub,
)
from glow_nb.hlir.ops.sizes import Sizes

EXACT = (ElementKind.INT32, ElementKind.INT64)
"""Kinds in which no size is rounded."""


@dataclass(frozen=True)
class Triangle:
    """A matrix of bools: row ``i`` is true up to column ``i + offset``, or only after it.

    Attributes:
        offset: May be open.
        is_lower: True is up to the diagonal.
    """

    offset: int
    is_lower: bool

    def inverted(self) -> Triangle:
        """Return it with true and false exchanged."""
        return Triangle(self.offset, not self.is_lower)


def triangle_of(value: Value) -> Triangle | None:
    """Return the triangle that the last two axes of *value* are, whatever its sizes are."""
    value, rows = _whole(value, value.type.shape[-2:]), value.type.shape[-2:]
    if value.type.rank < 2 or value.type.shape[-2:] != rows:
        return None
    match value:
        case Not(input=inner, predicate=None):
            found = triangle_of(inner)
            return found and found.inverted()
        case Slice(input=table, predicate=None) if set(value.steps) == {1}:
            found = _constant(array_of(table))
            start = value.starts[-2] - value.starts[-1]
            return found and Triangle(found.offset + start, found.is_lower)
        case LessEqual(lhs=lhs, rhs=rhs, predicate=None):
            return _compared(lhs, rhs, is_strict=False)
        case Less(lhs=lhs, rhs=rhs, predicate=None):
            return _compared(lhs, rhs, is_strict=True)
        case GreaterEqual(lhs=lhs, rhs=rhs, predicate=None):
            return _compared(rhs, lhs, is_strict=False)
        case Greater(lhs=lhs, rhs=rhs, predicate=None):
            return _compared(rhs, lhs, is_strict=True)
    return None


def _whole(value: Value, rows: tuple[int, ...]) -> Value:
    """Return *value* before it is repeated for, or seen as, other samples and heads."""
    while isinstance(value, Broadcast | Reshape) and value.predicate is None:
        if value.input.type.shape[-2:] != rows:
            break
        value = value.input
    return value


def _constant(table: Array | None) -> Triangle | None:
    """Return the triangle that all matrices of *table* are."""
    if table is None or table.ndim < 2 or table.dtype != np.bool_ or not table.size:
        return None
    rows, columns = table.shape[-2:]
    for is_lower in (True, False):
        counts = (table == is_lower).reshape(-1, rows, columns)[0].sum(axis=1)
        inner = np.flatnonzero((counts > 0) & (counts < columns))
        if not inner.size:
            continue
        offset = int(counts[inner[0]] - 1 - inner[0])
        wanted = np.tri(rows, columns, offset, dtype=np.bool_) == is_lower
        if (table == wanted).all():
            return Triangle(offset, is_lower)
    return None


def _compared(small: Value, large: Value, *, is_strict: bool) -> Triangle | None:
    """Return the triangle of ``small <= large``, or ``small < large``."""
    first, second = counted(small), counted(large)
    if first is None or second is None or {first[0], second[0]} != {-1, -2}:
        return None
    if first[0] == -1:  # the column: j + first <= i + second
        return Triangle(second[1] - first[1] - is_strict, is_lower=True)
    # i + first <= j + second: false where j < i + first - second
    return Triangle(first[1] - second[1] - (not is_strict), is_lower=False)


def counted(value: Value) -> tuple[int, int] | None:
    """Return the axis, counted from the end, along which *value* counts, and its first number."""
    axes = [axis for axis, size in enumerate(value.type.shape) if size != 1]
    first = _first(value) if len(axes) == 1 else None
    return None if first is None else (axes[0] - value.type.rank, first)


def _first(value: Value) -> int | None:
    """Return the first of numbers each of which is one more than the one before it."""
    start = 0
    while value.type.kind in EXACT:
        if not isinstance(value, Node):
            array = array_of(value)
            is_counting = array is not None and array.size and (np.diff(array.ravel()) == 1).all()
            return start + int(array.flat[0]) if array is not None and is_counting else None
        if value.predicate is not None:
            return None
        match value:
            case Reshape(input=inner) | ConvertTo(input=inner):
                value = inner
            case Slice(input=inner, steps=(1,), starts=(begin,)):
                value, start = inner, start + begin
            case Add(lhs=lhs, rhs=rhs) | Sub(lhs=lhs, rhs=rhs) if (
                number := _number(rhs)
            ) is not None:
                value, start = lhs, start + (number if isinstance(value, Add) else -number)
            case Add(lhs=lhs, rhs=rhs) if (number := _number(lhs)) is not None:
                value, start = rhs, start + number
            case CumSum(input=Broadcast(input=one), axis=0, reverse=False) if is_uniform(one, 1):
                return start + (not value.exclusive)
            case _:
                return None
    return None


def _number(value: Value) -> int | None:
    """Return the one whole number that *value* is, which may be an open size."""
    while isinstance(value, Reshape | ConvertTo) and value.predicate is None:
        value = value.input
    match value:
        case Sizes(numbers=(number,), predicate=None):
            return number
    number = uniform(value)
    return int(number) if number is not None and number == int(number) else None
