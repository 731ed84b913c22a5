"""Small ONNX models with open sizes for the tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import glow_nb
from glow_nb.base.types import Array

Shape = Sequence[int | str | None]


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    weights: Mapping[str, object],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def floats(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def node_of(op: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], **attributes)


def loaded(model: onnx.ModelProto) -> glow_nb.Function:
    loaded = glow_nb.load(model, open_sizes=True)
    return loaded
