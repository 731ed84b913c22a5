"""Push transposes towards the outputs, where they meet their inverses and cancel (paper 5.3).

An ONNX network is NCHW; the importer puts a transpose before and after every operator that wants
channels last. Sinking each below its reader brings neighbours together::

    %a = transpose(%x) {permutation = [0, 3, 1, 2]}        ->  %r = relu(%x)
    %r = relu(%a)                                              // readers of %t read %r
    %t = transpose(%r) {permutation = [0, 2, 3, 1]}
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value
from glow_nb.hlir.ops import (
    ArgMax,
    ArgMin,
    BatchNormalization,
    Broadcast,
    Concat,
    CumSum,
    LogSoftmax,
    Pad,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reshape,
    Slice,
    Softmax,
    Split,
    Tile,
    Transpose,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import Permutation, compose, inverse, moves_nothing, permute
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.schema import map_operands, operands_of


@register_pass
def sink_transposes(function: Function) -> Function:
    """Sink transposes below their readers, merge neighbours and drop those that move nothing."""
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if isinstance(node, Transpose):
        return _simplify(node, rewriter)
    if node.predicate is not None:
        return None  # a predicate speaks of axis 0, which the transpose may move
    if node.data_parallel:
        return _sink_below_data_parallel(node, rewriter)
    if isinstance(node, Concat):
        return _sink_below_concat(node, rewriter)
    sink = _SINKS.get(type(node))
    source = next(operands_of(node), None)
    if sink is None or not isinstance(source, Transpose):
        return None
    return sink(node, source, rewriter)


def _simplify(node: Transpose, rewriter: Rewriter) -> Replacement:
    if isinstance(node.input, Transpose):
        merged = compose(node.input.permutation, node.permutation)
        if merged == tuple(range(len(merged))):
            return node.input.input
        return rewriter.emit(Transpose(node.input.input, permutation=merged))
    if moves_nothing(node.input.type.shape, node.permutation):
        return rewriter.emit(Reshape(node.input, shape=node.type.shape))
    return None


def _sink_below_data_parallel(node: Node, rewriter: Rewriter) -> Replacement:
    """``f(T(x), T(y), constant)`` becomes ``T(f(x, y, T'(constant)))``."""
    permutation = _common_permutation(list(operands_of(node)), node.type.rank)
    if permutation is None:
        return None
    inner = map_operands(node, lambda v: _untransposed(v, permutation, rewriter))
    return rewriter.emit(Transpose(rewriter.emit(inner), permutation=permutation))


def _common_permutation(operands: list[Any], rank: int) -> Permutation | None:
    """Return the permutation of all transposed operands, if moving it below them pays.

    The others are then transposed the other way. That is free for constants, and worth it if the
    others are smaller than the transposed ones, or as large but inputs of the function: their
    transpose is wanted elsewhere, too. (A tie between two computed values would go back and forth.)
    """
    transposed = [v for v in operands if isinstance(v, Transpose)]
    permutations = {v.permutation for v in transposed}
    if len(permutations) != 1:
        return None
    others = [v for v in operands if not isinstance(v, Transpose | Constant)]
    moved, gained = (sum(v.type.size_bytes for v in values) for values in (others, transposed))
    are_inputs = all(isinstance(v, Placeholder) for v in others)
    if moved > gained or (moved == gained and not are_inputs):
        return None
    permutation: Permutation = permutations.pop()
    return permutation if len(permutation) == rank else None


def _untransposed(value: Value, permutation: Permutation, rewriter: Rewriter) -> Value:
    if isinstance(value, Transpose):
        return value.input
    if value.type.size == 1 and set(value.type.shape) <= {1}:
        return value
    return rewriter.emit(Transpose(value, permutation=inverse(permutation)))


def _sink_below_concat(node: Concat, rewriter: Rewriter) -> Replacement:
    permutation = _common_permutation(list(node.inputs), node.type.rank)
    if permutation is None:
        return None
    values = tuple(_untransposed(v, permutation, rewriter) for v in node.inputs)
    inner = rewriter.emit(Concat(values, axis=permutation[node.axis]))
    return rewriter.emit(Transpose(inner, permutation=permutation))


def _over_axis(node: Any, source: Transpose, rewriter: Rewriter) -> Replacement:
    """An operator along one axis that keeps the shape: softmax, cumulative sum."""
    inner = dataclasses.replace(node, input=source.input, axis=source.permutation[node.axis])
    return rewriter.emit(Transpose(rewriter.emit(inner), permutation=source.permutation))


def _over_axes(node: Any, source: Transpose, rewriter: Rewriter) -> Replacement:
    """A reduction: ``reduce(T(x))`` becomes ``T'(reduce'(x))`` over the mapped axes."""
    axes = tuple(sorted(source.permutation[axis] for axis in node.axes))
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, axes=axes))
    return _transpose_rest(inner, node.keep_dims, axes, source.permutation, rewriter)


def _arg_reduction(node: Any, source: Transpose, rewriter: Rewriter) -> Replacement:
    axis = source.permutation[node.axis]
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, axis=axis))
    return _transpose_rest(inner, node.keep_dims, (axis,), source.permutation, rewriter)


def _transpose_rest(
    inner: Node,
    keep_dims: bool,
    axes: tuple[int, ...],
    permutation: Permutation,
    rewriter: Rewriter,
) -> Value:
    if keep_dims:
        return rewriter.emit(Transpose(inner, permutation=permutation))
    kept = [axis for axis in permutation if axis not in axes]
    ranks = {axis: rank for rank, axis in enumerate(sorted(kept))}
    rest = tuple(ranks[axis] for axis in kept)
    return rewriter.emit(Transpose(inner, permutation=rest))


