"""Compute only the channels that are read, in the order in which they are read."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.index_ranges import whole
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import (
    AvgPool,
    Convolution,
    FullyConnected,
    Gather,
    MatMul,
    MaxPool,
    Slice,
)
from glow_nb.hlir.ops.gather import clamped
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

MAX_GROWTH = 1.125
"""More channels than there were are computed only if they are so many times as many at most."""


@register_pass
def hoist_channel_gathers(function: Function) -> Function:
    """Select rows of a filter, or columns of a matrix, instead of channels of the result.

    A gather of known places along the last axis, or a slice of it, moves up through elementwise
    operators and pools to the convolution or product, if nothing else reads the values in between.
    A convolution keeps its groups: the same number of channels must be selected in each group, in
    order of the groups.

    ::

        %c = convolution(%x, %w : <8 x 1 x 1 x 3>, %b) {group = 1, ...}
        %r = relu(%c)
        %g = gather(%r, %places : int64<2>) {axis = 3}
        ->
        %c = convolution(%x, %w' : <2 x 1 x 1 x 3>, %b') {group = 1, ...}
        %g = relu(%c)
    """
    return rewrite(function, _rule, Gather, Slice)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or not isinstance(node, Gather | Slice):
        return None
    places = _places(node)
    return None if places is None else _computed(node.input, places, rewriter)


def _computed(value: Value, places: Array, rewriter: Rewriter) -> Value | None:
    """Emit what computes *places* of the last axis of *value* alone; None if that is wrong."""
    if not isinstance(value, Node) or value.predicate is not None:
        return None
    if rewriter.use_count(value) != 1 or places.size > MAX_GROWTH * value.type.shape[-1]:
        return None
    match value:
        case Convolution():
            return _hoist_above_convolution(value, places, rewriter)
        case MatMul() | FullyConnected():
            return _hoist_above_product(value, places, rewriter)
        case AvgPool() | MaxPool() if _reaches_weights(value.input, rewriter):
            taken = _channels(value.input, places, rewriter)
            return rewriter.emit(dataclasses.replace(value, input=taken))
        case _ if value.data_parallel and _reaches_weights(value, rewriter):
            return _hoist_above_elementwise(value, places, rewriter)
    return None


def _channels(value: Value, places: Array, rewriter: Rewriter) -> Value:
    """Emit *places* of the last axis of *value*, taken as far up as that is right."""
    found = _computed(value, places, rewriter)
    return _take(value, places, -1, rewriter) if found is None else found


def _reaches_weights(value: Value, rewriter: Rewriter) -> bool:
    """Return whether *value* follows a convolution or product that can do without some channels."""
    while isinstance(value, Node) and rewriter.use_count(value) == 1 and value.predicate is None:
        if isinstance(value, Convolution | FullyConnected | MatMul):
            return True
        if not (value.data_parallel or isinstance(value, AvgPool | MaxPool)):
            return False
        varying = [operand for operand in operands_of(value) if not isinstance(operand, Constant)]
        if len(varying) != 1:
            return False
        value = varying[0]
    return False


def _places(node: Gather | Slice) -> Array | None:
    """Return the places of the last axis that *node* takes, None if it does anything else."""
    shape = node.input.type.shape
    if not shape or shape[-1] == 0:
        return None
    if isinstance(node, Gather):
        indices = array_of(node.indices)
        if indices is None or indices.ndim != 1 or node.axis != len(shape) - 1:
            return None
        return np.asarray(clamped(indices, shape[-1]))
    *before, last = node.ranges
    is_whole = all(taken == whole(size) for taken, size in zip(before, shape[:-1], strict=True))
    return np.array(last, np.int64) if is_whole and isinstance(last, range) and last else None


def _take(value: Value, places: Array, axis: int, rewriter: Rewriter) -> Value:
    """Emit *places* of one axis of *value*."""
    indices = rewriter.constant("places", places)
    return rewriter.emit(Gather(value, indices, axis=axis % value.type.rank))


def _hoist_above_convolution(node: Convolution, places: Array, rewriter: Rewriter) -> Value | None:
    depth, channels, group = node.filter.type.shape[0], node.input.type.shape[-1], node.group
    if not _has_constants(node.filter, node.bias):
        return None
    changes: dict[str, Any] = {
        "filter": _take(node.filter, places, 0, rewriter),
        "bias": _take(node.bias, places, 0, rewriter),
    }
    if 1 < group == channels == depth:  # each channel is a group, and goes where its result goes
        changes |= {"input": _channels(node.input, places, rewriter), "group": places.size}
    elif places.size % group or not _keeps_groups(places, group, depth // group):
        return None
    return rewriter.emit(dataclasses.replace(node, **changes))


def _keeps_groups(places: Array, group: int, size: int) -> bool:
    numbers = np.repeat(np.arange(group), places.size // group)
    return bool(np.array_equal(places // size, numbers))


def _hoist_above_product(
    node: MatMul | FullyConnected, places: Array, rewriter: Rewriter
) -> Value | None:
    if isinstance(node, MatMul):
        if not _has_constants(node.rhs):
            return None
        taken = _take(node.rhs, places, -1, rewriter)
        return rewriter.emit(dataclasses.replace(node, rhs=taken))
    if not _has_constants(node.weights, node.bias):
        return None
    weights, bias = (_take(value, places, -1, rewriter) for value in (node.weights, node.bias))
    return rewriter.emit(dataclasses.replace(node, weights=weights, bias=bias))


def _has_constants(*values: Value) -> bool:
    return all(isinstance(value, Constant) for value in values)


def _hoist_above_elementwise(node: Node, places: Array, rewriter: Rewriter) -> Value | None:
    """Gather the one operand that varies along the channels and is no constant, and constants."""
    size = node.type.shape[-1]
    varying = [value for value in operands_of(node) if not isinstance(value, Constant)]
    if len(varying) != 1 or varying[0].type != node.type.with_shape(varying[0].type.shape):
        return None
    if varying[0].type.shape[-1] != size:
        return None

    def taken(value: Any) -> Any:
        if not isinstance(value, Value) or value.type.shape[-1] != size:
            return value
        if value is varying[0]:
            return _channels(value, places, rewriter)
        return _take(value, places, -1, rewriter)

    inner: Node = map_operands(node, taken)
    return rewriter.emit(inner)
