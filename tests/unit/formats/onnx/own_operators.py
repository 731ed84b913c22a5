"""Operators that a user adds, and models of them, for tests of their import and export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from typing_extensions import override

from glow_nb.base.types import Array, TensorType
from glow_nb.extend import define_node, onnx_operator
from glow_nb.hlir.graph import Node, Value

DOMAIN = "test.own"


def row_normalize() -> type[Any]:
    """Return a new operator that divides rows by their lengths, one of the domain."""

    @onnx_operator(DOMAIN, "RowNormalize")
    @define_node("test_row_normalize")
    class RowNormalize(Node):
        input: Value
        scale: Value | None = None
        epsilon: float = 1e-5

        @override
        def infer_type(self) -> TensorType:
            return self.input.type

        @override
        def evaluate(self, input: Array, scale: Array | None) -> Array:
            length = np.sqrt((input**2).sum(1, keepdims=True) + self.epsilon)
            return np.asarray(input / length * (1 if scale is None else scale))

    return RowNormalize


def model(
    op: str,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 1,
    functions: Sequence[onnx.FunctionProto] = (),
    rows: int | str = 2,
    **attributes: Any,
) -> onnx.ModelProto:
    """Return a model of one node of the domain, between floats ``[rows, 3]``."""
    node = helper.make_node(op, inputs, outputs, name="node", domain=DOMAIN, **attributes)
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 3]) for name in ("x", "y")
    ]
    opsets = [helper.make_opsetid("", 20)]
    if opset:
        opsets.append(helper.make_opsetid(DOMAIN, opset))
    graph = helper.make_graph([node], "graph", infos[:1], infos[1:])
    return helper.make_model(graph, opset_imports=opsets, functions=functions)


X = np.arange(6, dtype=np.float32).reshape(2, 3)


def typed(annotation: Any, **defaults: object) -> type[Any]:
    """Return a new operator with one attribute of a type, and several operands and results."""
    members = {
        "__annotations__": {"inputs": tuple[Value, ...], "it": annotation},
        "infer_types": lambda self: (self.inputs[0].type, self.inputs[0].type),
        **defaults,
    }
    return onnx_operator(DOMAIN, "Typed")(
        define_node("test_typed")(type("Typed", (Node,), members))
    )
