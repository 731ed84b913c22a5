"""Export rules that follow from the fields of an operator class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import onnx
from onnx import AttributeProto

from glow_nb.base.open_size_error import open_error
from glow_nb.base.schema import FieldSpec, attribute_specs, attributes_of, operand_specs
from glow_nb.base.size import symbols_in
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import ExportRule
from glow_nb.formats.onnx.exporter.writer import Operator, Writer
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.hlir.graph import Node, Value

_TYPES: Mapping[object, tuple[int, int]] = {
    int: (AttributeProto.INT, AttributeProto.INTS),
    bool: (AttributeProto.INT, AttributeProto.INTS),
    float: (AttributeProto.FLOAT, AttributeProto.FLOATS),
    str: (AttributeProto.STRING, AttributeProto.STRINGS),
    ElementKind: (AttributeProto.INT, AttributeProto.INTS),
}
"""The types of an attribute and of a list of them, by the type of a field."""


def export_by_fields(operator: Operator) -> ExportRule:
    """Return the rule that writes nodes as an *operator* with the fields of their class."""

    def write(writer: Writer, node: Any) -> tuple[Value, ...]:
        for symbol in symbols_in(attributes_of(node).values()):
            raise open_error(symbol.size, f"{node.name!r}, {operator.name}, has it in an attribute")
        attributes = [_attribute(spec, node) for spec in attribute_specs(type(node))]
        return writer.own_steps(operator, node.result_types, _operands(node), attributes)

    return write


def _operands(node: Node) -> list[Value | None]:
    operands: list[Value | None] = []
    for spec in operand_specs(type(node)):
        value = getattr(node, spec.name)
        operands += value if spec.is_variadic else (value,)
    return operands


def _attribute(spec: FieldSpec, node: Node) -> AttributeProto:
    value = getattr(node, spec.name)
    if isinstance(value, tuple):
        kind = next(each for each in get_args(spec.annotation) if each is not ...)
        return onnx.helper.make_attribute(
            spec.name, list(map(_stored, value)), attr_type=_TYPES[kind][1]
        )
    return onnx.helper.make_attribute(
        spec.name, _stored(value), attr_type=_TYPES[spec.annotation][0]
    )


def _stored(item: Any) -> Any:
    """Return what an attribute holds for an *item* of a field."""
    if isinstance(item, ElementKind):
        return code_of(item)
    return int(item) if isinstance(item, bool) else item
