"""Values with a valid part that a run determines: how the size of that part is passed on.

A node may read such a value if padding stays behind what counts and touches nothing that does:
functions of single elements, moves of whole slices, and gathers by indices that are padded with
zeros. Everything else would compute with padding, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops import (
    Broadcast,
    Concat,
    Gather,
    GatherND,
    Reshape,
    Slice,
    Split,
    Transpose,
)


@dataclass(frozen=True)
class Count:
    """The size of the valid part of a value: the first slices along an axis.

    Attributes:
        number: The number, an int64.
        axis: The axis.
    """

    number: Value
    axis: int


Counts = Mapping[Value, Count]


def count_after(node: Node, counts: Counts) -> Count | None:
    """Return what of the results of *node* counts; None if they would mix in padding.

    At least one operand is in *counts*. All operands that are must have the same number.
    """
    counted = [value for value in operands_of(node) if value in counts]
    numbers = {counts[value].number for value in counted}
    if len(numbers) > 1:
        return None
    axis = _axis_after(node, {value: counts[value].axis for value in counted})
    return None if axis is None else Count(numbers.pop(), axis)


def _axis_after(node: Node, axes: Mapping[Value, int]) -> int | None:
    match node:
        case Transpose(input=x, permutation=permutation):
            return permutation.index(axes[x])
        case Reshape(input=x, shape=shape):
            return same_dimension(x.type.shape, axes[x], shape)
        case Slice(input=x, starts=starts, stops=stops, steps=steps):
            axis = axes[x]
            is_whole = (starts[axis], stops[axis], steps[axis]) == (0, x.type.shape[axis], 1)
            return axis if is_whole else None
        case Split(input=x, axis=axis):
            return axes[x] if axis != axes[x] else None
        case Concat(inputs=inputs, axis=axis):
            found = {axes.get(x) for x in inputs}
            only = found.pop()
            return None if found or only == axis else only
        case Broadcast(input=x, shape=shape):
            return axes[x] if shape[axes[x]] == x.type.shape[axes[x]] else None
        case Gather(input=x, indices=indices, axis=axis):
            return _axis_after_gather(x, indices, axis, axes)
        case GatherND(input=x, indices=indices, batch_dims=0) if x not in axes:
            return axes[indices] if axes[indices] < indices.type.rank - 1 else None
    return _axis_of_elements(node, axes) if node.data_parallel else None


def _axis_after_gather(
    x: Value, indices: Value, axis: int, axes: Mapping[Value, int]
) -> int | None:
    if x not in axes:
        return axis + axes[indices]
    if indices in axes or axis == axes[x]:
        return None
    return axes[x] + (indices.type.rank - 1 if axis < axes[x] else 0)


def _axis_of_elements(node: Node, axes: Mapping[Value, int]) -> int | None:
    """Return the one axis that is counted; the other operands must have size 1 there."""
    axis, *others = set(axes.values())
    fits = (
        x.type.shape[axis] == (node.type.shape[axis] if x in axes else 1) for x in operands_of(node)
    )
    return axis if not others and all(fits) else None


def same_dimension(shape: tuple[int, ...], axis: int, other: tuple[int, ...]) -> int | None:
    """Return the dimension of *other* that is the one along *axis* of *shape*.

    Among several neighbouring axes of size 1 it is ambiguous.
    """
    before = prod(shape[:axis])
    found = [
        index
        for index, size in enumerate(other)
        if size == shape[axis] and prod(other[:index]) == before
    ]
    return found[0] if len(found) == 1 else None