def _batch_normalization(
    node: BatchNormalization, source: Transpose, rewriter: Rewriter
) -> Replacement:
    axis = source.permutation[node.channel_axis]
    inner = dataclasses.replace(node, input=source.input, channel_axis=axis)
    return rewriter.emit(Transpose(rewriter.emit(inner), permutation=source.permutation))


def _pad(node: Pad, source: Transpose, rewriter: Rewriter) -> Replacement:
    rank = node.type.rank
    back = inverse(source.permutation)
    pads = permute(node.pads[:rank], back) + permute(node.pads[rank:], back)
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, pads=pads))
    return rewriter.emit(Transpose(inner, permutation=source.permutation))


def _slice(node: Slice, source: Transpose, rewriter: Rewriter) -> Replacement:
    back = inverse(source.permutation)
    inner = dataclasses.replace(
        node,
        input=source.input,
        starts=permute(node.starts, back),
        stops=permute(node.stops, back),
        steps=permute(node.steps, back),
    )
    return rewriter.emit(Transpose(rewriter.emit(inner), permutation=source.permutation))


def _split(node: Split, source: Transpose, rewriter: Rewriter) -> Replacement:
    axis = source.permutation[node.axis]
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, axis=axis))
    return tuple(
        rewriter.emit(Transpose(part, permutation=source.permutation)) for part in inner.results
    )


def _tile(node: Tile, source: Transpose, rewriter: Rewriter) -> Replacement:
    repeats = permute(node.repeats, inverse(source.permutation))
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, repeats=repeats))
    return rewriter.emit(Transpose(inner, permutation=source.permutation))


def _broadcast(node: Broadcast, source: Transpose, rewriter: Rewriter) -> Replacement:
    shape = permute(node.shape, inverse(source.permutation))
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, shape=shape))
    return rewriter.emit(Transpose(inner, permutation=source.permutation))


def _reshape(node: Reshape, source: Transpose, rewriter: Rewriter) -> Replacement:
    """A reshape that only splits or merges axes commutes with a transpose of whole groups.

    ::

        %t = transpose(%x : <1 x 7 x 7 x 8>) {permutation = [0, 3, 1, 2]}
        %r = reshape(%t) {shape = [1, 2, 4, 7, 7]}
        ->
        %s = reshape(%x) {shape = [1, 7, 7, 2, 4]}
        %r = transpose(%s) {permutation = [0, 3, 4, 1, 2]}
    """
    groups = axis_groups(source.type.shape, node.shape)
    if groups is None:
        return None
    gathered = _gather_groups(source, [before for before, _ in groups], rewriter)
    if gathered is None:
        return None
    value, order = gathered
    sizes = [[node.shape[axis] for axis in after] for _, after in groups]
    shape = tuple(size for group in order for size in sizes[group])
    inner = rewriter.emit(Reshape(value, shape=shape))
    starts: dict[int, int] = {}
    position = 0
    for group in order:
        starts[group] = position
        position += len(sizes[group])
    permutation = tuple(
        starts[group] + index for group in range(len(groups)) for index in range(len(sizes[group]))
    )
    return rewriter.emit(Transpose(inner, permutation=permutation))


def _gather_groups(
    source: Transpose, groups: list[list[int]], rewriter: Rewriter
) -> tuple[Value, list[int]] | None:
    """Bring the axes of every merged group together in memory order.

    Returns the value and the order of the groups in it; None if no axis order of the untransposed
    value would differ from the transposed one.
    """
    axes_of = [[source.permutation[axis] for axis in group] for group in groups]
    order = sorted(range(len(groups)), key=lambda g: min(axes_of[g], default=-1))
    wanted = tuple(axis for group in order for axis in axes_of[group])
    if wanted == source.permutation:
        return None
    if wanted == tuple(range(len(wanted))):
        return source.input, order
    if all(len(group) <= 1 for group in groups):
        return None
    return rewriter.emit(Transpose(source.input, permutation=wanted)), order


def axis_groups(
    before: tuple[int, ...], after: tuple[int, ...]
) -> list[tuple[list[int], list[int]]] | None:
    """Cut both shapes into the finest runs of axes with equal products.

    Returns pairs of axis lists, or None if the shapes hold no elements.
    """
    if 0 in before or 0 in after:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) or j < len(after):
        left, right = [], []
        left_size = right_size = 1
        if i < len(before):
            left, left_size, i = [i], before[i], i + 1
        if j < len(after):
            right, right_size, j = [j], after[j], j + 1
        while left_size != right_size:
            if left_size < right_size:
                left_size *= before[i]
                left.append(i)
                i += 1
            else:
                right_size *= after[j]
                right.append(j)
                j += 1
        groups.append((left, right))
    return groups


_SINKS: dict[type[Node], Callable[[Any, Transpose, Rewriter], Replacement]] = {
    ArgMax: _arg_reduction,
    ArgMin: _arg_reduction,
    BatchNormalization: _batch_normalization,
    Broadcast: _broadcast,
    CumSum: _over_axis,
    LogSoftmax: _over_axis,
    Pad: _pad,
    ReduceMax: _over_axes,
    ReduceMean: _over_axes,
    ReduceMin: _over_axes,
    ReduceProd: _over_axes,
    ReduceSum: _over_axes,
    Reshape: _reshape,
    Slice: _slice,
    Softmax: _over_axis,
    Split: _split,
    Tile: _tile,
}
