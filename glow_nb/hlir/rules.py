"""Registries of per-operator rules, so that a rule stands on one page with its operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from glow_nb.hlir.graph import Node
from glow_nb.hlir.rewrite import Replacement, Rewriter
from glow_nb.schema import RuleTable

N = TypeVar("N", bound=Node)

LOWERINGS: RuleTable[type[Node], Callable[[Any, Rewriter], Replacement]] = RuleTable("lowering of")
"""Operator class to the rule that expresses it in simpler operators (paper 3.4)."""


def lowers(
    node_class: type[N],
) -> Callable[[Callable[[N, Rewriter], Replacement]], Callable[[N, Rewriter], Replacement]]:
    """Register a function as the lowering of *node_class*; it may return None to decline."""
    return LOWERINGS.register(node_class)
