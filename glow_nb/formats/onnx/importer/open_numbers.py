"""Tensors of sizes that are known only when the network runs: shapes on their way to a Reshape."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np

from glow_nb.base.schema import operand_specs
from glow_nb.base.size import Size, bounds, same
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value


@dataclass(frozen=True, eq=False, repr=False)
class OpenNumbers(Value):
    """A small tensor of integers some of which are open sizes.

    It is part of no graph: what a node would make of it is computed when the model is imported.

    Attributes:
        name: What errors call it.
        type: The type of the numbers.
        numbers: The numbers, in row-major order.
    """

    name: str
    type: TensorType
    numbers: tuple[int, ...]

    def refuse(self) -> NoReturn:
        """Raise OpenSizeError about the first of its sizes: numbers are needed."""
        raise_open(*self.numbers)


def _quotient(left: int, right: int) -> int:
    """Return the quotient as ONNX has it, rounded towards zero."""
    if bounds(left)[0] < 0 or bounds(right)[0] < 1:
        left, right = operator.index(left), operator.index(right)
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0
    return left // right


def _rest(left: int, right: int) -> int:
    """Return the remainder; both of its definitions agree where nothing is negative."""
    if bounds(left)[0] < 0 or bounds(right)[0] < 1:
        raise_open(left, right)
    return left % right


def _converted(number: int, kind: ElementKind) -> int:
    """Return an open size as *kind*: whether it is not 0, or itself where the kind has it."""
    if kind is ElementKind.BOOL:
        return not same(number, 0)
    least, greatest = bounds(number)
    numbers = np.iinfo(kind.dtype)
    if least < numbers.min or greatest > numbers.max:
        raise_open(number)
    return number


def raise_open(*numbers: int) -> NoReturn:
    """Raise OpenSizeError about the first of *numbers* that is an open size."""
    operator.index(next(n for n in numbers if isinstance(n, Size)))
    raise AssertionError


_BY_ELEMENTS: dict[type[Node], Callable[..., int]] = {
    ops.Add: operator.add,
    ops.Sub: operator.sub,
    ops.Mul: operator.mul,
    ops.Div: _quotient,
    ops.Modulo: _rest,
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

_MOVES = (
    *(ops.Broadcast, ops.Concat, ops.Reshape, ops.Slice, ops.Split, ops.Tile, ops.Transpose),
    ops.Gather,
)
"""Operators that move elements of all their operands, but for indices."""


def folded(node: Node) -> list[tuple[int, ...]] | None:
    """Return the numbers of each result of *node*, which reads open ones; None if no rule has it.

    Raises:
        OpenSizeError: It needs a number where there is an open size.
    """
    operands = [getattr(node, spec.name) for spec in operand_specs(type(node))]
    if any(v is None for v in operands) or any(not _is_integer(type) for type in node.result_types):
        return None
    if isinstance(node, ops.ConvertTo):
        numbers = _numbers(operands[0])
        if numbers is None:
            return None
        return [tuple(_converted(number, node.type.kind) for number in numbers)]
    if isinstance(node, _MOVES):
        return _moved(node, operands)
    if isinstance(node, ops.ReduceProd) and node.type.size == 1:
        return [(prod(_numbers(operands[0]) or ()),)]
    compute = _BY_ELEMENTS.get(type(node))
    arrays = [_array(value) for value in operands]
    if compute is None or any(array is None for array in arrays):
        return None
    results = np.frompyfunc(compute, len(arrays), 1)(*arrays)
    return [tuple(np.asarray(results, object).reshape(-1))]


def _is_integer(type: TensorType) -> bool:
    return type.kind.value in ("int64", "int32", "bool") and not type.is_open


def _numbers(value: Value) -> Sequence[int] | None:
    """Return the numbers of an operand in row-major order; None if only a run shows them."""
    if isinstance(value, OpenNumbers):
        return value.numbers
    return value.array.reshape(-1).tolist() if isinstance(value, Constant) else None


def _array(value: Value) -> Any:
    numbers = _numbers(value)
    if numbers is None:
        return None
    array = np.empty(len(numbers), object)
    array[:] = list(numbers)
    return array.reshape(value.type.shape)


def _moved(node: Node, operands: list[Any]) -> list[tuple[int, ...]] | None:
    """Return what *node* makes of its operands, by sending the places of their elements through."""
    found: list[int] = []
    places: list[Any] = []
    for operand in operands:
        if isinstance(node, ops.Gather) and operand is node.indices:
            if not isinstance(operand, Constant):
                return None
            places.append(operand.array)
            continue
        parts = []
        for value in operand if isinstance(operand, tuple) else (operand,):
            numbers = _numbers(value)
            if numbers is None:
                return None
            ids = np.arange(len(found), len(found) + len(numbers)).reshape(value.type.shape)
            parts.append(ids)
            found += numbers
        places.append(tuple(parts) if isinstance(operand, tuple) else parts[0])
    result = node.evaluate(*places)
    results = result if isinstance(result, tuple) else (result,)
    return [tuple(found[int(place)] for place in part.reshape(-1)) for part in results]
