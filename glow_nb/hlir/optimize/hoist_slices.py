"""Compute only the rows that are read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from glow_nb.base.schema import changed_operands, operands_of
from glow_nb.base.size import hinted
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.index_ranges import IndexRange, count_of, whole
from glow_nb.hlir.ops import (
    AvgPool,
    Concat,
    Convolution,
    FullyConnected,
    Gather,
    LayerNormalization,
    LogSoftmax,
    MatMul,
    MaxPool,
    Reshape,
    Slice,
    Softmax,
    Transpose,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import axis_groups, inverse, permute
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

Ranges = tuple[IndexRange, ...]

MAX_DISTANCE = 12
"""How far above a slice something is looked for that becomes cheaper by it."""


@register_pass
def hoist_slices(function: Function) -> Function:
    """Cut the operands of a product or normalization instead of its result.

    A slice of at most half of the elements moves up, through elementwise operators and transposes
    and reshapes that leave its axes alone, to the left-hand side of matrix products and above
    normalizations and softmaxes of other axes. Nothing else may read the values in between. So if
    only the first token of a transformer's last layer is read, only that token is computed. Where
    two branches meet, ``eliminate_common_nodes`` merges their slices, and the merged slice moves
    further up when this pass runs again: pipelines repeat both.

    ::

        %p = mat_mul(%x : <1 x 128 x 256>, %w)                    ->
        %n = layer_normalization(%p, %scale, %bias) {axis = 2}
        %s = slice(%n) {starts = [0, 0, 0], stops = [1, 1, 256], ...}

        %s_1 = slice(%x) {starts = [0, 0, 0], stops = [1, 1, 256], ...}
        %p = mat_mul(%s_1, %w)
        %s = layer_normalization(%p, %scale, %bias) {axis = 2}
    """
    return rewrite(function, _rule, Slice)


def _rule(node: Slice, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    if not node.type.size or 2 * hinted(node.type.size) > hinted(node.input.type.size):
        return None
    if not _pays(node.input, node.ranges, rewriter, MAX_DISTANCE):
        return None
    return _cut(node.input, node.ranges, rewriter)


def _cut(value: Value, ranges: Ranges, rewriter: Rewriter) -> Value:
    """Emit *ranges* of *value*: nodes that compute only these, as far up as that saves work, or a
    slice.
    """
    if not _cut_axes(value, ranges):
        return value
    found = _hoisted(value, ranges) if _pays(value, ranges, rewriter, MAX_DISTANCE) else None
    if found is None or not isinstance(value, Node):
        starts, stops, steps = zip(*((r.start, r.stop, r.step) for r in ranges), strict=True)
        return rewriter.emit(Slice(value, starts, stops, steps), f"{value.name}_part")
    taken = {id(operand): _cut(operand, cut, rewriter) for operand, cut in found.cuts}
    changes = changed_operands(value, lambda operand: taken.get(id(operand), operand))
    part = dataclasses.replace(value, **changes, **found.changes)
    return rewriter.emit(part, f"{value.name}_part")


@dataclass(frozen=True)
class _Hoisted:
    """The slice of an operator's operands that replaces a slice of its result.

    Attributes:
        cuts: The slices of the operands; operands that are not named stay whole.
        changes: Attributes of the operator that change.
    """

    cuts: list[tuple[Value, Ranges]]
    changes: dict[str, Any] = field(default_factory=dict)


def _pays(value: Value, ranges: Ranges, rewriter: Rewriter, distance: int) -> bool:
    """Return whether a slice of *value* can move up to where it saves more than movement."""
    if not isinstance(value, Node) or rewriter.use_count(value) != 1 or not distance:
        return False
    found = _hoisted(value, ranges)
    if found is None or not _cut_axes(value, ranges):
        return False
    if isinstance(value, _WORK):
        return True
    return any(_pays(operand, cut, rewriter, distance - 1) for operand, cut in found.cuts)


def _hoisted(value: Value, ranges: Ranges) -> _Hoisted | None:
    """Return how to compute *ranges* of *value* alone; None if it takes the whole of it."""
    if not isinstance(value, Node) or value.predicate is not None:
        return None
    if value.data_parallel:
        return _elementwise(value, ranges)
    rule = _RULES.get(type(value))
    return None if rule is None else rule(value, ranges)


def _cut_axes(value: Value, ranges: Ranges) -> list[int]:
    sizes = zip(value.type.shape, ranges, strict=True)
    return [axis for axis, (size, taken) in enumerate(sizes) if taken != whole(size)]


def _whole(value: Value) -> list[IndexRange]:
    return [whole(size) for size in value.type.shape]


def _elementwise(node: Node, ranges: Ranges) -> _Hoisted:
    """Take of each operand what is there: broadcast axes stay."""
    cuts: dict[int, tuple[Value, Ranges]] = {}
    for value in operands_of(node):
        sizes = zip(value.type.shape, node.type.shape, ranges, strict=True)
        taken = tuple(r if size == full else whole(1) for size, full, r in sizes)
        cuts[id(value)] = value, taken
    return _Hoisted(list(cuts.values()))


def _mat_mul(node: MatMul, ranges: Ranges) -> _Hoisted | None:
    """Rows and matrices of a batch; columns are left to the weights' own pass."""
    rank = node.type.rank
    if rank - 1 in _cut_axes(node, ranges) or node.lhs is node.rhs:
        return None
    cuts: list[tuple[Value, Ranges]] = [(node.lhs, (*ranges[:-1], whole(node.lhs.type.shape[-1])))]
    if node.rhs.type.rank > 2:
        cuts.append((node.rhs, (*ranges[:-2], *_whole(node.rhs)[-2:])))
    return _Hoisted(cuts)


