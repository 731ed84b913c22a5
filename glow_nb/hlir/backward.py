"""The builder that gradient rules get."""

from __future__ import annotations

from typing import TypeVar

from typing_extensions import override

from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.formulas.terms import Term, terms

N = TypeVar("N", bound=Node)

PREFIX = "d_"
"""How the names of gradients begin: ``d_w`` is that of ``w``."""


class Backward(Builder):
    """Collects the backward nodes of a function; it already holds the forward nodes.

    Attributes:
        current: The node that is differentiated: what is emitted is named after it.
        dependent: The values whose gradients are needed for a requested one.
    """

    current: Node | None = None
    dependent: frozenset[Value] = frozenset()

    @override
    def emit(self, node: N, name: str | None = None) -> N:
        """Append *node*, by default named after the node that is differentiated and its opcode."""
        if self.current is None:
            return super().emit(node, name)
        emitted = super().emit(node, name or f"{PREFIX}{self.current.name}_{node.opcode}")
        self.origins[emitted.name] = self.origins.get(self.current.name, (self.current.name,))
        return emitted

    def wants(self, operand: Value | None) -> bool:
        """Return whether the gradient of *operand* is needed for a requested one."""
        return operand in self.dependent

    def term(self, value: Value) -> Term:
        """Return *value* as a term, whose arithmetic in Python emits nodes."""
        return Term(self, value)

    def terms(self, *values: Value) -> tuple[Term, ...]:
        """Return *values* as terms, see :meth:`term`."""
        return terms(self, *values)

    def filled(self, type: TensorType, number: float, name: str | None = None) -> Value:
        """Return a tensor of *type* with *number* everywhere."""
        one = self.number(type, number)
        return one if one.type == type else self.emit(Broadcast(one, type.shape), name)
