"""Export rules that follow from the fields of an operator class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from onnx import AttributeProto
from onnx.helper import make_attribute

from glow_nb.base.errors import UnsupportedError
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
    """Return what a field of *node* is in ONNX; raise UnsupportedError if it does not fit."""
    value = getattr(node, spec.name)
    is_list = isinstance(value, tuple)
    kind = (
        next(k for k in get_args(spec.annotation) if k is not ...) if is_list else spec.annotation
    )
    code = _TYPES[kind][is_list]
    try:
        stored = [_stored(item) for item in (value if is_list else (value,))]
        return make_attribute(spec.name, stored if is_list else stored[0], attr_type=code)
    except (OverflowError, ValueError) as error:
        raise UnsupportedError(
            f"{node.name!r}: {spec.name}={value!r:.80} does not fit into an attribute of type "
            f"{AttributeProto.AttributeType.Name(code)} of ONNX ({error}); choose another value"
        ) from error


def _stored(item: Any) -> Any:
    """Return what an attribute holds for an *item* of a field."""
    if isinstance(item, ElementKind):
        return code_of(item)
    if isinstance(item, float):
        return _as_single(item)
    return int(item) if isinstance(item, bool) else item


def _as_single(number: float) -> float:
    """Return the float32 next to *number*; raise OverflowError if it is far from it."""
    with np.errstate(over="ignore", under="ignore"):
        single = float(np.float32(number))
    if math.isinf(single) > math.isinf(number) or (single == 0) > (number == 0):
        raise OverflowError(f"the float32 next to it is {single}")
    return single
