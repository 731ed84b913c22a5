"""ONNX's node tests as models of 16-bit floats, and as the same models of wider ones.

Every operator that has a node test is drawn, without being named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

from glow_nb.base.types import Array, ElementKind
from glow_nb.formats.onnx.schema.element_kinds import code_of

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


@dataclass(frozen=True)
class NarrowModel:
    """A node test whose operands may be 16-bit floats.

    Attributes:
        name: The test.
        operator: The operator, with its domain unless that is ONNX's own.
        proto: The model of the test.
        given: The inputs of the test.
        drawn: Names of the inputs that become 16-bit floats.
    """

    name: str
    operator: str
    proto: onnx.ModelProto
    given: dict[str, Array]
    drawn: frozenset[str]

    def model(self, kind: ElementKind) -> onnx.ModelProto:
        """Return the model with the inputs that are drawn of *kind*, and any kind of outputs."""
        model = onnx.ModelProto()
        model.CopyFrom(self.proto)
        for info in model.graph.input:
            if info.name in self.drawn:
                info.type.tensor_type.elem_type = code_of(kind)
        for info in model.graph.output:
            info.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
        return model

    def feeds(self, generator: np.random.Generator, greatest: float) -> dict[str, Array]:
        """Return inputs: floats of up to *greatest* in size, anything else as the test has it.

        A single number stays, too: it may be a size or a bound.
        """
        return {
            name: generator.uniform(-greatest, greatest, array.shape)
            if name in self.drawn and array.size > 1
            else array
            for name, array in self.given.items()
        }


def narrow_model(case: Any, kind: ElementKind) -> NarrowModel | None:
    """Return node test *case* with 16-bit floats of *kind*, None if it cannot have them.

    It cannot if its operator takes none, or no plain tensors, or holds a graph, which would have to
    be typed anew; and if it is no single node but an operator's expansion.
    """
    graph = case.model.graph
    if len(graph.node) != 1 or graph.initializer or case.model.functions:
        return None
    (node,) = graph.node
    if node.op_type == "BitCast":  # the target has as many bits as the test's own kind
        return None
    infos = (*graph.input, *graph.output)
    if any(a.type in _GRAPHS for a in node.attribute) or not all(map(_is_tensor, infos)):
        return None
    opset = next(o.version for o in case.model.opset_import if o.domain == node.domain)
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    open_types = {
        c.type_param_str
        for c in schema.type_constraints
        if {f"tensor({kind.value})", "tensor(float)"} <= set(c.allowed_type_strs)
    }
    last = len(schema.inputs) - 1
    parameters = {name: schema.inputs[min(i, last)].type_str for i, name in enumerate(node.input)}
    operands = {name: type for name, type in parameters.items() if name and type in open_types}
    floats = {type for i in graph.input if _is_float(i) and (type := operands.get(i.name))}
    drawn = frozenset(name for name, type in operands.items() if type in (floats or open_types))
    if not drawn:
        return None
    given = {i.name: _array(v) for i, v in zip(graph.input, case.data_sets[0][0], strict=True)}
    label = f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)
    return NarrowModel(case.name, label, case.model, given, drawn)


def _is_tensor(info: onnx.ValueInfoProto) -> bool:
    return bool(info.type.WhichOneof("value") == "tensor_type")


def _is_float(info: onnx.ValueInfoProto) -> bool:
    return info.type.tensor_type.elem_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE)


def _array(value: Any) -> Array:
    is_message = isinstance(value, onnx.TensorProto)
    return onnx.numpy_helper.to_array(value) if is_message else np.asarray(value)
