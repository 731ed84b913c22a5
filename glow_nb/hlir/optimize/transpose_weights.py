"""Reorder the weights of a dense layer instead of the activations that it reads."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Any

from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import FullyConnected, MatMul, Reshape, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import Permutation, inverse
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def transpose_weights(function: Function) -> Function:
    """Undo a transpose between an activation and its flattening by permuting weight rows.

    Networks flatten NCHW tensors before their first dense layer; here the tensor is NHWC. The
    transpose must leave the axes that are not flattened alone, and the weights must be a constant
    that nothing else reads.

    ::

        %t = transpose(%x : <1 x 6 x 6 x 256>) {permutation = [0, 3, 1, 2]}
        %r = reshape(%t) {shape = [1, 9216]}
        %y = fully_connected(%r, %w, %b)
        ->
        %r = reshape(%x) {shape = [1, 9216]}
        %y = fully_connected(%r, %w', %b)     // w' is w in the order of x's elements
    """
    return rewrite(function, _rule, MatMul, FullyConnected)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case MatMul(lhs=Reshape(input=Transpose() as source), rhs=weights):
            fields = ("lhs", "rhs")
        case FullyConnected(input=Reshape(input=Transpose() as source), weights=weights):
            fields = ("input", "weights")
        case _:
            return None
    if weights.type.rank != 2 or source.predicate is not None:
        return None
    first = _first_flattened(source, weights.type.shape[0])
    array = array_of(weights)
    if first is None or array is None or rewriter.use_count(weights) > 1:
        return None
    local = tuple(axis - first for axis in source.permutation[first:])
    ordered = _reordered(array, source.type.shape[first:], inverse(local))
    flat = getattr(node, fields[0])
    changes: dict[str, Any] = {
        fields[0]: rewriter.emit(Reshape(source.input, shape=flat.shape)),
        fields[1]: rewriter.constant(f"{weights.name}_rows", ordered),
    }
    return rewriter.emit(dataclasses.replace(node, **changes))


def _reordered(array: Array, sizes: tuple[int, ...], order: Permutation) -> Array:
    """Return *array* with its rows, which count through *sizes*, in another *order* of these axes.

    Keeps the order in memory: a matrix that is a transposed view, as of many exporters, stays one.
    """
    last = len(order)
    if array.flags.f_contiguous:
        columns = array.T.reshape(array.shape[1], *sizes).transpose(
            0, *(1 + axis for axis in order)
        )
        return columns.reshape(array.T.shape).T
    return array.reshape(*sizes, array.shape[1]).transpose(*order, last).reshape(array.shape)


def _first_flattened(source: Transpose, inner_size: int) -> int | None:
    """Return the first of the trailing axes that make up *inner_size* and only they are moved."""
    shape, permutation = source.type.shape, source.permutation
    for first in range(len(shape)):
        if prod(shape[first:]) == inner_size and _stays_before(permutation, first):
            return first
    return None


def _stays_before(permutation: Permutation, first: int) -> bool:
    return permutation[:first] == tuple(range(first))
