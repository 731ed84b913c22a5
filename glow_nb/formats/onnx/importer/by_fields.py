"""Import rules that follow from the fields of an operator class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

from glow_nb.base.errors import DefinitionError, ModelError
from glow_nb.base.schema import FieldSpec, attribute_specs, closest, operand_specs
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.hlir.graph import Node, Value

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer.import_context import ImportContext

Reader = Callable[["ImportContext", OnnxNode, str], Any]
"""Reads an attribute by its name; raises ModelError if it is absent or of another kind."""

READERS: Mapping[object, Reader] = {
    int: lambda _, node, name: node.integer(name),
    bool: lambda _, node, name: node.flag(name),
    float: lambda _, node, name: node.number(name),
    str: lambda _, node, name: node.text(name),
    ElementKind: lambda ctx, node, name: ctx.kind(node.integer(name)),
}
"""By the type of the field."""

_LIST_READERS: Mapping[object, Reader] = {
    int: lambda _, node, name: node.integers(name),
    bool: lambda _, node, name: tuple(number != 0 for number in node.integers(name)),
    float: lambda _, node, name: node.numbers(name),
    str: lambda _, node, name: node.texts(name),
    ElementKind: lambda ctx, node, name: tuple(map(ctx.kind, node.integers(name))),
}


def rule_by_fields(node_class: type[Node]) -> Callable[[ImportContext, OnnxNode], Value]:
    """Return the rule that makes a node of *node_class* of an ONNX node with the same fields.

    The operands are those of the class, in their order. The attributes are called like those of the
    class; one that the ONNX node leaves out is as by default.

    Raises:
        DefinitionError: ONNX has nothing like a field of the class.
    """
    operands = operand_specs(node_class)
    readers = {spec.name: _reader(node_class, spec) for spec in attribute_specs(node_class)}
    required = {spec.name for spec in attribute_specs(node_class) if not spec.has_default}
    for spec in operands[:-1]:
        if spec.is_variadic:
            raise DefinitionError(
                f"{node_class.__name__}.{spec.name}: only the last operand can be a tuple in ONNX; "
                "write a rule with glow_nb.extend.imports"
            )

    def rule(ctx: ImportContext, node: OnnxNode) -> Value:
        _check_names(node, readers)
        values = _operands(node, operands)
        for name, read in readers.items():
            if node.has(name) or name in required:
                values[name] = read(ctx, node, name)
        return node_class(**values)

    rule.__module__, rule.__name__ = node_class.__module__, node_class.__name__
    return rule


def _reader(node_class: type[Node], spec: FieldSpec) -> Reader:
    """Return what reads the attribute of a field."""
    kinds = {kind for kind in get_args(spec.annotation) if kind is not ...}
    reader = READERS.get(spec.annotation)
    if len(kinds) == 1:
        reader = _LIST_READERS.get(kinds.pop())
    if reader is None:
        raise DefinitionError(
            f"{node_class.__name__}.{spec.name}: ONNX has no attribute of type {spec.annotation}; "
            "write a rule with glow_nb.extend.imports"
        )
    return reader


def _check_names(node: OnnxNode, known: Mapping[str, Reader]) -> None:
    """Raise ModelError if *node* has an attribute that is not *known*."""
    for name in node.attributes:
        if name not in known:
            raise ModelError(
                f"{node.place}: {node.op} has no attribute {name!r}{closest(name, known)}"
            )


def _operands(node: OnnxNode, specs: tuple[FieldSpec, ...]) -> dict[str, Any]:
    """Return the operands of *node* by the names of their fields."""
    is_variadic = bool(specs) and specs[-1].is_variadic
    count = len(node.inputs)
    while count and node.inputs[count - 1] is None:  # a file may name those that it leaves out
        count -= 1
    if count > len(specs) and not is_variadic:
        names = ", ".join(spec.name for spec in specs) or "none"
        raise ModelError(
            f"{node.place}: it has {count} operands, {node.op} takes {len(specs)} ({names})"
        )
    values: dict[str, Any] = {}
    for index, spec in enumerate(specs):
        if spec.is_variadic:
            values[spec.name] = tuple(map(node.operand, range(index, count)))
        elif spec.is_optional:
            values[spec.name] = node.optional(index)
        else:
            values[spec.name] = node.operand(index)
    return values
