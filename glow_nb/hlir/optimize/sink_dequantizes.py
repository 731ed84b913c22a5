"""Move bytes instead of the floats that they represent."""

from __future__ import annotations

from typing import Any

from glow_nb.base.schema import map_operands, operands_of
from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import (
    Broadcast,
    Concat,
    Dequantize,
    MaxPool,
    Pad,
    Quantize,
    ReduceMax,
    ReduceMin,
    Reshape,
    Stored,
    Tile,
    Transpose,
)
from glow_nb.hlir.optimize.dequantized import quantization_of
from glow_nb.hlir.optimize.fold_pads import sees_input
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

FLOAT32 = ElementKind.FLOAT32


@register_pass
def sink_dequantizes(function: Function) -> Function:
    """Dequantize the result of an operator that moves or selects elements, instead of its operands.

    All operands must be dequantized from one type. If they are not, a ``quantize`` of a concat
    moves above the concat, and its parts are rescaled. Transposes, reshapes and broadcasts of
    floats are not changed: other passes sink them below elementwise operators. The plain
    integers of a quantized type (``stored``) move alike.

    ::

        %d = dequantize(%x : uint8<1 x 8 x 8 x 4, scale = 0.5, offset = 3>)
        %m = max_pool(%d) {kernel = [2, 2], ...}
        ->
        %p = max_pool(%x) {kernel = [2, 2], ...}
        %m = dequantize(%p)
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case Quantize(input=Concat(inputs=parts, predicate=None) as whole):
            if rewriter.use_count(whole) == 1 and any(isinstance(p, Dequantize) for p in parts):
                cut = tuple(rewriter.emit(Quantize(p, **quantization_of(node))) for p in parts)
                return rewriter.emit(Concat(cut, axis=whole.axis))
        case _ if node.type_transparent and not isinstance(node, Transpose):
            return _sunk(node, rewriter)
    return None


def _sunk(node: Node, rewriter: Rewriter) -> Replacement:
    moved = [value for value in operands_of(node) if value.type.kind is node.type.kind]
    function = _common_function(moved)
    is_sunk_elsewhere = isinstance(node, Broadcast | Reshape | Tile)
    if function is Dequantize and (is_sunk_elsewhere or _may_take_the_largest_of_nothing(node)):
        return None
    if function is None or (isinstance(node, Pad) and not _pads_alike(node, function)):
        return None
    inner = rewriter.emit(
        map_operands(node, lambda value: value.input if value in moved else value).copied(name="")
    )
    return tuple(
        rewriter.emit(function(result)) if result.type.is_quantized else result
        for result in inner.results
    )


def _may_take_the_largest_of_nothing(node: Node) -> bool:
    """Return whether *node* makes an infinity of floats, which no integer represents."""
    if isinstance(node, MaxPool):
        return not sees_input(node, node.input.type.shape[1:-1], node.pads)
    return isinstance(node, ReduceMax | ReduceMin) and node.input.type.size == 0


def _common_function(values: list[Any]) -> type[Dequantize] | type[Stored] | None:
    """Return what all *values* are made by, from one quantized type; None if there is no such."""
    if not values:
        return None
    for function in (Dequantize, Stored):
        if all(isinstance(value, function) and value.predicate is None for value in values):
            types = {value.input.type.with_shape(()) for value in values}
            is_plain = all(getattr(value, "kind", FLOAT32) is FLOAT32 for value in values)
            return function if len(types) == 1 and is_plain else None
    return None


def _pads_alike(pad: Pad, function: type[Node]) -> bool:
    """Return whether *pad* adds the same numbers to the integers: copies, or the real number 0."""
    return pad.mode != "constant" or (function is Dequantize and pad.value == 0)
