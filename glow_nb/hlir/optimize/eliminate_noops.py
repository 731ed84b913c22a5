"""Drop nodes that only pass their operand on."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import (
    Broadcast,
    Concat,
    ConvertTo,
    Pad,
    Reshape,
    Slice,
    Tile,
    Transpose,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

_MOVES: tuple[type[Node], ...] = (
    *(Broadcast, Concat, ConvertTo, Pad, Reshape, Slice, Tile, Transpose),
)


@register_pass
def eliminate_noops(function: Function) -> Function:
    """Replace a node that changes nothing by its operand, and merge reshapes.

    ::

        %a = reshape(%x) {shape = [8]}       ->
        %b = reshape(%a) {shape = [2, 4]}        %b = reshape(%x) {shape = [2, 4]}
        %c = slice(%b) {starts = [0, 0], ...}    // all of %b: readers of %c read %b
    """
    return rewrite(function, _rule, *_MOVES)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case Reshape(input=value) if value.type == node.type:
            return value
        case Reshape(input=Reshape(input=value)):
            return rewriter.emit(Reshape(value, shape=node.shape))
        case Transpose(input=value, permutation=permutation) if list(permutation) == sorted(
            permutation
        ):
            return value
        case Concat(inputs=(value,)):
            return value
        case Pad(input=value, pads=pads) if not any(pads):
            return value
        case Slice(input=value, steps=steps) if value.type == node.type and set(steps) <= {1}:
            return value
        case Broadcast(input=value) | Tile(input=value) if value.type == node.type:
            return value
        case ConvertTo(input=value) if value.type == node.type:
            return value
    return None
