"""Return whether the samples of a batch are independent, shown from the operators of a graph.

A graph for one sample is compared with the same graph for two. The axis along which a value of one
is twice as large as that of the other has the samples, called its rows. An operator keeps them
apart if each row of its result depends on the same row of its operands alone, whatever its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from glow_nb.base.schema import attributes_of, operands_of
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops.attention import Attention
from glow_nb.hlir.ops.reduction import ArgReduction, CumSum, Reduction, TopK

MOST_BYTES = 1 << 24
"""Constants of more bytes are not compared number by number."""


@dataclass(frozen=True)
class Rows:
    """Where rows lie in a value: row ``r`` has the places ``r * size`` and on, along ``axis``."""

    axis: int
    size: int


OfOperands = Sequence[Rows | None]
"""The rows of each operand; None for what is the same in both graphs, and belongs to no row."""

Rule = Callable[[Node, Node, OfOperands, Rows], bool]
"""Takes the nodes of both graphs, and the rows of their operands and of a result. Returns whether
the node keeps the rows apart."""


def keeps_rows_apart(one: Function, two: Function) -> bool:
    """Return whether *two*, a graph for two rows, is shown to compute what *one* does for each.

    False does not say that it does not.
    """
    ends = list(zip((*one.inputs, *one.outputs), (*two.inputs, *two.outputs), strict=False))
    if any(rows_of(a.type, b.type) != Rows(0, 1) for a, b in ends):
        return False
    if one.state or two.state or len(one.nodes) != len(two.nodes):
        return False
    walk = _Walk({b: a for a, b in ends})
    return all(walk.passes(a, b) for a, b in zip(one.nodes, two.nodes, strict=True))


def rows_of(one: TensorType, two: TensorType) -> Rows | None:
    """Return the rows of a value with these types for one row and for two; None for no rows."""
    if one.rank != two.rank or one.kind is not two.kind:
        return None
    pairs = enumerate(zip(one.shape, two.shape, strict=True))
    unlike = [(axis, a, b) for axis, (a, b) in pairs if a != b]
    if len(unlike) != 1 or unlike[0][2] != 2 * unlike[0][1]:
        return None
    return Rows(unlike[0][0], unlike[0][1])


class _Walk:
    """Goes through both graphs node by node, which must be the same but for sizes."""

    def __init__(self, twins: dict[Value, Value]) -> None:
        self._twins = twins  # from a value of the graph for two rows to that for one

    def passes(self, one: Node, two: Node) -> bool:
        """Return whether the nodes are alike and keep rows apart."""
        operands = list(zip(operands_of(one), operands_of(two), strict=False))
        if type(one) is not type(two) or len(operands_of(one)) != len(operands_of(two)):
            return False
        if one.predicate is not None or not all(self._are_twins(a, b) for a, b in operands):
            return False
        rows = [rows_of(a.type, b.type) for a, b in operands]
        if any(r is None and a.type != b.type for r, (a, b) in zip(rows, operands, strict=True)):
            return False
        self._twins.update(zip(two.results, one.results, strict=True))
        types = zip(one.result_types, two.result_types, strict=True)
        return all(_is_kept(one, two, rows, a, b) for a, b in types)

    def _are_twins(self, one: Value, two: Value) -> bool:
        if isinstance(one, Constant) and isinstance(two, Constant):
            return _have_equal_rows(one, two)
        return self._twins.get(two) == one  # each look at a result makes another object


def _have_equal_rows(one: Constant, two: Constant) -> bool:
    """Return whether constants are the same, or all rows of *two* are those of *one*."""
    if one is two or (one.type == two.type and one.payload is two.payload):
        return True
    if max(one.type.size_bytes, two.type.size_bytes) > MOST_BYTES:
        return False
    rows = rows_of(one.type, two.type)
    if rows is None:
        return one.type == two.type and _are_same(one.array, two.array)
    halves = np.split(two.array, 2, rows.axis)
    return all(_are_same(one.array, half) for half in halves)


def _are_same(left: Array, right: Array) -> bool:
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


def _is_kept(one: Node, two: Node, rows: OfOperands, first: TensorType, second: TensorType) -> bool:
    """Return whether the nodes keep rows apart in a result, of the types *first* and *second*."""
    result = rows_of(first, second)
    if result is None:
        has_none = not any(rows) and first == second
        return has_none and attributes_of(one) == attributes_of(two)
    rule = _elementwise if one.data_parallel else RULES.get(type(one), _along_other_axes)
    return rule(one, two, rows, result)


def _elementwise(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    operands = zip(operands_of(one), rows, strict=True)
    fits = all(r is None or (r == result and o.type.rank == one.type.rank) for o, r in operands)
    return fits and attributes_of(one) == attributes_of(two)


def _along_other_axes(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    """An operator that works along other axes; further operands are the same for each row."""
    mixed = MIXED.get(type(one))
    first = rows[0] if rows else None
    if mixed is None or first is None or any(rows[1:]) or first.size != result.size:
        return False
    axes = set(mixed(one))
    removed = one.type.rank < operands_of(one)[0].type.rank
    before = sum(axis < first.axis for axis in axes) if removed else 0
    return (
        first.axis not in axes
        and result.axis == first.axis - before
        and attributes_of(one) == attributes_of(two)
    )


def _images(node: Node) -> Iterable[int]:
    return range(1, node.type.rank)


def _axis(node: Node) -> Iterable[int]:
    assert isinstance(node, ops.Softmax | ops.LogSoftmax | ArgReduction | CumSum | TopK | ops.Split)
    return (node.axis,)


def _axes(node: Node) -> Iterable[int]:
    assert isinstance(node, Reduction | ops.Moments)
    return node.axes


def _from_axis(node: Node) -> Iterable[int]:
    assert isinstance(node, ops.LayerNormalization)
    return range(node.axis, node.input.type.rank)


def _channels(node: Node) -> Iterable[int]:
    assert isinstance(node, ops.BatchNormalization)
    return (node.channel_axis,)


def _padded(node: Node) -> Iterable[int]:
    assert isinstance(node, ops.Pad)
    rank = node.input.type.rank
    return (axis for axis in range(rank) if node.pads[axis] or node.pads[axis + rank])


MIXED: dict[type[Node], Callable[[Node], Iterable[int]]] = {
    **dict.fromkeys(
        (ops.Convolution, ops.TransposedConvolution, ops.MaxPool, ops.AvgPool), _images
    ),
    **dict.fromkeys((ops.Softmax, ops.LogSoftmax, CumSum, TopK, ops.ArgMax, ops.ArgMin), _axis),
    **dict.fromkeys((ops.ReduceSum, ops.ReduceMean, ops.ReduceMax, ops.ReduceMin), _axes),
    **dict.fromkeys((ops.ReduceProd, ops.Moments), _axes),
    ops.LocalResponseNormalization: _images,
    ops.LayerNormalization: _from_axis,
    ops.GroupNormalization: _images,
    ops.BatchNormalization: _channels,
    ops.Split: _axis,
    ops.Pad: _padded,
}
"""Operators that work along some axes of their first operand: which these are."""


def _product(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    """``lhs`` has the rows outside of what is summed, and ``rhs`` has none, or both have them."""
    lhs, rhs, rank = rows[0], rows[1], one.type.rank
    if any(rows[2:]) or lhs != result:
        return False
    if rhs is None:
        return result.axis < rank - 1
    return rhs == result and result.axis < rank - 2


def _transpose(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    assert isinstance(one, ops.Transpose)
    return rows[0] == Rows(one.permutation[result.axis], result.size)


def _reshape(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    """As many numbers come before a row of the result as before one of the operand."""
    assert isinstance(one, ops.Reshape)
    first, shape = rows[0], one.input.type.shape
    return first is not None and prod(shape[: first.axis]) == prod(one.shape[: result.axis])


def _concat(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    assert isinstance(one, ops.Concat)
    return one.axis != result.axis and all(each == result for each in rows)


def _slice(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    """All rows are taken, in their order, and the same part of each."""
    assert isinstance(one, ops.Slice)
    assert isinstance(two, ops.Slice)

    def others(node: ops.Slice) -> list[tuple[int, ...]]:
        parts = list(zip(node.starts, node.stops, node.steps, strict=True))
        return [*parts[: result.axis], *parts[result.axis + 1 :]]

    axis = result.axis
    is_whole = (one.starts[axis], two.starts[axis], one.steps[axis], two.steps[axis]) == (
        0,
        0,
        1,
        1,
    )
    return rows[0] == result and is_whole and others(one) == others(two)


def _broadcast(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    return rows[0] in (None, result) and operands_of(one)[0].type.rank == one.type.rank


def _gather(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    assert isinstance(one, ops.Gather)
    data, indices = rows
    if attributes_of(one) != attributes_of(two):
        return False
    if data is None:
        return indices is not None and result == Rows(one.axis + indices.axis, indices.size)
    if indices is not None or data.axis == one.axis:
        return False
    after = one.indices.type.rank - 1 if data.axis > one.axis else 0
    return result == Rows(data.axis + after, data.size)


def _attention(one: Node, two: Node, rows: OfOperands, result: Rows) -> bool:
    """Each sample of queries, keys, values and masks is a row, or the mask is the same for all."""
    is_batch = all(each == result for each in rows[:3]) and result == Rows(0, 1)
    return is_batch and set(rows[3:]) <= {None, result} and attributes_of(one) == attributes_of(two)


RULES: dict[type[Node], Rule] = {
    ops.MatMul: _product,
    ops.FullyConnected: _product,
    ops.Transpose: _transpose,
    ops.Reshape: _reshape,
    ops.Concat: _concat,
    ops.Slice: _slice,
    ops.Broadcast: _broadcast,
    ops.Gather: _gather,
    Attention: _attention,
}
"""Operators that move rows, or take them from several operands."""
