"""Put a tensor together once, and not at all if it was just cut apart."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.hlir.graph import Function, Result, Value
from glow_nb.hlir.ops import Concat, Slice, Split
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def merge_concats(function: Function) -> Function:
    """Flatten nested concats, drop empty operands, and merge slices that lie side by side.

    A nested concat is flattened only if nothing else reads it; otherwise its parts would be copied
    twice.

    ::

        %a = concat([%p, %q]) {axis = 3}      ->
        %b = concat([%a, %r]) {axis = 3}          %b = concat([%p, %q, %r]) {axis = 3}

        %s = split(%x) {axis = 1, sizes = [2, 3]}
        %c = concat([%s#0, %s#1]) {axis = 1}      // readers of %c read %x
    """
    inner = _names_of_inner(function)
    return rewrite(
        function, lambda node, out: None if node.name in inner else _rule(node, out), Concat
    )


def _names_of_inner(function: Function) -> set[str]:
    """Return the concats that their only reader takes in: it flattens all of them at once."""
    return {
        value.name
        for reader in function
        if isinstance(reader, Concat) and reader.predicate is None
        for value in reader.inputs
        if isinstance(value, Concat)
        and value.predicate is None
        and value.axis == reader.axis
        and function.use_counts[value] == 1
    }


@dataclass(frozen=True)
class _Piece:
    """The part ``start..stop`` of *source* along the axis of a concat."""

    value: Value
    source: Value
    start: int
    stop: int


def _rule(node: Concat, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    inputs = [part for value in node.inputs for part in _parts(value, node.axis, rewriter)]
    inputs = [value for value in inputs if value.type.shape[node.axis]] or inputs[:1]
    merged = _merge_neighbours([_piece(value, node.axis) for value in inputs])
    if tuple(piece.value for piece in merged) == node.inputs:
        return None
    values = tuple(_emit(piece, node.axis, rewriter) for piece in merged)
    return values[0] if len(values) == 1 else rewriter.emit(Concat(values, axis=node.axis))


def _parts(value: Value, axis: int, rewriter: Rewriter) -> list[Value]:
    """Return the operands of concats that only this one reads, however deep, or the value."""
    parts: list[Value] = []
    left = [value]
    while left:
        match left.pop():
            case Concat(predicate=None) as concat if (
                concat.axis == axis and rewriter.use_count(concat) == 1
            ):
                left += reversed(concat.inputs)
            case part:
                parts.append(part)
    return parts


def _piece(value: Value, axis: int) -> _Piece:
    match value:
        case Slice(input=source, predicate=None) if _cuts_only(value, axis):
            return _Piece(value, source, value.starts[axis], value.stops[axis])
        case Result(node=Split(input=source, predicate=None) as split) if split.axis == axis:
            start = sum(split.sizes[: value.index])
            return _Piece(value, source, start, start + split.sizes[value.index])
    return _Piece(value, value, 0, value.type.shape[axis])


def _cuts_only(node: Slice, axis: int) -> bool:
    """Return whether the slice takes elements side by side along *axis* and all else whole."""
    before, after = node.input.type.shape, node.type.shape
    others = all(m == n for i, (m, n) in enumerate(zip(before, after, strict=True)) if i != axis)
    return others and set(node.steps) == {1}


def _merge_neighbours(pieces: list[_Piece]) -> list[_Piece]:
    merged = pieces[:1]
    for piece in pieces[1:]:
        last = merged[-1]
        if last.source == piece.source and last.stop == piece.start:
            merged[-1] = _Piece(last.source, last.source, last.start, piece.stop)
        else:
            merged.append(piece)
    return merged


def _emit(piece: _Piece, axis: int, rewriter: Rewriter) -> Value:
    """Return the piece: as it was if it is whole or nothing was merged into it."""
    size = piece.source.type.shape[axis]
    if (piece.start, piece.stop) == (0, size):
        return piece.source
    if piece.value.type.shape[axis] == piece.stop - piece.start:
        return piece.value
    return slice_axis(rewriter, piece.source, axis, slice(piece.start, piece.stop))
