"""Instructions that correspond to one operator, made from its fields.

An operator with a formula (``scalar`` of its definition) has such an instruction automatically; it
is made at first use, so operators may be defined at any time. :func:`derive_instruction`
defines one for an operator without a formula.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

from glow_nb.base.errors import DefinitionError, UnsupportedError
from glow_nb.base.schema import (
    FieldSpec,
    Unsaid,
    as_dataclass,
    fields_of,
    operand_specs,
    per_class,
)
from glow_nb.hlir import ops
from glow_nb.hlir.graph import NODES, Node
from glow_nb.llir.instructions.node_instruction import NodeInstruction
from glow_nb.llir.program import (
    INSTRUCTIONS,
    In,
    Instruction,
    ManyIn,
    OptionalIn,
    Out,
    define_instruction,
)
from glow_nb.llir.scalar import table_names

_ONE = ("dest",)
"""The name of an only result."""


def derive_instruction(
    node_class: type[Node],
    *,
    results: tuple[str, ...] = _ONE,
    inplace: tuple[tuple[str, str], ...] = (),
    verify: Callable[[Any], None] | None = None,
) -> type[Any]:
    """Define the instruction with the fields of *node_class*, and return it.

    It has the operator's opcode and attributes, and a buffer for each operand. With the plugin
    ``tests/mypy_plugin.py``, mypy sees a class with these fields; otherwise its static type is Any.

    Args:
        node_class: The operator.
        results: A name for each of its results.
        inplace: Pairs of a result and an operand that may have exactly the same memory.
        verify: A function of an instruction that raises VerifyError for what the operator allows
            and a kernel cannot run.

    Raises:
        DefinitionError: The operator has several results, and they are not named.
    """
    fields = _fields_like(node_class, results)
    if verify is not None:
        fields["verify"] = _after_types(verify)
    made: type[NodeInstruction] = type(f"{node_class.__name__}Inst", (NodeInstruction,), fields)
    return define_instruction(node_class.opcode, inplace=inplace, node=node_class)(made)


def _after_types(verify: Callable[[Any], None]) -> Callable[[NodeInstruction], None]:
    """Return a method that verifies types, as all instructions do, and calls *verify* then."""

    def verify_all(instruction: NodeInstruction) -> None:
        NodeInstruction.verify(instruction)
        verify(instruction)

    return verify_all


def instruction_for(node_class: type[Node]) -> type[Any]:
    """Return the instruction of *node_class*: a defined one, or that of its formula.

    Raises:
        UnsupportedError: There is none.
        DefinitionError: The operator has a formula, but none can be made for it.
    """
    for instruction_class in INSTRUCTIONS.values():
        if instruction_class.node_class is node_class:
            return instruction_class
    if not node_class.scalar:
        raise UnsupportedError(f"operator {node_class.opcode!r} has no instruction; define one")
    return _of_formula(node_class)


def has_instruction(node_class: type[Node]) -> bool:
    """Return whether :func:`instruction_for` returns an instruction."""
    defined = (instruction_class.node_class for instruction_class in INSTRUCTIONS.values())
    return bool(node_class.scalar) or node_class in defined


def known_instructions() -> dict[str, type[Instruction]]:
    """Return all instructions by opcode: those of operators with a formula, and the defined ones.

    Instructions of an earlier definition of an operator with a formula are not among them.
    """
    formulas = {
        opcode: instruction_for(node_class)
        for opcode, node_class in NODES.items()
        if node_class.scalar
    }
    return {**INSTRUCTIONS, **formulas}


def find_instruction(opcode: str) -> type[Instruction] | None:
    """Return the instruction called *opcode*, None if there is none."""
    node_class = NODES.get(opcode)
    if node_class is not None and node_class.scalar:
        return instruction_for(node_class)
    return INSTRUCTIONS.get(opcode)


@per_class
def _of_formula(node_class: type[Node]) -> type[Instruction]:
    known = INSTRUCTIONS.get(node_class.opcode)
    if known is not None and known.node_class is None:
        raise DefinitionError(
            f"operator {node_class.opcode!r}: an instruction of no operator is called like that; "
            "choose another name"
        )
    fields = _fields_like(node_class, _ONE)
    fields |= {"opcode": node_class.opcode, "scalar": node_class.scalar, "node_class": node_class}
    # each element of an operand is read before that of the result is written, but for tables
    names = [spec.name for spec in operand_specs(node_class)]
    tables = table_names(node_class.scalar)
    fields["inplace"] = tuple(("dest", name) for name in names if name not in tables)
    return as_dataclass(type(f"{node_class.__name__}Inst", (NodeInstruction,), fields))


def _fields_like(node_class: type[Node], results: tuple[str, ...]) -> dict[str, Any]:
    """Return the body of a class with the fields of *node_class* after those of the results."""
    if node_class.infer_types is not Node.infer_types and results == _ONE:
        raise DefinitionError(
            f"operator {node_class.opcode!r} says how many results it has by infer_types(), and an "
            "instruction of one result is derived; name them all, as results=('values', 'indices')"
        )
    operands = {spec.name: _annotation(spec) for spec in fields_of(node_class)}
    defaults = {f.name: f.default for f in dataclasses.fields(node_class) if f.name in operands}
    return {
        **{name: value for name, value in defaults.items() if value is not dataclasses.MISSING},
        "__annotations__": {**dict.fromkeys(results, Out), **operands},
        "__doc__": node_class.__doc__,
        "__module__": node_class.__module__,
        "__reduce__": _reduced,
    }


def _reduced(instruction: NodeInstruction) -> tuple[Any, ...]:
    """Let a pickle name the operator, as no module has the class that was made for it."""
    values = {f.name: getattr(instruction, f.name) for f in dataclasses.fields(instruction)}
    return _made_again, (instruction.node_class, values)


def _made_again(node_class: type[Node], values: dict[str, Any]) -> Any:
    return instruction_for(node_class)(**values)


def _annotation(spec: FieldSpec) -> Any:
    if not spec.is_operand:
        return Annotated[spec.annotation, Unsaid()] if spec.is_unsaid else spec.annotation
    if spec.is_variadic:
        return ManyIn
    return OptionalIn if spec.is_optional else In


for _node_class in (
    *(ops.BatchNormalization, ops.Convolution, ops.FullyConnected, ops.MatMul),
    *(ops.Bernoulli, ops.Dropout, ops.RandomNormal, ops.RandomUniform),
):
    derive_instruction(_node_class)
