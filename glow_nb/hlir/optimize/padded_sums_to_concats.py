"""Put side by side what zeros keep apart in a sum: the gradients of slices of one tensor."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Broadcast, Concat, Pad
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def padded_sums_to_concats(function: Function) -> Function:
    """Make a sum of tensors with zeros around them a concat, where no two overlap.

    Each of them is then written once, and not added to zeros as long as all of them. What overlaps,
    or has no zeros, is added to the concat. (A negative zero may keep its sign.)

    ::

        %a = pad(%x : <2>) {pads = [0, 3]}    ->
        %b = pad(%y : <3>) {pads = [2, 0]}
        %s = add(%a, %b)                          %s = concat(%x, %y) {axis = 0}
    """
    if not function.classes_of((Pad,)):
        return function
    users = function.users()
    inner = {
        node.name
        for node in function.nodes
        if isinstance(node, Add) and [type(user) for user in users.get(node, ())] == [Add]
    }

    def rule(node: Add, rewriter: Rewriter) -> Replacement:
        if node.predicate is not None or node.name in inner:
            return None
        return _side_by_side(node, _terms(node, inner), rewriter)

    return rewrite(function, rule, Add)


@dataclass(frozen=True)
class Part:
    """A tensor *source* with zeros before and behind it along one *axis* of a sum."""

    source: Value
    axis: int
    start: int

    @property
    def stop(self) -> int:
        """Where the zeros behind it begin."""
        return self.start + self.source.type.shape[self.axis]


def _terms(root: Add, inner: set[str]) -> list[Value]:
    """Return what is added up, in order: by *root* and by the sums that only it reads."""
    terms: list[Value] = []
    waiting: list[Value] = [root]
    while waiting:
        value = waiting.pop()
        match value:
            case Add(predicate=None, type=root.type) if value is root or value.name in inner:
                waiting += (value.rhs, value.lhs)
            case _:
                terms.append(value)
    return terms


def _part(value: Value, root: Add) -> Part | None:
    """Return *value* as a part of the sum *root*, if it is a pad with zeros along one axis."""
    if not isinstance(value, Pad) or value.predicate is not None or value.type != root.type:
        return None
    padded = [axis for axis, width in enumerate(value.widths) if any(width)]
    if value.mode != "constant" or value.value != 0 or len(padded) != 1 or min(value.pads) < 0:
        return None
    return Part(value.input, padded[0], value.widths[padded[0]][0])


def _side_by_side(root: Add, terms: list[Value], rewriter: Rewriter) -> Replacement:
    parts = {term: part for term in terms if (part := _part(term, root)) is not None}
    if len(parts) < 2:
        return None
    axis, _ = Counter(part.axis for part in parts.values()).most_common(1)[0]
    chosen: dict[Value, Part] = {}
    counts, end = Counter(terms), 0
    for term, part in sorted(parts.items(), key=lambda item: item[1].start):
        if part.axis == axis and part.start >= end and counts[term] == 1:
            chosen[term], end = part, part.stop
    if len(chosen) < 2:
        return None
    total = _concatenated(root, list(chosen.values()), rewriter)
    for term in terms:
        if term not in chosen:
            total = rewriter.emit(Add(total, term))
    return total


def _concatenated(root: Add, parts: list[Part], rewriter: Rewriter) -> Value:
    """Return *parts*, which are in order, with zeros between them and around them."""
    axis, shape = parts[0].axis, root.type.shape
    zero = splat(rewriter, root.type, 0, f"{root.name}_zero")
    pieces: list[Value] = []
    ends = [parts[0].start, *(part.stop for part in parts)]
    for end, part in zip(ends, parts, strict=False):
        if part.start > end:
            gap = (*shape[:axis], part.start - end, *shape[axis + 1 :])
            pieces.append(rewriter.emit(Broadcast(zero, gap)))
        pieces.append(part.source)
    joined = rewriter.emit(Concat(tuple(pieces), axis))
    pads = [0] * (2 * len(shape))
    pads[axis], pads[len(shape) + axis] = parts[0].start, shape[axis] - ends[-1]
    return rewriter.emit(Pad(joined, tuple(pads))) if any(pads) else joined
