"""Small networks that tests train."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import FullyConnected, Gelu, MatMul, Relu
from glow_nb.hlir.ops.random import Dropout


def perceptron(batch: int) -> Function:
    """4 - 16 - 3 with ReLU."""
    random = np.random.default_rng(0)
    b = Builder("perceptron")
    x: Value = b.input("x", f"float32<{batch} x 4>")
    for layer, (inputs, outputs) in enumerate(((4, 16), (16, 3)), 1):
        weight = random.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        w = b.constant(f"w{layer}", weight)
        x = b.emit(FullyConnected(x, w, b.constant(f"b{layer}", np.zeros(outputs, np.float32))))
        x = b.emit(Relu(x)) if layer == 1 else x
    b.save(x, "y")
    return b.function()


def gated(batch: int) -> Function:
    """Wide layers with activations that read what is kept anyway."""
    random = np.random.default_rng(0)
    b = Builder("gated")
    x: Value = b.input("x", f"float32<{batch} x 4>")
    for layer, (inputs, outputs) in enumerate(((4, 64), (64, 64), (64, 64), (64, 3)), 1):
        weight = random.normal(0, inputs**-0.5, (inputs, outputs)).astype(np.float32)
        x = b.emit(MatMul(x, b.constant(f"w{layer}", weight)))
        x = b.emit(Gelu(x)) if layer < 4 else x
    b.save(x, "y")
    return b.function()


def dropping(batch: int) -> Function:
    """A dense layer after a dropout."""
    b = Builder("dropping")
    seed = b.constant("seed", np.array([0, 0], np.int64))
    x = b.emit(Dropout(b.input("x", f"float32<{batch} x 4>"), seed, ratio=0.5))
    w = b.constant("w", np.eye(4, 3, dtype=np.float32))
    b.save(b.emit(FullyConnected(x, w, b.constant("b", np.zeros(3, np.float32)))), "y")
    return b.function()


def normalized_model() -> onnx.ModelProto:
    """A convolution with its normalization and a dense layer, for any batch of 2 x 4 x 4."""
    random = np.random.default_rng(0)
    weights = {
        "filter": random.normal(0, 0.3, (3, 2, 3, 3)),
        "scale": np.array([1.0, 1.5, 0.5]),
        "shift": np.array([0.0, 0.1, -0.1]),
        "mean": np.zeros(3),
        "variance": np.ones(3),
        "dense": random.normal(0, 0.1, (2, 48)),
        "offset": np.zeros(2),
    }
    nodes = [
        helper.make_node("Conv", ["x", "filter"], ["convolved"], pads=[1] * 4),
        helper.make_node(
            "BatchNormalization",
            ["convolved", "scale", "shift", "mean", "variance"],
            ["normal"],
            momentum=0.75,
        ),
        helper.make_node("Relu", ["normal"], ["bent"]),
        helper.make_node("Flatten", ["bent"], ["flat"]),
        helper.make_node("Gemm", ["flat", "dense", "offset"], ["y"], transB=1),
    ]
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    graph = helper.make_graph(
        nodes,
        "normalized",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def in_training_mode(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return *model* with its normalization as it is exported in training mode."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    node = next(n for n in made.graph.node if n.op_type == "BatchNormalization")
    made.opset_import[0].version = opset
    if opset >= 14:
        node.attribute.append(helper.make_attribute("training_mode", 1))
        node.output.extend(["moved_mean", "moved_variance"])
    else:
        node.output.extend(["moved_mean", "moved_variance", "saved_mean", "saved_variance"])
    return made


def corners(count: int = 200) -> tuple[Array, Array]:
    """Points and in which of three regions each lies."""
    points = np.random.default_rng(1).normal(size=(count, 4)).astype(np.float32)
    return points, (points[:, 0] > 0).astype(int) + (points[:, 1] > 0.5)
