"""The bond between an instruction and the high-level operator that it carries out.

An instruction repeats the fields of its node with buffers instead of values. So the type inference
of the node verifies it, and the node's ``evaluate`` is its meaning; neither is written twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from typing_extensions import override

from glow_nb.base.schema import FieldSpec, changed_operands, fields_of, per_item
from glow_nb.hlir.graph import Node, Placeholder
from glow_nb.llir.program import Buffer, Instruction, mutated


@dataclass(frozen=True, eq=False, repr=False)
class NodeInstruction(Instruction):
    """Base of the instructions that carry out one high-level operator.

    The ``@out`` operands take the node's results in order; every other field has the name and the
    meaning of the node's field.
    """

    @per_item
    def as_node(self) -> Node:
        """Return the operator that this instruction carries out, over placeholders.

        Its types, attributes and ``evaluate`` mean something, its operands do not.

        Raises:
            VerifyError: The operands or attributes do not fit the operator.
        """
        node_class = self.node_class
        assert node_class is not None, f"{type(self).__name__} is defined without node="
        fields = {spec.name: _for_node(spec, getattr(self, spec.name)) for spec in _specs(self)}
        predicate = None if self.predicate is None else _placeholder(self.predicate)
        node: Node = node_class(**fields, predicate=predicate, name=self.name, plan=self.plan)
        return node

    @override
    def verify(self) -> None:
        expected = self.as_node().result_types
        outs = mutated(self)
        for buffer, wanted in zip(outs, expected, strict=True):
            if buffer.type != wanted:  # a message for each instruction takes long to write
                self.require(False, f"{buffer!r} is {buffer.type}, the result is {wanted}")

    @override
    def map_operands(self, function: Callable[[Buffer], Buffer]) -> Self:
        changes = changed_operands(self, function)
        if not changes:
            return self
        if not self._surely_fit(changes):
            return dataclasses.replace(self, **changes)
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        copy = object.__new__(type(self))
        copy.__dict__.update(kept, **changes)
        return copy

    def _surely_fit(self, changes: Mapping[str, Any]) -> bool:
        """Return whether *changes* are operands of the same types: no more is verified."""
        return type(self).verify is NodeInstruction.verify and all(
            _types_of(getattr(self, name)) == _types_of(new) for name, new in changes.items()
        )


def _specs(instruction: NodeInstruction) -> tuple[FieldSpec, ...]:
    return fields_of(instruction.node_class) if instruction.node_class else ()


def _for_node(spec: FieldSpec, value: Any) -> Any:
    if not spec.is_operand or value is None:
        return value
    return tuple(map(_placeholder, value)) if spec.is_variadic else _placeholder(value)


def _types_of(operands: Any) -> Any:
    """Return the type of an operand, or those of several."""
    return tuple(map(_types_of, operands)) if isinstance(operands, tuple) else operands.type


def _placeholder(buffer: Buffer) -> Placeholder:
    return Placeholder(buffer.name, buffer.type)
