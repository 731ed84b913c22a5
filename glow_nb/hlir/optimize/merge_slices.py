"""Cut once, and from where the wanted part comes from."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from itertools import accumulate, pairwise

from glow_nb.base.size import surely, symbols_of
from glow_nb.hlir.graph import Function, Node, Result, Value
from glow_nb.hlir.index_ranges import IndexRange, index_range, taken_of
from glow_nb.hlir.ops import Concat, Slice, Split
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def merge_slices(function: Function) -> Function:
    """Merge a slice of a slice; take a slice of a concat from the one operand that holds it all.

    A part of a split is a slice of the whole. A split of a concat whose cuts fall between the
    operands gives these operands, and a split into one part its operand.

    ::

        %c = concat([%p : <2 x 3>, %q : <2 x 5>]) {axis = 1}
        %s = slice(%c) {starts = [0, 4], stops = [2, 8], steps = [1, 2]}
        ->
        %s = slice(%q) {starts = [0, 1], stops = [2, 5], steps = [1, 2]}
    """
    return rewrite(function, _rule, Slice, Split)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None or node.type.rank == 0:
        return None
    match node:
        case Slice(input=Slice(predicate=None) as inner):
            taken = map(taken_of, inner.ranges, node.ranges)
            return _emitted(inner.input, list(taken), rewriter)
        case Slice(input=Result(node=Split(predicate=None) as split) as part):
            ranges: list[IndexRange | None] = [*node.ranges]
            start = sum(split.sizes[: part.index])
            indices = index_range(start, start + split.sizes[part.index])
            ranges[split.axis] = taken_of(indices, node.ranges[split.axis])
            return _emitted(split.input, ranges, rewriter)
        case Slice(input=Concat(predicate=None) as concat):
            return _slice_operand(node, concat, rewriter)
        case Split(input=value, sizes=(_,)):
            return value
        case Split(input=Concat(predicate=None) as concat) if node.axis == concat.axis:
            return _split_operands(node, concat, rewriter)
    return None


def _emitted(input: Value, ranges: list[IndexRange | None], rewriter: Rewriter) -> Value | None:
    """Emit the slice of *ranges*; None if one of them is not known."""
    known = [taken for taken in ranges if taken is not None]
    if len(known) < len(ranges):
        return None
    starts, stops, steps = zip(*((r.start, r.stop, r.step) for r in known), strict=True)
    return rewriter.emit(Slice(input, starts, stops, steps))


def _slice_operand(node: Slice, concat: Concat, rewriter: Rewriter) -> Replacement:
    indices = node.ranges[concat.axis]
    if symbols_of(*concat.ends) or not isinstance(indices, range):
        return _slice_open_operand(node, concat, rewriter)
    if not indices:
        return None
    place = bisect_right(concat.ends, min(indices))
    value, stop = concat.inputs[place], concat.ends[place]
    if max(indices) >= stop:
        return None
    start = stop - value.type.shape[concat.axis]
    ranges: list[IndexRange | None] = [*node.ranges]
    ranges[concat.axis] = taken_of(range(-start, stop - start), indices)
    return _emitted(value, ranges, rewriter)


def _slice_open_operand(node: Slice, concat: Concat, rewriter: Rewriter) -> Replacement:
    """Slice the operand that holds the part whatever the sizes are."""
    taken, end = node.ranges[concat.axis], 0
    for value in concat.inputs:
        begin, end = end, end + value.type.shape[concat.axis]
        is_inside = surely(begin, "<=", taken.start) and surely(taken.stop, "<=", end)
        if is_inside and surely(taken.step, ">", 0):
            ranges: list[IndexRange | None] = [*node.ranges]
            ranges[concat.axis] = index_range(taken.start - begin, taken.stop - begin, taken.step)
            return _emitted(value, ranges, rewriter)
    return None


def _split_operands(node: Split, concat: Concat, rewriter: Rewriter) -> Replacement:
    """Return the operands, or concats of several, if every cut falls between two of them."""
    ends = [0, *concat.ends]
    cuts = [0, *accumulate(node.sizes)]
    if not set(cuts) <= set(ends) or 0 in node.sizes or len(set(ends)) != len(ends):
        return None
    parts: list[Value] = []
    for start, stop in pairwise(cuts):
        values = concat.inputs[ends.index(start) : ends.index(stop)]
        whole = dataclasses.replace(concat, inputs=values, name="")
        parts.append(values[0] if len(values) == 1 else rewriter.emit(whole))
    return tuple(parts)