def _rows(node: Any, ranges: Ranges) -> _Hoisted | None:
    """Operators on the last axes of an input that keeps the others: axes before may be cut."""
    first = getattr(node, "axis", node.type.rank - 1)
    if any(axis >= first for axis in _cut_axes(node, ranges)):
        return None
    cut = (*ranges[:first], *_whole(node.input)[first:])
    return _Hoisted([(node.input, cut)])


def _along(node: Softmax | LogSoftmax | Concat, ranges: Ranges) -> _Hoisted | None:
    """Operators along one axis: all others may be cut."""
    if node.axis in _cut_axes(node, ranges):
        return None
    cuts: dict[int, tuple[Value, Ranges]] = {}
    for value in operands_of(node):
        own = list(ranges)
        own[node.axis] = whole(value.type.shape[node.axis])
        cuts[id(value)] = value, tuple(own)
    return _Hoisted(list(cuts.values()))


def _images(node: AvgPool | Convolution | MaxPool, ranges: Ranges) -> _Hoisted | None:
    """Images of a batch."""
    if _cut_axes(node, ranges) != [0]:
        return None
    return _Hoisted([(node.input, (ranges[0], *_whole(node.input)[1:]))])


def _transpose(node: Transpose, ranges: Ranges) -> _Hoisted:
    return _Hoisted([(node.input, permute(ranges, inverse(node.permutation)))])


def _reshape(node: Reshape, ranges: Ranges) -> _Hoisted | None:
    """Axes that are neither split nor merged."""
    groups = axis_groups(node.input.type.shape, node.shape)
    if groups is None:
        return None
    cut = set(_cut_axes(node, ranges))
    inner = _whole(node.input)
    for before, after in groups:
        wide = [axis for axis in before if node.input.type.shape[axis] != 1]
        changed = [axis for axis in after if axis in cut]
        if not changed:
            continue
        if len(wide) != 1 or [axis for axis in after if node.shape[axis] != 1] != changed:
            return None
        inner[wide[0]] = ranges[changed[0]]
    shape = tuple(map(count_of, ranges))
    return _Hoisted([(node.input, tuple(inner))], {"shape": shape})


def _gather(node: Gather, ranges: Ranges) -> _Hoisted | None:
    """The table that is looked up, for indices along the first axis."""
    rank = node.indices.type.rank
    if node.axis or any(axis >= rank for axis in _cut_axes(node, ranges)):
        return None
    return _Hoisted([(node.indices, ranges[:rank])])


_WORK = (Convolution, FullyConnected, Gather, LayerNormalization, LogSoftmax, MatMul, Softmax)
"""What is worth cutting the operands of."""

_RULES: dict[type[Node], Callable[[Any, Ranges], _Hoisted | None]] = {
    AvgPool: _images,
    Concat: _along,
    Convolution: _images,
    FullyConnected: _rows,
    Gather: _gather,
    LayerNormalization: _rows,
    LogSoftmax: _along,
    MatMul: _mat_mul,
    MaxPool: _images,
    Reshape: _reshape,
    Softmax: _along,
    Transpose: _transpose,
}
