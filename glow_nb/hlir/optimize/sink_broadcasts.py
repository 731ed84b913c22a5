"""Compute small tensors and repeat them last, or not at all."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.base.schema import map_operands
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Broadcast, MatMul, Reshape, Select, Slice, Tile, Transpose
from glow_nb.hlir.ops.families import BinaryElementwise, UnaryElementwise
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rewriting import ANY, Rewrite, Rules, any_of, rewrite_once, rule, wildcards

x, shape = wildcards("x shape")


@register_pass
def sink_broadcasts(function: Function) -> Function:
    """Sink broadcasts below elementwise operators, which broadcast by themselves.

    A tile of axes of size 1 is a broadcast, and so is an operator that moves one repeated number.
    One matrix repeated for a whole batch of products is shared by the batch.

    ::

        %b = broadcast(%row : <1 x 8>) {shape = [4, 8]}    ->
        %e = exp(%b)                                           %e = exp(%row)
        %y = add(%x : <4 x 8>, %e)                             %y = add(%x, %e)
    """
    return rewrite_once(function, _RULES)


def _repeats_single(node: Tile) -> bool:
    sizes = zip(node.input.type.shape, node.repeats, strict=True)
    return all(size == 1 or count == 1 for size, count in sizes)


@rule(any_of(MatMul, rhs=Broadcast(x, ANY)))
def _share_matrix(node: MatMul, x: Value) -> Node | None:
    *batch, rows, columns = x.type.shape
    if any(n != 1 for n in batch) or x.type.shape[-2:] != node.rhs.type.shape[-2:]:
        return None
    return dataclasses.replace(node, rhs=Reshape(x, (rows, columns)), name="")


@rule(any_of(UnaryElementwise, BinaryElementwise, Select))
def _sink(node: Node, rewriter: Rewriter) -> Value | None:
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


_RULES = Rules(
    "sink_broadcasts",
    Rewrite(Tile(x, ANY), lambda node, x: Broadcast(x, node.type.shape), when=_repeats_single),
    Rewrite(Broadcast(Broadcast(x, ANY), shape), Broadcast(x, shape)),
    Rewrite(
        any_of(Reshape, Slice, Transpose, input=Broadcast(x, ANY)),
        lambda node, x: Broadcast(Reshape(x, (1,) * node.type.rank), node.type.shape),
        when=lambda node, x: x.type.size == 1 and node.type.size,
    ),
    _share_matrix,
    _sink,
)
