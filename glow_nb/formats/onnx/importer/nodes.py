"""The nodes of an ONNX model as its file has them, for people to look at."""

from __future__ import annotations

import onnx

from glow_nb.base.model_node import ModelNode
from glow_nb.formats.onnx.importer.model import normal_domain

MOST_LETTERS = 60
"""The text of an attribute that is longer is cut."""


def model_nodes(graph: onnx.GraphProto) -> list[ModelNode]:
    """Return the nodes of *graph* in its order; those inside of their bodies are left out.

    A node is called as what is imported from it calls its origin: by its name or, without one, by
    its first output.
    """
    return [_node(proto) for proto in graph.node]


def _node(proto: onnx.NodeProto) -> ModelNode:
    domain = normal_domain(proto.domain)
    attributes = ", ".join(f"{each.name} = {_value(each)}" for each in proto.attribute)
    return ModelNode(
        name=proto.name or next(filter(None, proto.output), proto.op_type),
        operator=f"{domain}.{proto.op_type}" if domain else proto.op_type,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes=attributes,
    )


def _value(attribute: onnx.AttributeProto) -> str:
    """Return the value of *attribute* as text, without the numbers of tensors."""
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.FLOAT:
            text = f"{attribute.f:g}"
        case kinds.INT:
            text = str(attribute.i)
        case kinds.STRING:
            text = attribute.s.decode("utf-8", "replace")
        case kinds.FLOATS:
            text = "[" + ", ".join(f"{each:g}" for each in attribute.floats[:MOST_LETTERS]) + "]"
        case kinds.INTS:
            text = "[" + ", ".join(map(str, attribute.ints[:MOST_LETTERS])) + "]"
        case kinds.TENSOR:
            text = f"tensor {list(attribute.t.dims)}"
        case kinds.GRAPH:
            text = f"graph of {len(attribute.g.node)} nodes"
        case other:
            text = onnx.AttributeProto.AttributeType.Name(other).lower()
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."
