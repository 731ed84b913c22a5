"""Small ONNX models for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
Shape = Sequence[int | str | None] | None


def value(name: str, shape: Shape = (2, 3), kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, array: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[str] = ("y",),
    weights: Sequence[onnx.TensorProto] = (),
    opset: int = 17,
    **options: Any,
) -> onnx.ModelProto:
    """Return a model whose outputs have undeclared types."""
    graph = helper.make_graph(
        list(nodes),
        "graph",
        list(inputs or [value("x")]),
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        list(weights),
    )
    opsets = options.pop("opset_imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **options)


def one(op: str, operands: Sequence[str] = ("x",), *, opset: int = 17, **rest: Any) -> Any:
    """Return a model of one node; *inputs* and *weights* go to the model, the rest to the node."""
    ends = {key: rest.pop(key) for key in ("inputs", "weights", "outputs") if key in rest}
    outputs = ends.get("outputs", ("y",))
    return model([helper.make_node(op, list(operands), list(outputs), **rest)], opset=opset, **ends)
