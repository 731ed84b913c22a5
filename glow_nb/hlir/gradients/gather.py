"""Gradients of reading at places: what was read several times gets the sum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.gather import Gather, GatherElements, GatherND
from glow_nb.hlir.ops.scatter import ScatterElements, ScatterND
from glow_nb.hlir.ops.shape import Concat, Reshape, Transpose
from glow_nb.hlir.permutation import inverse, permute
from glow_nb.hlir.rules import OperandGradients, gradient


@gradient(Gather)
def gather_gradient(node: Gather, upstream: Value, builder: Backward) -> OperandGradients:
    """Slices of the gradient are added up at the places that they were read from."""
    type, shape = node.input.type, node.indices.type.shape
    rows = builder.emit(Reshape(node.indices, (*shape, 1)))
    named = tuple(range(node.axis, node.axis + len(shape)))
    rest = (axis for axis in range(upstream.type.rank) if axis not in named)
    updates = _transposed(upstream, (*named, *rest), builder)
    order = (node.axis, *(axis for axis in range(type.rank) if axis != node.axis))
    zeros = builder.filled(type.with_shape(permute(type.shape, order)), 0.0)
    sums = builder.emit(ScatterND(zeros, rows, updates, "add"))
    return {"input": _transposed(sums, inverse(order), builder)}


def _transposed(value: Value, order: tuple[int, ...], builder: Backward) -> Value:
    is_same = order == tuple(sorted(order))
    return value if is_same else builder.emit(Transpose(value, order))


@gradient(GatherElements)
def gather_elements_gradient(
    node: GatherElements, upstream: Value, builder: Backward
) -> OperandGradients:
    """Elements of the gradient are added up at the places that they were read from."""
    zeros = builder.filled(node.input.type, 0.0)
    sums = ScatterElements(zeros, node.indices, upstream, node.axis, "add")
    return {"input": builder.emit(sums)}


@gradient(GatherND)
def gather_nd_gradient(node: GatherND, upstream: Value, builder: Backward) -> OperandGradients:
    """Slices of the gradient are added up at the places that they were read from."""
    zeros = builder.filled(node.input.type, 0.0)
    places = node.indices
    if node.batch_dims:
        places = builder.emit(
            Concat((*_batch_places(node, builder), places), node.indices.type.rank - 1)
        )
    return {"input": builder.emit(ScatterND(zeros, places, upstream, "add"))}


def _batch_places(node: GatherND, builder: Backward) -> Iterator[Value]:
    """Yield, for each axis of the batch, which element of it each slice is read from."""
    type = node.indices.type
    shape = (*type.shape[:-1], 1)
    for axis in range(node.batch_dims):
        own = tuple(n if i == axis else 1 for i, n in enumerate(shape))
        numbers = np.arange(shape[axis], dtype=type.kind.dtype).reshape(own)
        yield builder.emit(Broadcast(builder.constant("batch", numbers), shape))
