"""Cut once, and from where the wanted part comes from."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from itertools import accumulate, pairwise

from glow_nb.hlir.graph import Function, Node, Result, Value
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
            ranges = [taken_of(a, b) for a, b in zip(inner.ranges, node.ranges, strict=True)]
            return rewriter.emit(_slice(inner.input, ranges))
        case Slice(input=Result(node=Split(predicate=None) as split) as part):
            ranges = list(node.ranges)
            start = sum(split.sizes[: part.index])
            indices = range(start, start + split.sizes[part.index])
            ranges[split.axis] = taken_of(indices, ranges[split.axis])
            return rewriter.emit(_slice(split.input, ranges))
        case Slice(input=Concat(predicate=None) as concat):
            return _slice_operand(node, concat, rewriter)
        case Split(input=value, sizes=(_,)):
            return value
        case Split(input=Concat(predicate=None) as concat) if node.axis == concat.axis:
            return _split_operands(node, concat, rewriter)
    return None


def taken_of(indices: range, places: range) -> range:
    """Return the elements of *indices* at *places*, as a range that a slice may have."""
    if not places:
        return range(0)
    first, step = indices[places[0]], indices.step * places.step
    if len(places) == 1:
        return range(first, first + 1)
    last = indices[places[-1]]
    return range(first, last + (1 if step > 0 else -1), step)


def _slice(input: Value, ranges: list[range]) -> Slice:
    starts, stops, steps = zip(*((r.start, r.stop, r.step) for r in ranges), strict=True)
    return Slice(input, starts, stops, steps)


def _slice_operand(node: Slice, concat: Concat, rewriter: Rewriter) -> Replacement:
    indices = node.ranges[concat.axis]
    if not indices:
        return None
    place = bisect_right(concat.ends, min(indices))
    value, stop = concat.inputs[place], concat.ends[place]
    if max(indices) >= stop:
        return None
    start = stop - value.type.shape[concat.axis]
    ranges = list(node.ranges)
    ranges[concat.axis] = taken_of(range(-start, stop - start), indices)
    return rewriter.emit(_slice(value, ranges))


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
