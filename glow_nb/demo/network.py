"""ResNet50 as an ONNX model with seeded random weights.

The structure is that of *Deep Residual Learning for Image Recognition* (arXiv:1512.03385), table 1,
the stride of a block in its 3x3 convolution. Filters are He-scaled. Weights that are merely random
let activations die out or explode within fifty layers, so the statistics of every batch
normalization are measured on an image, layer by layer, and the logits are scaled to unit variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array
from glow_nb.formats.onnx.importer import import_onnx
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.ops import BatchNormalization
from glow_nb.hlir.save import Save

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""Channels, blocks and stride of each stage; a block's result has EXPANSION times the channels."""

EXPANSION = 4
CLASSES = 1000
INPUT, LOGITS, PROBABILITIES = "image", "logits", "probabilities"
OPSET = 17
"""The operator set that the model is written in."""


def make_resnet50(
    image: Array, seed: int = 0, stages: Sequence[tuple[int, int, int]] = STAGES
) -> onnx.ModelProto:
    """Return the network for images like *image*, ``float32[N, 3, H, W]``, and calibrated on it.

    With fewer *stages* it is a smaller one of the same kind.
    """
    writer = _GraphWriter(np.random.default_rng(seed))
    features, channels = _write_features(writer, stages)
    pooled = writer.node("GlobalAveragePool", [features], "pool")
    flat = writer.node("Flatten", [pooled], "features")
    rng = writer.rng
    weights = writer.weight("fc.weights", rng.normal(0, channels**-0.5, (CLASSES, channels)))
    bias = writer.weight("fc.bias", np.zeros(CLASSES))
    logits = writer.node("Gemm", [flat, weights, bias], LOGITS, transB=1)
    writer.node("Softmax", [logits], PROBABILITIES, axis=1)
    model = writer.model(image.shape)
    _calibrate(model, image)
    return model


def _write_features(
    writer: _GraphWriter, stages: Sequence[tuple[int, int, int]]
) -> tuple[str, int]:
    """Write everything before the pooling; return the last value and its number of channels."""
    channels = stages[0][0]
    value = writer.convolution(INPUT, "stem", 3, channels, kernel=7, stride=2)
    value = writer.node(
        "MaxPool", [value], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    )
    for number, (width, blocks, stride) in enumerate(stages, start=2):
        for index in range(blocks):
            name = f"{number}{chr(ord('a') + index)}"
            value = _write_block(writer, value, name, channels, width, stride if index == 0 else 1)
            channels = EXPANSION * width
    return value, channels


def _write_block(
    writer: _GraphWriter, value: str, name: str, channels: int, width: int, stride: int
) -> str:
    """Write one bottleneck block: 1x1, 3x3, 1x1, added to the input or to its projection."""
    result = EXPANSION * width
    shortcut = value
    if channels != result:
        shortcut = writer.convolution(
            value, f"{name}.project", channels, result, stride=stride, relu=False
        )
    value = writer.convolution(value, f"{name}.reduce", channels, width)
    value = writer.convolution(value, f"{name}.conv", width, width, kernel=3, stride=stride)
    value = writer.convolution(value, f"{name}.expand", width, result, relu=False)
    total = writer.node("Add", [value, shortcut], f"{name}.add")
    return writer.node("Relu", [total], name)


class _GraphWriter:
    """Collects the nodes and weights of the model."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def weight(self, name: str, values: Array) -> str:
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def convolution(
        self,
        value: str,
        name: str,
        channels: int,
        depth: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        relu: bool = True,
    ) -> str:
        """Write a convolution without bias, its batch normalization and perhaps a ReLU."""
        deviation = np.sqrt(2 / (channels * kernel * kernel))
        filter = self.rng.normal(0, deviation, (depth, channels, kernel, kernel))
        result = self.node(
            "Conv",
            [value, self.weight(f"{name}.filter", filter)],
            f"{name}.sum",
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )
        parameters = [
            self.weight(f"{name}.scale", self.rng.uniform(0.6, 1.4, depth)),
            self.weight(f"{name}.bias", self.rng.normal(0, 0.2, depth)),
            self.weight(f"{name}.mean", np.zeros(depth)),
            self.weight(f"{name}.variance", np.ones(depth)),
        ]
        normal = f"{name}.norm" if relu else name
        result = self.node("BatchNormalization", [result, *parameters], normal)
        return self.node("Relu", [result], name) if relu else result

    def model(self, input_shape: tuple[int, ...]) -> onnx.ModelProto:
        batch = input_shape[0]
        output_shape = [batch, CLASSES]
        graph = helper.make_graph(
            self.nodes,
            "resnet50",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, list(input_shape))],
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, output_shape)
                for name in (PROBABILITIES, LOGITS)
            ],
            self.weights,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
        )


def _calibrate(model: onnx.ModelProto, image: Array) -> None:
    """Set the statistics of every batch normalization to those of its input, in order.

    Then scale the last layer to logits of unit variance, so that the softmax is not saturated.
    """
    function = import_onnx(model)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    values: dict[Value, Array] = {function.inputs[0]: image}
    last_reader = {value: readers[-1] for value, readers in function.users().items()}
    for node in function.nodes:
        if isinstance(node, BatchNormalization):
            values[node] = _normalize(node, values[node.input], tensors)
        elif not isinstance(node, Save):
            values.update(zip(node.results, evaluate_node(node, values), strict=True))
        elif node.output.name == LOGITS:
            deviation = values[node.input].std()
            for name in ("fc.weights", "fc.bias"):
                _store(tensors[name], numpy_helper.to_array(tensors[name]) / deviation)
        for value in list(values):
            if last_reader.get(value) is node:
                del values[value]


def _normalize(
    node: BatchNormalization, input: Array, tensors: dict[str, onnx.TensorProto]
) -> Array:
    """Store the statistics of *input*, and return it normalized by them."""
    axes = tuple(axis for axis in range(input.ndim) if axis != node.channel_axis)
    mean = input.mean(axes, np.float64).astype(np.float32)
    variance = input.var(axes, np.float64).astype(np.float32)
    _store(tensors[node.mean.name], mean)
    _store(tensors[node.variance.name], variance)
    constants = {constant.name: constant.array for constant in _constants_of(node)}
    return node.evaluate(
        input, constants[node.scale.name], constants[node.bias.name], mean, variance
    )


def _constants_of(node: Node) -> list[Constant]:
    return [operand for operand in operands_of(node) if isinstance(operand, Constant)]


def _store(tensor: onnx.TensorProto, values: Array) -> None:
    tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float32), tensor.name))
