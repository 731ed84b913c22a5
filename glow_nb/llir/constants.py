"""What is known when a network is compiled, on both levels: constants of graphs, and weights."""

from __future__ import annotations

from glow_nb.hlir.graph import Constant, Value
from glow_nb.llir.program import Buffer, Weight


def is_constant(value: Value | Buffer) -> bool:
    """True for a constant of a graph, or a weight of a program, that has numbers.

    It is a condition of wildcards: ``wildcard("w", is_constant)``.
    """
    return isinstance(value, Constant | Weight) and value.payload is not None
