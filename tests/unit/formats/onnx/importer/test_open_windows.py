"""Windows over images whose sizes only the run knows, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.parse import parse_function

POOLS: list[tuple[str, dict[str, Any]]] = [
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 1], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 1], "ceil_mode": 1}),
    ("AveragePool", {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}),
    ("AveragePool", {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("MaxPool", {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_LOWER"}),
]


@pytest.mark.parametrize(("op", "attributes"), POOLS)
def test_pools_with_rounded_and_chosen_pads_run_for_all_sizes(
    op: str, attributes: dict[str, Any]
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 2, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], **attributes)], "pool", [x], [y])
    opsets = [helper.make_opsetid("", 17)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    function = glow_nb.load(proto, open_sizes=True)
    assert not function.guards
    assert str(parse_function(str(function))) == str(function)
    assert {str(symbol) for symbol in function.sizes} == {"b", "h", "w"}
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    rng = np.random.default_rng(0)
    for height in range(3, 9):
        feeds = {"x": rng.standard_normal((1, 2, height, 11 - height), np.float32)}
        (wanted,) = session.run(None, feeds)
        np.testing.assert_allclose(evaluate(function, feeds)["y"], wanted, rtol=1e-5, atol=1e-6)
