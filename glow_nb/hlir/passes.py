"""The registry of graph passes: ``Function -> Function``, registered under their own names."""

from __future__ import annotations

from glow_nb.base.passes import PassRegistry
from glow_nb.hlir.graph import Function
from glow_nb.hlir.verify import verify

GRAPH_PASSES: PassRegistry[Function] = PassRegistry(
    "graph", verify, argument="pipeline", renewed="function.with_nodes(nodes)"
)
register_pass = GRAPH_PASSES.register
