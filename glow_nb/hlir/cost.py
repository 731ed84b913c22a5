"""The arithmetic of a graph: multiply-adds and other operations, counted from shapes.

The count is nominal: it belongs to the operator, not to the kernel that computes it, so that times
of different kernels can be compared by it. Taps of a window that lie in padding count. A function
such as ``exp`` counts as one operation, and moving data counts as none.
"""

from __future__ import annotations

from collections.abc import Iterable

from glow_nb.base.costs import Cost
from glow_nb.hlir.graph import Node


def total_cost(nodes: Iterable[Node]) -> Cost:
    """Return the sum of :meth:`Node.cost` over *nodes*, which may be a function."""
    return sum((node.cost() for node in nodes), Cost())
