"""Networks that ONNX Runtime has quantized: islands of integers, and the results of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import glow_nb
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate
from glow_nb.network.compilation import optimize
from tests.exact_sessions import exact_session
from tests.in_turn import marked
from tests.unit.formats.onnx.importer.models import weight

RANDOM = np.random.default_rng(7)
SHAPE = (1, 3, 12, 12)


def network() -> onnx.ModelProto:
    """Return two branches of convolutions, a sum, a concat, pools and a dense layer."""
    weights: dict[str, Any] = {}

    def convolution(x: str, y: str, depth: int, channels: int, size: int, **more: Any) -> Any:
        shape = (depth, channels // more.get("group", 1), size, size)
        weights[f"{y}_w"] = RANDOM.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float32)
        weights[f"{y}_b"] = RANDOM.normal(0, 0.2, depth).astype(np.float32)
        pads = [size // 2] * 4
        return helper.make_node("Conv", [x, f"{y}_w", f"{y}_b"], [y], pads=pads, **more)

    weights["dense_w"] = RANDOM.normal(0, 0.3, (24, 5)).astype(np.float32)
    weights["dense_b"] = RANDOM.normal(0, 0.3, 5).astype(np.float32)
    nodes = [
        convolution("x", "first", 8, 3, 3, strides=[2, 2]),
        helper.make_node("Relu", ["first"], ["a"]),
        convolution("a", "depthwise", 8, 8, 3, group=8),
        helper.make_node("Clip", ["depthwise", "", "six"], ["b"]),
        convolution("b", "pointwise", 8, 8, 1),
        helper.make_node("Add", ["a", "pointwise"], ["sum"]),
        helper.make_node("MaxPool", ["sum"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        convolution("pooled", "left", 8, 8, 1),
        convolution("pooled", "right", 16, 8, 3),
        helper.make_node("Relu", ["right"], ["c"]),
        helper.make_node("Concat", ["left", "c"], ["both"], axis=1),
        helper.make_node("GlobalAveragePool", ["both"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense_w", "dense_b"], ["y"]),
    ]
    weights["six"] = np.float32(6)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [weight(name, array) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Noise(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self) -> None:
        self.feeds: Iterator[dict[str, Array]] = iter([samples() for _ in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self.feeds, None)


def samples() -> dict[str, Array]:
    return {"x": RANDOM.standard_normal(SHAPE).astype(np.float32)}


FORMS = ["uint8", "int8", "operators", "one scale"]
"""How the network is quantized; the slow run also has activations with a sign, and conversions of
weights that have a scale for each channel, as those of the operators have."""


@pytest.fixture(scope="module", params=marked(FORMS, slow=["uint8", "int8"]))
def quantized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the network with its operators between conversions, or as quantized operators."""
    folder = tmp_path_factory.mktemp("quantized")
    plain, made = folder / "plain.onnx", folder / "made.onnx"
    onnx.save(network(), plain)
    quantize_static(
        plain,
        made,
        Noise(),
        quant_format=QuantFormat.QOperator if request.param == "operators" else QuantFormat.QDQ,
        per_channel=request.param != "one scale",
        activation_type=QuantType.QInt8 if request.param == "int8" else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    return made


def test_no_product_of_floats_is_left(quantized: Path) -> None:
    opcodes = [node.opcode for node in optimize(import_onnx(quantized)).nodes]
    assert opcodes.count("quantized_convolution") == 5
    assert opcodes.count("quantized_mat_mul") + opcodes.count("quantized_fully_connected") == 1
    assert {"convolution", "mat_mul", "fully_connected", "avg_pool", "add"}.isdisjoint(opcodes)
    assert opcodes.count("quantize") == opcodes.count("dequantize") == 1
    assert opcodes.count("transpose") == 1


def test_results_are_those_of_onnx_runtime(quantized: Path) -> None:
    session = exact_session(quantized)
    function = import_onnx(quantized)
    raised = optimize(function)
    for _ in range(8):
        feeds = samples()
        (expected,) = session.run(None, feeds)
        for which in (function, raised):
            (found,) = evaluate(which, feeds).values()
            np.testing.assert_allclose(found, expected, atol=0.06 * np.abs(expected).max())


@pytest.mark.jit
def test_machine_code_does_what_the_graph_means(quantized: Path) -> None:
    net, raised, feeds = glow_nb.compile(quantized), optimize(import_onnx(quantized)), samples()
    (found,), (expected,) = net.run(feeds).values(), evaluate(raised, feeds).values()
    np.testing.assert_array_equal(found, expected)
