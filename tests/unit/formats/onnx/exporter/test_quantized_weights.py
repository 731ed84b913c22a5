"""Networks of integers in files: each product has integers as weights, as engines look for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import glow_nb
from glow_nb import quant
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.graph import Function
from tests.unit.formats.onnx.importer.models import weight

RNG = np.random.default_rng(3)
IMAGE = (1, 8, 6, 6)

LAYERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, dict[str, Any]]] = {
    "pointwise": (IMAGE, (16, 8, 1, 1), "Conv", {}),
    "3 x 3": (IMAGE, (16, 8, 3, 3), "Conv", {}),
    "depthwise": (IMAGE, (8, 1, 3, 3), "Conv", {"group": 8}),
    "groups": (IMAGE, (16, 4, 3, 3), "Conv", {"group": 2}),
    "one channel": ((1, 1, 6, 6), (16, 1, 3, 3), "Conv", {}),
    "one result": (IMAGE, (1, 8, 3, 3), "Conv", {}),
    "audio": ((1, 8, 20), (16, 8, 5), "Conv", {}),
    "audio of points": ((1, 8, 20), (16, 8, 1), "Conv", {}),
    "video": ((1, 8, 4, 4, 4), (16, 8, 2, 2, 2), "Conv", {}),
    "transposed": (IMAGE, (8, 16, 2, 2), "ConvTranspose", {"strides": [2, 2]}),
    "dense": ((4, 8), (8, 16), "Gemm", {}),
    "matrix": ((4, 8), (8, 16), "MatMul", {}),
}


def quantized_layer(name: str) -> Function:
    shape, filter, op, attributes = LAYERS[name]
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node(op, ["x", "w"], ["y"], "the layer", **attributes)],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [weight("w", RNG.normal(size=filter).astype(np.float32))],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    function = import_onnx(model)
    samples = [{"x": RNG.normal(size=shape).astype(np.float32)} for _ in range(2)]
    ranges = quant.calibrate(function, samples, backend="interpreter")
    return quant.quantize(function, ranges, least_gain=0)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_are_integers_right_before_their_product(name: str, tmp_path: Any) -> None:
    function = quantized_layer(name)
    path = tmp_path / "q.onnx"
    glow_nb.export_onnx(function, path)
    graph = onnx.load(path).graph
    (layer,) = (node for node in graph.node if node.name == "the layer")
    assert layer.op_type in (LAYERS[name][2], "MatMul", "Gemm")
    (before,) = (node for node in graph.node if layer.input[1] in node.output)
    assert before.op_type == "DequantizeLinear"
    assert before.input[0] in {tensor.name for tensor in graph.initializer}
    for made in (function, import_onnx(path)):
        opcodes = {node.opcode for node in glow_nb.optimize(made).nodes}
        assert opcodes.isdisjoint({"convolution", "mat_mul", "fully_connected"})
        assert any(opcode.startswith("quantized_") for opcode in opcodes)
