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
from functools import cached_property
from typing import Any

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Constant, Function, Node, Placeholder, Value, producer_of
from glow_nb.hlir.ops import (
    ArgMax,
    ArgMin,
    AsQuantized,
    AvgPool,
    BatchNormalization,
    Broadcast,
    Concat,
    Convolution,
    CumSum,
    Gather,
    GroupNormalization,
    IntLookupTable,
    LogSoftmax,
    MaxPool,
    Moments,
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
    Stored,
    Tile,
    Transpose,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import (
    Permutation,
    axis_groups,
    compose,
    inverse,
    moves_nothing,
    permute,
)
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

Shape = tuple[int, ...]

MAX_DISTANCE = 8
"""How far below a node its inverse is looked for."""


@register_pass
def sink_transposes(function: Function) -> Function:
    """Sink transposes below their readers, merge neighbouring ones, and drop those that move
    nothing.
    """
    below = _Below(function)
    return rewrite(function, lambda node, rewriter: _rule(node, rewriter, below))


class _Below:
    """Looks from a node towards the outputs, in the function as it was when the pass began."""

    def __init__(self, function: Function) -> None:
        self._function = function

    @cached_property
    def _readers(self) -> dict[str, list[Node]]:
        """The readers of each node, by its name: what replaces a node keeps it."""
        readers: dict[str, list[Node]] = {}
        for value, nodes in self._function.users().items():
            producer = producer_of(value)
            if producer is not None:
                readers.setdefault(producer.name, []).extend(nodes)
        return readers

    def feeds_windows(self, pad: Pad) -> bool:
        """Return whether windows alone read *pad*: they pad if it stands right before them."""
        readers = self._readers.get(pad.name, [])
        return all(isinstance(reader, AvgPool | Convolution | MaxPool) for reader in readers)

    def is_undone(self, node: Node, permutation: Permutation) -> bool:
        """Return whether a transpose below *node*, to which *permutation* can sink, inverts it."""
        wanted, rank = inverse(permutation), len(permutation)
        seen = {node.name}
        waiting = [(node, 0)]
        for current, distance in waiting:
            for reader in self._readers.get(current.name, ()):
                if isinstance(reader, Transpose):
                    if reader.permutation == wanted:
                        return True
                elif reader.name not in seen and _keeps_axes(reader, rank):
                    seen.add(reader.name)
                    if distance < MAX_DISTANCE:
                        waiting.append((reader, distance + 1))
        return False


def _keeps_axes(node: Node, rank: int) -> bool:
    """Return whether a transpose of all axes that sinks below *node* stays the same."""
    if node.predicate is not None or any(type.rank != rank for type in node.result_types):
        return False
    is_sink = isinstance(node, AsQuantized | Concat | Stored) or type(node) in _SINKS
    return node.data_parallel or is_sink


def _rule(node: Node, rewriter: Rewriter, below: _Below) -> Replacement:
    if isinstance(node, Transpose):
        return _simplify(node, rewriter)
    if node.predicate is not None:
        return None  # a predicate speaks of axis 0, which the transpose may move
    if node.data_parallel or isinstance(node, AsQuantized | Stored):
        return _sink_below_data_parallel(node, rewriter)
    if isinstance(node, Concat):
        return _sink_below_concat(node, rewriter)
    if isinstance(node, Reshape):
        return _sink_below_reshape(node, rewriter, below)
    if isinstance(node, Pad) and below.feeds_windows(node):
        return None
    sink = _SINKS.get(type(node))
    source = next(iter(operands_of(node)), None)
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
    """Return the permutation of all transposed operands, if it is useful to move it below them.

    The others are then transposed by the inverse. That is free for constants, and worth it if the
    others are smaller than the transposed ones, or as large but inputs of the function: their
    transpose is wanted elsewhere, too. (A tie between two computed values, or between two inputs,
    would go back and forth.)
    """
    transposed = [v for v in operands if isinstance(v, Transpose)]
    permutations = {v.permutation for v in transposed}
    if len(permutations) != 1:
        return None
    others = [v for v in operands if not isinstance(v, Transpose | Constant)]
    moved, gained = (
        hinted(sum(v.type.size_bytes for v in values)) for values in (others, transposed)
    )
    are_inputs = all(isinstance(v, Placeholder) for v in others)
    breaks_tie = are_inputs and not all(isinstance(v.input, Placeholder) for v in transposed)
    if moved > gained or (moved == gained and not breaks_tie):
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


def _gather(node: Gather, source: Transpose, rewriter: Rewriter) -> Replacement:
    """A list of places along one axis, as in the enlargement of an image."""
    return _over_axis(node, source, rewriter) if node.indices.type.rank == 1 else None


def _look_up(node: IntLookupTable, source: Transpose, rewriter: Rewriter) -> Replacement:
    """A table that is looked up in is not transposed."""
    inner = rewriter.emit(dataclasses.replace(node, input=source.input))
    return rewriter.emit(Transpose(inner, permutation=source.permutation))


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
    node: BatchNormalization | GroupNormalization, source: Transpose, rewriter: Rewriter
) -> Replacement:
    axis = source.permutation[node.channel_axis]
    inner = dataclasses.replace(node, input=source.input, channel_axis=axis)
    return rewriter.emit(Transpose(rewriter.emit(inner), permutation=source.permutation))


