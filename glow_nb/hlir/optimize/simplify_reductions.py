"""Drop reductions and windows of one element or of equal ones, and merge those of reductions."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import get_args

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    AvgPool,
    Broadcast,
    MaxPool,
    Mul,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reshape,
)
from glow_nb.hlir.ops.families import NARROW_FLOATS, splat
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

Reduction = ReduceMax | ReduceMean | ReduceMin | ReduceProd | ReduceSum
REDUCTIONS: tuple[type[Node], ...] = get_args(Reduction)


@register_pass
def simplify_reductions(function: Function) -> Function:
    """Replace a reduction over axes of size 1 by a reshape, and merge two reductions of the same
    kind.

    A pool with a window of one cell that takes every cell is its input; one with a single window
    over all cells is a reduction, whose kernel shares out channels. A reshape that drops the
    reduced axes, or brings them back, is left to the reduction. Two reductions merge only if
    nothing else reads the first; means of different sets of axes are the mean of all, as each is
    over equally many elements. The sum over broadcast elements is a multiple of the element; their
    mean, maximum or minimum is the element itself.

    ::

        %a = reduce_mean(%x : <8 x 7 x 7 x 3>) {axes = [2], keep_dims = true}
        %b = reduce_mean(%a) {axes = [1], keep_dims = true}
        ->
        %b = reduce_mean(%x) {axes = [1, 2], keep_dims = true}
    """
    return rewrite(function, _rule, MaxPool, AvgPool, Reshape, *REDUCTIONS)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case MaxPool() | AvgPool() if (
            node.type == node.input.type and set(node.kernel) == {1} and not node.is_padded
        ):
            return node.input
        case MaxPool() | AvgPool() if _takes_everything(node):
            reduction = ReduceMax if isinstance(node, MaxPool) else ReduceMean
            axes = tuple(range(1, node.input.type.rank - 1))
            return rewriter.emit(reduction(node.input, axes=axes, keep_dims=True))
        case ReduceMax() | ReduceMean() | ReduceMin() | ReduceProd() | ReduceSum():
            return _reduction(node, rewriter)
        case Reshape(
            input=(ReduceMax() | ReduceMean() | ReduceMin() | ReduceProd() | ReduceSum()) as inner
        ) if inner.predicate is None and rewriter.use_count(inner) == 1:
            other = dataclasses.replace(inner, keep_dims=not inner.keep_dims)
            return rewriter.emit(other) if other.type == node.type else None
    return None


def _of_repeated(node: Reduction, single: Value, rewriter: Rewriter) -> Replacement:
    """Reduce what a broadcast repeats *before* it is repeated along the axes that are reduced."""
    shape, narrow = node.input.type.shape, single.type.shape
    repeated = [axis for axis in node.axes if narrow[axis] != shape[axis]]
    count = prod(shape[axis] for axis in repeated)
    if not repeated or not count or isinstance(node, ReduceProd):
        return None
    if isinstance(node, ReduceSum) and node.type.kind in NARROW_FLOATS:
        return None  # which do not hold every count
    kept = tuple(1 if axis in repeated else n for axis, n in enumerate(shape))
    if kept != narrow:
        single = rewriter.emit(Broadcast(single, kept))
    reduced = rewriter.emit(dataclasses.replace(node, input=single, name=""))
    if not isinstance(node, ReduceSum):
        return reduced
    number = splat(rewriter, reduced.type, count, f"{node.name}_count")
    return rewriter.emit(Mul(reduced, number))


def _takes_everything(node: MaxPool | AvgPool) -> bool:
    """Return whether there is one window, over all cells of the input."""
    cells = node.input.type.shape[1:-1]
    is_whole = node.kernel == cells and not node.is_padded and set(node.dilation) == {1}
    return is_whole and set(node.type.shape[1:-1]) == {1} and node.input.type.kind.is_float


def _reduction(node: Reduction, rewriter: Rewriter) -> Replacement:
    inner = node.input
    if all(inner.type.shape[axis] == 1 for axis in node.axes):
        return rewriter.emit(Reshape(inner, node.type.shape))
    if isinstance(inner, Broadcast) and inner.predicate is None and node.type.kind.is_float:
        return _of_repeated(node, inner.input, rewriter)
    if type(inner) is not type(node) or inner.predicate is not None:
        return None
    if rewriter.use_count(inner) != 1:
        return None
    kept = [axis for axis in range(inner.input.type.rank) if axis not in inner.axes]
    named = node.axes if inner.keep_dims else tuple(kept[axis] for axis in node.axes)
    axes = tuple(sorted({*inner.axes, *named}))
    merged = rewriter.emit(type(node)(inner.input, axes=axes, keep_dims=node.keep_dims))
    if merged.type == node.type:
        return merged
    return rewriter.emit(Reshape(merged, node.type.shape))
