"""Reshape the whole before a part is taken."""

from __future__ import annotations

from math import prod

from glow_nb.hlir.graph import Function, Result, Value
from glow_nb.hlir.ops import Reshape, Slice, Split
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import axis_groups
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

Shape = tuple[int, ...]


@register_pass
def hoist_reshapes(function: Function) -> Function:
    """Take a slice, or a part of a split, of a reshaped tensor instead of reshaping what is taken.

    What reads the part can then read it where it lies. The slice must cut one axis, at multiples
    of what the reshape makes of one step along it. A pass for the end of a pipeline: as long as
    slices still move up (``hoist_slices``), reshapes must not.

    ::

        %s = split(%x : <128 x 12>) {axis = 1, sizes = [6, 6]}
        %r = reshape(%s#1) {shape = [128, 2, 3]}
        ->
        %t = reshape(%x) {shape = [128, 4, 3]}
        %r = slice(%t) {starts = [0, 2, 0], stops = [128, 4, 3], ...}
    """
    return rewrite(function, _rule, Reshape)


def _rule(node: Reshape, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or not node.type.size:
        return None
    part = _part(node.input)
    if part is None:
        return None
    source, axis, taken = part
    place = _place(node.input.type.shape, node.shape, axis, taken, source.type.shape[axis])
    if place is None:
        return None
    cut, indices, size = place
    shape = (*node.shape[:cut], size, *node.shape[cut + 1 :])
    whole = rewriter.emit(Reshape(source, shape))
    starts, stops = [0] * len(shape), list(node.shape)
    starts[cut], stops[cut] = indices.start, indices.stop
    return rewriter.emit(Slice(whole, tuple(starts), tuple(stops), (1,) * len(shape)))


def _part(value: Value) -> tuple[Value, int, range] | None:
    """Return the source of *value*, the only axis along which a part is taken, and the part."""
    match value:
        case Slice(input=source, predicate=None) if set(value.steps) == {1}:
            sizes = zip(source.type.shape, value.ranges, strict=True)
            axes = [axis for axis, (size, taken) in enumerate(sizes) if len(taken) != size]
            return (source, axes[0], value.ranges[axes[0]]) if len(axes) == 1 else None
        case Result(node=Split(input=source, predicate=None) as split):
            start = sum(split.sizes[: value.index])
            return source, split.axis, range(start, start + split.sizes[value.index])
    return None


def _place(
    before: Shape, after: Shape, axis: int, taken: range, size: int
) -> tuple[int, range, int] | None:
    """Return where *taken* of an *axis* of *size* is found after a reshape of the whole.

    Args:
        before: The shape of the part.
        after: What the part is reshaped to.
        axis: The axis that is cut.
        taken: What is taken of it.
        size: The size of the whole along it.

    Returns:
        The axis that is cut afterwards, what is taken of it and its size; None if there is none.
    """
    for olds, news in axis_groups(before, after) or ():
        if axis not in olds:
            continue
        outer = prod(before[old] for old in olds if old < axis)
        inner = prod(before[old] for old in olds if old > axis)
        for new in news:
            step = prod(after[i] for i in news if i > new)
            is_aligned = all(n * inner % step == 0 for n in (taken.start, taken.stop, size))
            if is_aligned and prod(after[i] for i in news if i < new) == outer:
                places = range(taken.start * inner // step, taken.stop * inner // step)
                return new, places, size * inner // step
    return None