def _group_normalization(
    node: GroupNormalization, source: Transpose, rewriter: Rewriter
) -> Replacement:
    """Samples stay the first axis."""
    return _batch_normalization(node, source, rewriter) if source.permutation[0] == 0 else None


def _moments(node: Moments, source: Transpose, rewriter: Rewriter) -> Replacement:
    axes = tuple(sorted(source.permutation[axis] for axis in node.axes))
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, axes=axes))
    return _transposed(inner, source.permutation, rewriter)


def _transposed(node: Node, permutation: Permutation, rewriter: Rewriter) -> tuple[Value, ...]:
    return tuple(rewriter.emit(Transpose(value, permutation=permutation)) for value in node.results)


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
    return _transposed(inner, source.permutation, rewriter)


def _tile(node: Tile, source: Transpose, rewriter: Rewriter) -> Replacement:
    repeats = permute(node.repeats, inverse(source.permutation))
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, repeats=repeats))
    return rewriter.emit(Transpose(inner, permutation=source.permutation))


def _broadcast(node: Broadcast, source: Transpose, rewriter: Rewriter) -> Replacement:
    shape = permute(node.shape, inverse(source.permutation))
    inner = rewriter.emit(dataclasses.replace(node, input=source.input, shape=shape))
    return rewriter.emit(Transpose(inner, permutation=source.permutation))


def _sink_below_reshape(node: Reshape, rewriter: Rewriter, below: _Below) -> Replacement:
    """A reshape that only splits or merges axes commutes with a transpose of whole groups.

    ::

        %t = transpose(%x : <1 x 7 x 7 x 8>) {permutation = [0, 3, 1, 2]}
        %r = reshape(%t) {shape = [1, 2, 4, 7, 7]}
        ->
        %s = reshape(%x) {shape = [1, 7, 7, 2, 4]}
        %r = transpose(%s) {permutation = [0, 3, 4, 1, 2]}

    Axes that are merged are brought together by a transpose first; that pays only if the one
    afterwards meets its inverse.
    """
    if not isinstance(node.input, Transpose):
        return None
    whole = (node.input.input.type.shape, node.input.permutation)
    for sizes, moved in (whole, _without_ones(*whole)):
        found = _sink_groups(node, sizes, moved, rewriter, below)
        if found is not None:
            return found
    return None


def _sink_groups(
    node: Reshape, sizes: Shape, moved: Permutation, rewriter: Rewriter, below: _Below
) -> Replacement:
    """Sink what permutes *sizes* as *moved* says below *node*, if it moves groups as a whole."""
    groups = axis_groups(permute(sizes, moved), node.shape)
    if groups is None:
        return None
    axes_of = [[moved[axis] for axis in before] for before, _ in groups]
    order = sorted(range(len(groups)), key=lambda g: min(axes_of[g], default=-1))
    wanted = tuple(axis for group in order for axis in axes_of[group])
    permutation = _unordered([len(after) for _, after in groups], order)
    if wanted == moved:
        return None
    value: Value = node.input.input  # type: ignore[attr-defined]
    if wanted != tuple(range(len(wanted))):
        if not below.is_undone(node, permutation):
            return None
        value = rewriter.emit(Transpose(rewriter.emit(Reshape(value, sizes)), wanted))
    shape = tuple(node.shape[axis] for group in order for axis in groups[group][1])
    return rewriter.emit(Transpose(rewriter.emit(Reshape(value, shape=shape)), permutation))


def _without_ones(shape: Shape, permutation: Permutation) -> tuple[Shape, Permutation]:
    """Return the sizes that *permutation* permutes, and how, without the axes of size 1."""
    kept = [axis for axis in range(len(shape)) if shape[axis] != 1]
    numbers = {axis: number for number, axis in enumerate(kept)}
    moved = tuple(numbers[axis] for axis in permutation if axis in numbers)
    return tuple(shape[axis] for axis in kept), moved


def _unordered(sizes: list[int], order: list[int]) -> Permutation:
    """Return the permutation that puts groups of *sizes* axes, which stand in *order*, in line."""
    starts: dict[int, int] = {}
    position = 0
    for group in order:
        starts[group] = position
        position += sizes[group]
    return tuple(starts[group] + index for group, size in enumerate(sizes) for index in range(size))


_SINKS: dict[type[Node], Callable[[Any, Transpose, Rewriter], Replacement]] = {
    ArgMax: _arg_reduction,
    ArgMin: _arg_reduction,
    BatchNormalization: _batch_normalization,
    GroupNormalization: _group_normalization,
    Broadcast: _broadcast,
    CumSum: _over_axis,
    Gather: _gather,
    IntLookupTable: _look_up,
    LogSoftmax: _over_axis,
    Moments: _moments,
    Pad: _pad,
    ReduceMax: _over_axes,
    ReduceMean: _over_axes,
    ReduceMin: _over_axes,
    ReduceProd: _over_axes,
    ReduceSum: _over_axes,
    Slice: _slice,
    Softmax: _over_axis,
    Split: _split,
    Tile: _tile,
}
