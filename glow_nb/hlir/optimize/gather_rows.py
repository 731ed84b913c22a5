"""Take whole rows where all elements of a row are wanted from one place."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import Broadcast, Concat, GatherElements, GatherND, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

LEAST_ELEMENTS = 4
"""Shorter rows are not worth the list of their places."""


@register_pass
def gather_rows(function: Function) -> Function:
    """Replace a gather of elements whose indices are repeated along the last axes.

    Exporters write the selection of tokens and the reversal of sequences in this form.

    ::

        %wide = broadcast(%i : <2 x 5 x 1>) {shape = [2, 5, 64]}
        %g = gather_elements(%x : <2 x 9 x 64>, %wide) {axis = 1}
        ->
        %g = gather_nd(%x, %i) {batch_dims = 1}

    Axes before a row that are neither of the batch nor that of the gather get coordinates, too.
    """
    return rewrite(function, _rule, GatherElements)


def _rule(node: GatherElements, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or not node.type.size:
        return None
    shape, wanted = node.input.type.shape, node.indices.type.shape
    array = array_of(node.indices)
    end = len(shape)
    while (
        end > node.axis + 1
        and shape[end - 1] == wanted[end - 1]
        and _is_repeated(node.indices, array, end - 1)
    ):
        end -= 1
    if prod(wanted[end:]) < LEAST_ELEMENTS:
        return None
    batch = next((d for d in range(node.axis) if shape[d] != wanted[d]), node.axis)
    place = wanted[:end]
    if array is not None:
        own = array.reshape(*place, -1)[..., :1]  # of each row its first
        index: Value = rewriter.constant("index", own, is_weight=False)
    else:
        index = _of_rows(node.indices, place, rewriter)
    parts = [
        index if axis == node.axis else _numbers(axis, place, index, rewriter)
        for axis in range(batch, end)
    ]
    places = parts[0] if len(parts) == 1 else rewriter.emit(Concat(tuple(parts), axis=end))
    return rewriter.emit(GatherND(node.input, places, batch_dims=batch))


def _is_repeated(indices: Value, array: Array | None, axis: int) -> bool:
    """Return whether *indices* are the same all along *axis*."""
    if array is not None:
        return bool((array == array.take([0], axis=axis)).all())
    one = indices.input if isinstance(indices, Broadcast) else indices
    return one.type.shape[axis] == 1


def _of_rows(indices: Value, place: tuple[int, ...], rewriter: Rewriter) -> Value:
    """Return an index for each row, as a coordinate of its *place*."""
    one = indices.input if isinstance(indices, Broadcast) else indices
    known = one.type.shape[: len(place)]
    index = rewriter.emit(Reshape(one, (*known, 1)))
    return index if known == place else rewriter.emit(Broadcast(index, (*place, 1)))


def _numbers(axis: int, place: tuple[int, ...], index: Value, rewriter: Rewriter) -> Value:
    """Return the coordinate of each row along *axis*, which is that of its own place."""
    numbers = np.arange(place[axis]).reshape(-1, *(1,) * (len(place) - axis))
    whole = np.broadcast_to(numbers, (*place, 1)).astype(index.type.kind.dtype)
    return rewriter.constant("place", whole, is_weight=False)
