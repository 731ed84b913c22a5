"""Drop nodes that nothing reads."""

from __future__ import annotations

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.passes import register_pass


@register_pass
def eliminate_dead_nodes(function: Function) -> Function:
    """Drop nodes without side effects none of whose results is read.

    ::

        %a = relu(%x)        ->
        %b = tanh(%x)            %b = tanh(%x)
        %s = save(%b, %y)        %s = save(%b, %y)
    """
    live: set[Value] = set()
    kept: list[Node] = []
    for node in reversed(function.nodes):
        if node.has_side_effects or any(result in live for result in node.results):
            kept.append(node)
            live.update(operands_of(node))
    if len(kept) == len(function.nodes):
        return function
    return function.with_nodes(reversed(kept))
