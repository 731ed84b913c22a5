"""Compute small tensors and repeat them last, or not at all."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.base.schema import map_operands
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Broadcast, MatMul, Reshape, Select, Slice, Tile, Transpose
from glow_nb.hlir.ops.families import BinaryElementwise, UnaryElementwise
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

_READING: tuple[type[Node], ...] = (
    *(UnaryElementwise, BinaryElementwise, Select),
    *(Broadcast, MatMul, Reshape, Slice, Tile, Transpose),
)


@register_pass
def sink_broadcasts(function: Function) -> Function:
    """Sink broadcasts below elementwise operators, which broadcast by themselves.

    A tile of axes of size 1 is a broadcast, and so is what moves one repeated number about. One
    matrix repeated for a whole batch of products is shared by the batch.

    ::

        %b = broadcast(%row : <1 x 8>) {shape = [4, 8]}    ->
        %e = exp(%b)                                           %e = exp(%row)
        %y = add(%x : <4 x 8>, %e)                             %y = add(%x, %e)
    """
    return rewrite(function, _rule, *_READING)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case Tile(input=value) if _repeats_single(node):
            return rewriter.emit(Broadcast(value, node.type.shape))
        case Broadcast(input=Broadcast(input=value, predicate=None)):
            return rewriter.emit(Broadcast(value, node.shape))
        case Reshape() | Slice() | Transpose() if _is_one_number(node.input) and node.type.size:
            return _repeat_anew(node, rewriter)
        case MatMul(rhs=Broadcast(input=matrix, predicate=None)):
            return _share_matrix(node, matrix, rewriter)
        case UnaryElementwise() | BinaryElementwise() | Select():
            return _sink(node, rewriter)
    return None


def _is_one_number(value: Value) -> bool:
    """True for one number, repeated."""
    return isinstance(value, Broadcast) and value.predicate is None and value.input.type.size == 1


def _repeat_anew(node: Reshape | Slice | Transpose, rewriter: Rewriter) -> Replacement:
    """Repeat the one number to the shape that moving its repetitions about gives."""
    assert isinstance(node.input, Broadcast)
    ones = (1,) * node.type.rank
    number = rewriter.emit(Reshape(node.input.input, ones))
    return rewriter.emit(Broadcast(number, node.type.shape))


def _repeats_single(node: Tile) -> bool:
    sizes = zip(node.input.type.shape, node.repeats, strict=True)
    return all(size == 1 or count == 1 for size, count in sizes)


def _share_matrix(node: MatMul, matrix: Value, rewriter: Rewriter) -> Replacement:
    *batch, rows, columns = matrix.type.shape
    if any(n != 1 for n in batch) or matrix.type.shape[-2:] != node.rhs.type.shape[-2:]:
        return None
    shared = rewriter.emit(Reshape(matrix, (rows, columns)))
    return rewriter.emit(dataclasses.replace(node, rhs=shared, name=""))


def _sink(node: Node, rewriter: Rewriter) -> Replacement:
    inner = map_operands(node, _source)
    if inner is node:
        return None
    if inner.type == node.type:
        return rewriter.emit(inner)
    small = rewriter.emit(inner.copied(name=""))
    return rewriter.emit(Broadcast(small, node.type.shape))


def _source(value: Any) -> Any:
    match value:
        case Broadcast(input=source, predicate=None):
            return source
    return value
