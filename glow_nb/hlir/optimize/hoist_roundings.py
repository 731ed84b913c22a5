"""Round before elements are moved: half the bytes are moved then."""

from __future__ import annotations

import dataclasses
from functools import partial

from glow_nb.base.size import hinted
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value, producer_of
from glow_nb.hlir.ops import (
    Attention,
    Concat,
    ConvertTo,
    Maximum,
    MaxPool,
    Minimum,
    Pad,
    Relu,
    Slice,
    Split,
    Tile,
)
from glow_nb.hlir.ops.families import NARROW_FLOATS, keeps_every_number
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

_MOVING: tuple[type[Node], ...] = (Concat, MaxPool, Pad, Tile)
"""Operators that move or choose elements, and that ``sink_transposes``, ``sink_reshapes`` and
``sink_broadcasts`` do not take below elementwise operators."""


@register_pass
def hoist_roundings(function: Function) -> Function:
    """Move a conversion to 16-bit floats above operators that only move or select elements.

    Nothing else may read what is moved. The results are the same in every bit: rounding keeps the
    order of numbers. An elementwise operator that selects, such as relu, is passed only on the way
    to such an operator; otherwise the conversion is fused into its kernel. Attention, whose kernel
    has no epilogue, rounds its result itself. If all readers of a tensor are slices that are
    rounded, such as queries, keys and values of one product, and these are at least half of it, the
    tensor is rounded.

    ::

        %m = max_pool(%x) {...}                        %c = convert_to(%x) {kind = bfloat16}
        %c = convert_to(%m) {kind = bfloat16}    ->    %m = max_pool(%c) {...}
    """
    return rewrite(function, partial(_rule, _of_slices(function)), ConvertTo)


def _of_slices(function: Function) -> frozenset[str]:
    """Return the names of the conversions of slices of what nothing reads but these.

    Slices that are less than half of it, as the last row, are rounded where they are.
    """
    users, found = function.users(), set[str]()
    for source, readers in users.items():
        if not all(isinstance(reader, Slice | Split) for reader in readers):
            continue
        parts = [part for reader in readers for part in reader.results]
        if 2 * sum(hinted(part.type.size) for part in parts) < hinted(source.type.size):
            continue
        of_parts = [user for part in parts for user in users.get(part, ())]
        kinds = {user.kind if isinstance(user, ConvertTo) else None for user in of_parts}
        if len(kinds) == 1 and source.type.kind.is_float:
            found.update(user.name for user in of_parts if isinstance(user, ConvertTo))
    return frozenset(found)


def _rule(of_slices: frozenset[str], node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case ConvertTo(input=source, predicate=None, kind=kind) if kind in NARROW_FLOATS:
            if keeps_every_number(source.type.kind, kind) or not source.type.kind.is_float:
                return None
            if isinstance(source, Attention):
                return _rounded_attention(source, kind, rewriter)
            if node.name in of_slices:
                return _slice_of_rounded(source, kind, rewriter)
            if not _leads_to_moving(source, rewriter):
                return None
        case _:
            return None
    assert isinstance(source, Node)
    moved = source.map_operands(lambda value: rewriter.emit(ConvertTo(value, node.kind)))
    return rewriter.emit(dataclasses.replace(moved, name=""))


def _rounded_attention(node: Attention, kind: ElementKind, rewriter: Rewriter) -> Replacement:
    """Return *node* with a result that is rounded when it is stored: no kernel follows it."""
    is_alike = node.wide and node.query.type.kind is kind and node.predicate is None
    if not is_alike or rewriter.use_count(node) != 1:
        return None
    return rewriter.emit(dataclasses.replace(node, wide=False, name=""))


def _slice_of_rounded(source: Value, kind: ElementKind, rewriter: Rewriter) -> Replacement:
    """Return the slice *source* of a tensor that is rounded before; all slices share that one."""
    part = producer_of(source)
    if not isinstance(part, Slice | Split) or part.predicate is not None:
        return None
    moved = part.map_operands(lambda value: rewriter.emit(ConvertTo(value, kind)))
    made = rewriter.emit(dataclasses.replace(moved, name=""))
    return made.results[part.results.index(source)]


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
