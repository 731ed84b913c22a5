"""Registries of rules by operator, so that a rule can be in the same file as its operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from glow_nb.base.schema import RuleTable
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.rewrite import Replacement, Rewriter

if TYPE_CHECKING:
    from glow_nb.hlir.backward import Backward

N = TypeVar("N", bound=Node)

LoweringRule = Callable[[Any, Rewriter], Replacement]
"""Takes a node and the builder of what replaces it; returns that, or None to decline."""

LOWERINGS: RuleTable[type[Node], LoweringRule] = RuleTable("lowering of")
"""Operator class to the rule that expresses it in simpler operators (paper 3.4)."""


def lowers(
    node_class: type[N],
) -> Callable[[Callable[[N, Rewriter], Replacement]], Callable[[N, Rewriter], Replacement]]:
    """Register a function as the lowering of *node_class*; it may return None to decline."""
    return LOWERINGS.register(node_class)


OperandGradients = Mapping[str, Value | tuple[Value | None, ...] | None]
"""The gradient of each operand field of a node; no gradient flows to one that is None or absent."""

GradientRule = Callable[[Any, Any, "Backward"], OperandGradients]
"""Takes a node, the gradient of its result, and the builder of the backward nodes.

For a node with several results it gets a tuple, with None for results that nothing depends on.
"""

GRADIENTS: RuleTable[type[Node], GradientRule] = RuleTable("gradient of")
"""Operator class to the rule that makes the gradients of its operands (paper 3.1)."""

WITHOUT_GRADIENT: RuleTable[type[Node], str] = RuleTable("gradient of")
"""Operator class to the reason why nothing can be differentiated through it."""


def gradient(*node_classes: type[Node]) -> Callable[[GradientRule], GradientRule]:
    """Register a function as the gradient rule of *node_classes*."""
    return GRADIENTS.register(*node_classes)


def no_gradient(reason: str, *node_classes: type[Node]) -> None:
    """Declare that *node_classes* have no gradient: errors show ``{opcode}: {reason}``."""
    for node_class in node_classes:
        WITHOUT_GRADIENT.add(node_class, reason)
