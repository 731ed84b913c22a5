"""The live nodes of a function: those that an output or a state depends on."""

from __future__ import annotations

from glow_nb.base.schema import operands_of
from glow_nb.hlir.graph import Function, Node, Value


def with_live_nodes(function: Function) -> Function:
    """Return *function* without the nodes of which nothing is read; itself if there are none."""
    live: set[Value] = set()
    kept: list[Node] = []
    for node in reversed(function.nodes):
        if node.has_side_effects or any(result in live for result in node.results):
            kept.append(node)
            live.update(operands_of(node))
    if len(kept) == len(function.nodes):
        return function
    return function.with_nodes(reversed(kept))
