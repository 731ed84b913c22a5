"""Round before elements are moved: half the bytes are moved then."""

from __future__ import annotations

import dataclasses

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Concat, ConvertTo, Maximum, MaxPool, Minimum, Pad, Relu, Tile
from glow_nb.hlir.ops.families import NARROW_FLOATS, keeps_every_number
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

_MOVING: tuple[type[Node], ...] = (Concat, MaxPool, Pad, Tile)
"""Operators that move or choose elements, and that ``sink_transposes``, ``sink_reshapes`` and
``sink_broadcasts`` do not take below elementwise operators."""


@register_pass
def hoist_roundings(function: Function) -> Function:
    """Move a conversion to 16-bit floats above what only moves or chooses elements.

    Nothing else may read what is moved. The results are the same in every bit: rounding keeps the
    order of numbers. An elementwise operator that chooses, as relu, is passed only on the way
    to such an operator: the conversion joins its kernel where it stands.

    ::

        %m = max_pool(%x) {...}                        %c = convert_to(%x) {kind = bfloat16}
        %c = convert_to(%m) {kind = bfloat16}    ->    %m = max_pool(%c) {...}
    """
    return rewrite(function, _rule, ConvertTo)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case ConvertTo(input=source, predicate=None, kind=kind) if kind in NARROW_FLOATS:
            if keeps_every_number(source.type.kind, kind) or not source.type.kind.is_float:
                return None
            if not _leads_to_moving(source, rewriter):
                return None
        case _:
            return None
    assert isinstance(source, Node)
    moved = source.map_operands(lambda value: rewriter.emit(ConvertTo(value, node.kind)))
    return rewriter.emit(dataclasses.replace(moved, name=""))


def _leads_to_moving(value: Value, rewriter: Rewriter) -> bool:
    """Return whether *value*, which nothing else reads, moves elements, or chooses among moved."""
    if not isinstance(value, Node) or value.predicate is not None:
        return False
    if rewriter.use_count(value) != 1 or len(value.results) != 1:
        return False
    if isinstance(value, _MOVING):
        return True
    match value:
        case Relu(input=source):
            return _leads_to_moving(source, rewriter)
        case Maximum() | Minimum():
            return any(_leads_to_moving(each, rewriter) for each in (value.lhs, value.rhs))
    return False
