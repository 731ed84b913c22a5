"""ONNX functions: operators that are defined by a graph of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import onnx

from glow_nb.base.errors import ModelError
from glow_nb.base.size import Size
from glow_nb.formats.onnx.importer.model import Model, normal_domain
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.schema.element_kinds import code_of
from glow_nb.hlir.graph import Value

FunctionKey = tuple[str, str, str]


def local_functions(model: Model) -> dict[FunctionKey, onnx.FunctionProto]:
    """Return the functions a model brings along, by domain, name and overload."""
    return {(normal_domain(f.domain), f.name, f.overload): f for f in model.proto.functions}


def key_of(node: onnx.NodeProto) -> FunctionKey:
    """Return what a node calls: the key of a function that the model may bring along."""
    return (normal_domain(node.domain), node.op_type, node.overload)


def schema_function(node: OnnxNode) -> onnx.FunctionProto | None:
    """Return the body that ONNX defines for an operator, for the operands it has here."""
    schema = node.schema
    if schema is None:
        return None
    versions = [v for v in schema.function_opset_versions if v <= node.opset]
    if versions:
        return _fixed_body(schema.domain, schema.name, node.opset, max(versions))
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= node.opset]
    if not versions:
        return None
    try:
        body = schema.get_context_dependent_function_with_opset_version(
            max(versions), _self_contained(node).SerializeToString(), _types(node.inputs)
        )
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{node.place}: ONNX cannot expand it: {error}") from error
    return _parsed(body) if body else None


@cache
def _fixed_body(domain: str, name: str, opset: int, version: int) -> onnx.FunctionProto:
    schema = onnx.defs.get_schema(name, opset, domain)
    return _parsed(schema.get_function_with_opset_version(version))


def _parsed(body: bytes) -> onnx.FunctionProto:
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    return function


def _self_contained(node: OnnxNode) -> onnx.NodeProto:
    """Return the message with references to a calling function's attributes replaced."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    del proto.attribute[:]
    proto.attribute.extend(node.attributes.values())
    return proto


def _types(values: Sequence[Value | None]) -> list[bytes]:
    return [_type(value).SerializeToString() for value in values]


def _type(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    shape = [str(size) if isinstance(size, Size) else size for size in value.type.shape]
    return onnx.helper.make_tensor_type_proto(code_of(value.type.kind), shape)


def call_attributes(
    node: OnnxNode, function: onnx.FunctionProto
) -> Mapping[str, onnx.AttributeProto]:
    """Return the values of the body's attribute references: given values, or defaults."""
    attributes = {a.name: a for a in function.attribute_proto}
    if node.schema is not None:
        for name, known in node.schema.attributes.items():
            if known.default_value.name:
                attributes[name] = known.default_value
    attributes.update(node.attributes)
    return attributes


def resolved_attributes(
    proto: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto] | None
) -> dict[str, onnx.AttributeProto]:
    """Return a node's attributes; a reference takes its value from *given* or is left out."""
    attributes: dict[str, onnx.AttributeProto] = {}
    for attribute in proto.attribute:
        if not attribute.ref_attr_name:
            attributes[attribute.name] = attribute
        elif given is not None and attribute.ref_attr_name in given:
            value = onnx.AttributeProto()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
            attributes[attribute.name] = value
    return attributes
