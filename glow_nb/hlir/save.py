"""``save``, which writes an output or a state."""

from __future__ import annotations

from typing import ClassVar, TypeGuard

from typing_extensions import override

from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Placeholder, State, Value, define_node


@define_node("save")
class Save(Node):
    """Write a value into an output or a state: the only exit of a function (paper 3.1).

    Attributes:
        input: The value that is written.
        output: The output or the state that it is written to.
    """

    has_side_effects: ClassVar[bool] = True
    input: Value
    output: Placeholder

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        self.require(isinstance(self.output, Placeholder), f"{self.output} is not a placeholder")
        self.require(
            self.input.type == self.output.type,
            f"value {self.input} does not fit placeholder {self.output}",
        )
        return ()

    @property
    @override
    def updates_state(self) -> bool:
        return isinstance(self.output, State)

    @override
    def evaluate(self, input: Array, output: Array) -> tuple[()]:
        return ()


def is_update(node: Node) -> TypeGuard[Save]:
    """Return whether *node* is the ``save`` of a state."""
    return isinstance(node, Save) and node.updates_state
