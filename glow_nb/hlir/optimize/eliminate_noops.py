"""Drop nodes that only pass their operand on."""

from __future__ import annotations

from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Broadcast, Concat, ConvertTo, Pad, Reshape, Slice, Tile, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import ANY, Rewrite, Rules, any_of, keeps_type, rewrite_once, wildcards

x, shape, order, steps = wildcards("x shape order steps")


@register_pass
def eliminate_noops(function: Function) -> Function:
    """Replace a node that changes nothing by its operand, and merge reshapes.

    ::

        %a = reshape(%x) {shape = [8]}       ->
        %b = reshape(%a) {shape = [2, 4]}        %b = reshape(%x) {shape = [2, 4]}
        %c = slice(%b) {starts = [0, 0], ...}    // all of %b: readers of %c read %b
    """
    return rewrite_once(function, _RULES)


_RULES = Rules(
    "eliminate_noops",
    Rewrite(any_of(Broadcast, ConvertTo, Reshape, Tile, input=x), x, when=keeps_type),
    Rewrite(Reshape(Reshape(x, ANY), shape), Reshape(x, shape)),
    Rewrite(Transpose(x, order), x, when=lambda order: list(order) == sorted(order)),
    Rewrite(Concat((x,), axis=ANY), x),
    Rewrite(any_of(Pad, input=x), x, when=lambda node: not any(node.pads)),
    Rewrite(
        any_of(Slice, input=x, steps=steps),
        x,
        when=lambda node, x, steps: keeps_type(node, x) and set(steps) <= {1},
    ),
)
