"""One ONNX node as the rules see it: operands that are values, attributes with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import onnx
from onnx import AttributeProto

from glow_nb.base.errors import ModelError
from glow_nb.base.schema import closest
from glow_nb.formats.onnx.schema.element_kinds import tensor_type
from glow_nb.hlir.graph import Value

_TYPE_FIELDS = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
}


@dataclass(frozen=True)
class OnnxNode:
    """A node whose inputs have been imported.

    Attributes:
        proto: The message.
        schema: Its definition, None for an operator that ONNX does not define.
        opset: The version of its domain.
        inputs: The operands; None where the node leaves an optional one out.
        attributes: Its attributes by name, references to a function's attributes replaced.
        place: The name in errors.
    """

    proto: onnx.NodeProto
    schema: onnx.defs.OpSchema | None
    opset: int
    inputs: tuple[Value | None, ...]
    attributes: Mapping[str, AttributeProto]
    place: str

    @property
    def op(self) -> str:
        """The operator's name."""
        return str(self.proto.op_type)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, empty for one that is left out, trailing ones cut."""
        names = list(self.proto.output)
        while names and not names[-1]:
            names.pop()
        return tuple(names)

    def wants(self, index: int) -> bool:
        """Return whether output *index* is used."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def optional(self, index: int) -> Value | None:
        """Return operand *index*, None if it is absent."""
        return self.inputs[index] if index < len(self.inputs) else None

    def operand(self, index: int) -> Value:
        """Return operand *index*; raise ModelError if it is absent."""
        value = self.optional(index)
        if value is None:
            raise ModelError(f"{self.place}: operand {index} is missing; export the model again")
        return value

    @property
    def operands(self) -> tuple[Value, ...]:
        """All operands of a variadic operator, at least one."""
        if not self.inputs:
            raise ModelError(f"{self.place}: it has no operand; export the model again")
        return tuple(self.operand(index) for index in range(len(self.inputs)))

    def has(self, name: str) -> bool:
        """Return whether the node itself gives attribute *name*."""
        return name in self.attributes

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an integer attribute, from the node, *default* or the definition."""
        return int(self._get(name, AttributeProto.INT, default).i)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """Return an integer attribute that means yes or no."""
        return self.integer(name, default) != 0

    def number(self, name: str, default: float | None = None) -> float:
        """Return a float attribute, from the node, *default* or the definition.

        An attribute is a float32; a *default* is not rounded to one.
        """
        if default is not None and not self.has(name):
            return default
        return float(self._get(name, AttributeProto.FLOAT, None).f)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string attribute, from the node, *default* or the definition."""
        data: bytes = self._get(name, AttributeProto.STRING, default).s
        return data.decode("utf-8", "backslashreplace")

    def texts(self, name: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return an attribute that is a list of strings."""
        data = self._get(name, AttributeProto.STRINGS, default).strings
        return tuple(item.decode("utf-8", "backslashreplace") for item in data)

    def integers(self, name: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        return tuple(self._get(name, AttributeProto.INTS, default).ints)

    def numbers(self, name: str, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """Return an attribute that is a list of floats; a *default* is not rounded to float32."""
        if default is not None and not self.has(name):
            return default
        return tuple(self._get(name, AttributeProto.FLOATS, None).floats)

    def message(self, name: str) -> AttributeProto:
        """Return a tensor or graph attribute as its message; raise ModelError if it is absent."""
        if name not in self.attributes:
            raise ModelError(f"{self.place}: attribute {name!r} is missing; export the model again")
        return self.attributes[name]

    def _get(self, name: str, kind: int, default: object) -> AttributeProto:
        attribute = self.attributes.get(name)
        if attribute is None:
            return self._default(name, kind, default)
        if attribute_type(attribute) != kind:
            wanted = AttributeProto.AttributeType.Name(kind)
            got = AttributeProto.AttributeType.Name(attribute_type(attribute))
            raise ModelError(f"{self.place}: attribute {name!r} must be {wanted}, it is {got}")
        return attribute

    def _default(self, name: str, kind: int, default: object) -> AttributeProto:
        if default is not None:
            return onnx.helper.make_attribute(name, default, attr_type=kind)
        known = self.schema.attributes.get(name) if self.schema else None
        if known is None or not known.default_value.name:
            raise ModelError(f"{self.place}: attribute {name!r} is missing; export the model again")
        default_value: AttributeProto = known.default_value
        return default_value


def attribute_type(attribute: AttributeProto) -> int:
    """Return the type of an attribute; old files leave it to be guessed from the fields."""
    if attribute.type != AttributeProto.UNDEFINED:
        return int(attribute.type)
    for kind, field in _TYPE_FIELDS.items():
        filled = (
            attribute.HasField(field) if len(field) == 1 else bool(getattr(attribute, field, ()))
        )
        if filled:
            return kind
    return int(AttributeProto.INTS)


def check_against_schema(node: OnnxNode) -> None:
    """Raise ModelError unless operands, outputs and attributes are those the operator has."""
    schema = node.schema
    if schema is None:
        return
    count, results = len(node.proto.input), len(node.proto.output)
    if not schema.min_input <= count <= schema.max_input:
        raise ModelError(
            f"{node.place}: it has {count} operands, {_span(schema.min_input, schema.max_input)} "
            f"are right in opset {node.opset}; export the model again"
        )
    if results > schema.max_output:
        raise ModelError(
            f"{node.place}: it has {results} outputs, at most {schema.max_output} are right in "
            f"opset {node.opset}; export the model again"
        )
    for name in node.attributes:
        if name not in schema.attributes:
            raise ModelError(
                f"{node.place}: it has no attribute {name!r} in opset {node.opset}"
                f"{closest(name, schema.attributes)}; export the model again"
            )


def allows_kinds(node: OnnxNode, schema: onnx.defs.OpSchema) -> bool:
    """Return whether the definition allows operands of these element kinds."""
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for index, value in enumerate(node.inputs):
        type = schema.inputs[min(index, len(schema.inputs) - 1)].type_str
        if value and tensor_type(value.type.kind) not in allowed.get(type, (type,)):
            return False
    return True


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
