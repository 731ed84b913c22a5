"""Tensors of sizes that are known only when the network runs: shapes on their way to a Reshape."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NoReturn

import numpy as np

from glow_nb.base.schema import operand_specs
from glow_nb.base.size import Size, bounds, same
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.importer import ratio
from glow_nb.formats.onnx.importer.ratio import Number, Ratio, as_ratio, whole_numbers
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value


@dataclass(frozen=True, eq=False, repr=False)
class OpenNumbers(Value):
    """A small tensor of numbers some of which are open sizes, or floats that are made of such.

    It is part of no graph: what a node would make of it is computed when the model is imported.

    Attributes:
        name: The name in errors.
        type: The type of the numbers.
        numbers: The numbers, in row-major order.
    """

    name: str
    type: TensorType
    numbers: tuple[Number, ...]

    @property
    def integers(self) -> tuple[int, ...] | None:
        """The numbers if they are integers; None for floats."""
        integers = tuple(number for number in self.numbers if not isinstance(number, Ratio))
        return integers if len(integers) == len(self.numbers) else None

    def refuse(self) -> NoReturn:
        """Raise OpenSizeError about the first of its sizes: numbers are needed."""
        raise_open(*whole_numbers(self.numbers))


def _quotient(left: int, right: int) -> int:
    """Return the quotient as ONNX has it, rounded towards zero."""
    if bounds(left)[0] < 0 or bounds(right)[0] < 1:
        left, right = operator.index(left), operator.index(right)
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0
    return left // right


def _remainder(left: int, right: int, *, fmod: bool) -> int:
    """Return the remainder with the sign of *right*, or of *left* if *fmod*, as C has it."""
    if not isinstance(left, Size) and not isinstance(right, Size):
        return int(np.fmod(left, right) if fmod else np.mod(left, right)) if right else 0
    if bounds(right)[0] < 1 or (fmod and bounds(left)[0] < 0):
        raise_open(left, right)
    return left % right


def _converted(number: Number, kind: ElementKind) -> Number | None:
    """Return an open number as *kind*: whether it is not 0, or itself where the kind has it."""
    if kind is ElementKind.BOOL:
        return not same(as_ratio(number).numerator, 0)
    if kind.is_float:
        return as_ratio(number)
    if isinstance(number, Ratio):
        truncated = number.truncated
        if truncated is None:
            return None
        number = truncated
    if not isinstance(number, Size):
        return int(np.array(number).astype(kind.dtype))
    numbers = np.iinfo(kind.dtype)
    if number < numbers.min or number > numbers.max:  # products of sizes may, in an int32
        raise_open(number)
    return number


def raise_open(*numbers: int) -> NoReturn:
    """Raise OpenSizeError about the first of *numbers* that is an open size."""
    operator.index(next(n for n in numbers if isinstance(n, Size)))
    raise AssertionError


_BY_INTEGERS: dict[type[Node], Callable[..., Number | None]] = {
    ops.Add: operator.add,
    ops.Sub: operator.sub,
    ops.Mul: operator.mul,
    ops.Div: _quotient,
    ops.Neg: operator.neg,
    ops.Maximum: lambda left, right: left if left >= right else right,
    ops.Minimum: lambda left, right: left if left <= right else right,
    ops.Equal: same,
    ops.Less: operator.lt,
    ops.LessEqual: operator.le,
    ops.Greater: operator.gt,
    ops.GreaterEqual: operator.ge,
    ops.Select: lambda condition, left, right: left if condition else right,
}
"""What becomes of single elements."""

_BY_FLOATS: dict[type[Node], Callable[..., Number | None]] = {
    ops.Add: ratio.added,
    ops.Sub: ratio.subtracted,
    ops.Mul: ratio.multiplied,
    ops.Div: ratio.divided,
    ops.Neg: lambda x: Ratio(-x.numerator, x.denominator),
    ops.Floor: lambda x: Ratio(x.floor),
    ops.Ceil: lambda x: Ratio(x.ceil),
    ops.Equal: ratio.compared(same),
    ops.Less: ratio.compared(operator.lt),
    ops.LessEqual: ratio.compared(operator.le),
    ops.Greater: ratio.compared(operator.gt),
    ops.GreaterEqual: ratio.compared(operator.ge),
    ops.Select: lambda condition, left, right: left if condition else right,
}
"""The same for operands some of which are floats. None is a number that is not exact."""

_MOVES = (
    *(ops.Broadcast, ops.Concat, ops.Reshape, ops.Slice, ops.Split, ops.Tile, ops.Transpose),
    ops.Gather,
)
"""Operators that move elements of all their operands, but for indices."""


def folded(node: Node) -> list[tuple[Number, ...]] | None:
    """Return the numbers of each result of *node*, which reads open ones; None if no rule has it.

    Raises:
        OpenSizeError: It needs a number where there is an open size.
    """
    operands = [getattr(node, spec.name) for spec in operand_specs(type(node))]
    if any(v is None for v in operands) or not all(map(_is_foldable, node.result_types)):
        return None
    if isinstance(node, _MOVES):
        return _moved(node, operands)
    arrays = [_array(value) for value in operands]
    if any(array is None for array in arrays):
        return None
    if isinstance(node, ops.ReduceProd) and node.type.size == 1 and _is_integer(node.type):
        return [(prod(arrays[0].flat),)]
    compute = _rule(node, operands)
    if compute is None:
        return None
    results = np.asarray(np.frompyfunc(compute, len(arrays), 1)(*arrays), object).reshape(-1)
    return None if any(number is None for number in results) else [tuple(results)]


def _rule(node: Node, operands: list[Any]) -> Callable[..., Number | None] | None:
    """Return what becomes of single elements."""
    if isinstance(node, ops.ConvertTo):
        return partial(_converted, kind=node.type.kind)
    if isinstance(node, ops.Modulo) and not node.type.kind.is_float:
        return partial(_remainder, fmod=node.fmod)
    has_floats = any(value.type.kind.is_float for value in operands)
    return (_BY_FLOATS if has_floats else _BY_INTEGERS).get(type(node))


def _is_integer(type: TensorType) -> bool:
    return type.kind.value in ("int64", "int32", "bool") and not type.is_open


def _is_foldable(type: TensorType) -> bool:
    is_float = type.kind.value in ("float32", "float64") and not type.is_open
    return is_float or _is_integer(type)


def numbers_of(value: Value) -> Sequence[Number] | None:
    """Return the numbers of an operand in row-major order; None if only a run determines them."""
    if isinstance(value, OpenNumbers):
        return value.numbers
    if not isinstance(value, Constant):
        return None
    numbers = value.array.reshape(-1).tolist()
    if not value.type.kind.is_float:
        return list(numbers)
    ratios = [ratio.ratio_of(number) for number in numbers]
    known = [each for each in ratios if each is not None]
    return known if len(known) == len(numbers) else None


def _array(value: Value) -> Any:
    numbers = numbers_of(value)
    if numbers is None:
        return None
    array = np.empty(len(numbers), object)
    array[:] = numbers
    return array.reshape(value.type.shape)


def _moved(node: Node, operands: list[Any]) -> list[tuple[Number, ...]] | None:
    """Return what *node* makes of its operands, by sending the places of their elements through."""
    found: list[Number] = []
    places: list[Any] = []
    for operand in operands:
        if isinstance(node, ops.Gather) and operand is node.indices:
            if not isinstance(operand, Constant):
                return None
            places.append(operand.array)
            continue
        parts = []
        for value in operand if isinstance(operand, tuple) else (operand,):
            numbers = numbers_of(value)
            if numbers is None:
                return None
            ids = np.arange(len(found), len(found) + len(numbers)).reshape(value.type.shape)
            parts.append(ids)
            found += numbers
        places.append(tuple(parts) if isinstance(operand, tuple) else parts[0])
    result = node.evaluate(*places)
    results = result if isinstance(result, tuple) else (result,)
    return [tuple(found[int(place)] for place in part.reshape(-1)) for part in results]
