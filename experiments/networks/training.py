"""Networks that training is measured and checked with, as ONNX models with seeded weights.

A perceptron, a small convolutional network for digits, a transformer encoder, ResNet-18
(arXiv 1512.03385) and a mobile network of everything: depthwise and grouped convolutions, batch and
group normalization, Hardswish, SiLU and GELU. Weights have the names of PyTorch's modules of the
same structure (``experiments.networks.torch_training``), and its layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.types import Array

OPSET = 20
CLASSES = 10
WORDS = 1000
"""Size of the encoder's vocabulary."""


class _Model:
    """An ONNX model under construction; values are names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> str:
        """Declare the input."""
        self._inputs.append(helper.make_tensor_value_info("x", kind, shape))
        return "x"

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result; return its name."""
        result = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [result], **attributes))
        return result

    def weight(self, name: str, array: Array) -> str:
        """Add an initializer."""
        self._weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def uniform(self, name: str, shape: tuple[int, ...], fan_in: int) -> str:
        """Add a weight drawn as PyTorch's layers begin."""
        bound = 1 / sqrt(fan_in)
        return self.weight(name, self._random.uniform(-bound, bound, shape))

    def integers(self, *numbers: int) -> str:
        """Return a constant of whole numbers, which is no weight."""
        return self.emit("Constant", value_ints=numbers)

    def dense(self, name: str, x: str, inputs: int, outputs: int) -> str:
        """Add a dense layer on rows."""
        weight = self.uniform(f"{name}.weight", (outputs, inputs), inputs)
        bias = self.uniform(f"{name}.bias", (outputs,), inputs)
        return self.emit("Gemm", x, weight, bias, transB=1)

    def convolution(
        self, name: str, x: str, inputs: int, outputs: int, size: int, **options: int
    ) -> str:
        """Add a convolution; *options* are stride, pad, group and bias (0 for none)."""
        group, pad = options.get("group", 1), options.get("pad", 0)
        fan_in = inputs // group * size * size
        operands = [self.uniform(f"{name}.weight", (outputs, inputs // group, size, size), fan_in)]
        if options.get("bias", 1):
            operands.append(self.uniform(f"{name}.bias", (outputs,), fan_in))
        stride = options.get("stride", 1)
        window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.emit("Conv", x, *operands, group=group, **window)

    def normalized(self, name: str, x: str, channels: int) -> str:
        """Add a batch normalization."""
        vectors = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}
        names = [self.weight(f"{name}.{k}", np.full(channels, n)) for k, n in vectors.items()]
        return self.emit("BatchNormalization", x, *names)

    def proto(self, result: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        """Return the model, whose output *result* is called ``y``."""
        self._nodes.append(helper.make_node("Identity", [result], ["y"]))
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, self.name, self._inputs, [output], self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        onnx.checker.check_model(model)
        return model


def perceptron(batch: int) -> onnx.ModelProto:
    """784 - 512 - 512 - 10 with ReLU."""
    m = _Model("perceptron")
    x = m.input((batch, 784))
    x = m.emit("Relu", m.dense("0", x, 784, 512))
    x = m.emit("Relu", m.dense("2", x, 512, 512))
    return m.proto(m.dense("4", x, 512, CLASSES), (batch, CLASSES))


def digits(batch: int) -> onnx.ModelProto:
    """Two convolutions of 3 x 3 with 32 and 64 channels, a maximum, and two dense layers."""
    m = _Model("digits")
    x = m.input((batch, 1, 28, 28))
    x = m.emit("Relu", m.convolution("0", x, 1, 32, 3))
    x = m.emit("Relu", m.convolution("2", x, 32, 64, 3))
    x = m.emit("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m.emit("Relu", m.dense("6", m.emit("Flatten", x), 9216, 128))
    return m.proto(m.dense("8", x, 128, CLASSES), (batch, CLASSES))


def encoder(
    batch: int, tokens: int = 64, width: int = 256, layers: int = 4, heads: int = 4
) -> onnx.ModelProto:
    """Embeddings, layers that normalize after each part, and the mean of all tokens."""
    m = _Model("encoder")
    rows = m.integers(-1, width)
    words = m.weight("words.weight", m._random.standard_normal((WORDS, width)))
    places = m.weight("places", 0.1 * m._random.standard_normal((1, tokens, width)))
    x = m.emit("Add", m.emit("Gather", words, m.input((batch, tokens), TensorProto.INT64)), places)

    def linear(name: str, x: str, inputs: int, outputs: int) -> str:
        flat = m.emit("Reshape", x, rows if inputs == width else m.integers(-1, inputs))
        product = m.dense(name, flat, inputs, outputs)
        return m.emit("Reshape", product, m.integers(batch, tokens, outputs))

    def normal(name: str, x: str) -> str:
        scale = m.weight(f"{name}.weight", np.ones(width))
        return m.emit("LayerNormalization", x, scale, m.weight(f"{name}.bias", np.zeros(width)))

    def in_heads(x: str, order: tuple[int, ...]) -> str:
        cut = m.emit("Reshape", x, m.integers(batch, tokens, heads, width // heads))
        return m.emit("Transpose", cut, perm=order)

    scale = m.emit("Constant", value_float=1 / sqrt(width // heads))
    for layer in range(layers):
        name = f"layers.{layer}"
        query, key, value = (linear(f"{name}.{p}", x, width, width) for p in ("q", "k", "v"))
        scores = m.emit("MatMul", in_heads(query, (0, 2, 1, 3)), in_heads(key, (0, 2, 3, 1)))
        shares = m.emit("Softmax", m.emit("Mul", scores, scale), axis=-1)
        mixed = m.emit("MatMul", shares, in_heads(value, (0, 2, 1, 3)))
        joined = m.emit("Transpose", mixed, perm=(0, 2, 1, 3))
        joined = m.emit("Reshape", joined, m.integers(batch, tokens, width))
        x = normal(f"{name}.n1", m.emit("Add", x, linear(f"{name}.o", joined, width, width)))
        inner = m.emit("Gelu", linear(f"{name}.f1", x, width, 4 * width))
        x = normal(f"{name}.n2", m.emit("Add", x, linear(f"{name}.f2", inner, 4 * width, width)))
    x = m.emit("ReduceMean", x, m.integers(1), keepdims=0)
    return m.proto(m.dense("head", x, width, CLASSES), (batch, CLASSES))


def resnet18(batch: int, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """ResNet-18."""
    m = _Model("resnet18")
    x = m.convolution("conv1", m.input((batch, 3, size, size)), 3, 64, 7, stride=2, pad=3, bias=0)
    x = m.emit("Relu", m.normalized("bn1", x, 64))
    x = m.emit("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    inputs = 64
    for stage, outputs in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            x = _residual(m, f"layer{stage}.{block}", x, inputs, outputs, stage > block * 4 + 1)
            inputs = outputs
    x = m.emit("Flatten", m.emit("GlobalAveragePool", x))
    return m.proto(m.dense("fc", x, 512, classes), (batch, classes))


def _residual(m: _Model, name: str, x: str, inputs: int, outputs: int, halves: bool) -> str:
    stride = 2 if halves else 1
    shortcut = x
    if halves:
        shortcut = m.convolution(f"{name}.downsample.0", x, inputs, outputs, 1, stride=2, bias=0)
        shortcut = m.normalized(f"{name}.downsample.1", shortcut, outputs)
    x = m.convolution(f"{name}.conv1", x, inputs, outputs, 3, stride=stride, pad=1, bias=0)
    x = m.emit("Relu", m.normalized(f"{name}.bn1", x, outputs))
    x = m.convolution(f"{name}.conv2", x, outputs, outputs, 3, pad=1, bias=0)
    return m.emit("Relu", m.emit("Add", m.normalized(f"{name}.bn2", x, outputs), shortcut))


def mobile(batch: int, size: int = 32) -> onnx.ModelProto:
    """Depthwise and grouped convolutions, three activations, batch and group normalization."""
    m = _Model("mobile")
    x = m.convolution("stem", m.input((batch, 3, size, size)), 3, 16, 3, stride=2, pad=1, bias=0)
    x = m.emit("HardSwish", m.normalized("bn0", x, 16))
    x = m.convolution("depthwise", x, 16, 16, 3, pad=1, group=16, bias=0)
    x = m.normalized("bn1", x, 16)
    x = m.emit("Mul", x, m.emit("Sigmoid", x))
    x = m.convolution("grouped", x, 16, 32, 3, stride=2, pad=1, group=4)
    scale, bias = m.weight("gn.weight", np.ones(32)), m.weight("gn.bias", np.zeros(32))
    cut = m.emit("Reshape", x, m.integers(batch, 4, -1))
    ones = [m.emit("Constant", value_floats=[n] * 4) for n in (1.0, 0.0)]
    normal = m.emit("InstanceNormalization", cut, *ones)
    normal = m.emit("Reshape", normal, m.integers(batch, 32, size // 4, size // 4))
    column = m.integers(32, 1, 1)
    x = m.emit("Mul", normal, m.emit("Reshape", scale, column))
    x = m.emit("Gelu", m.emit("Add", x, m.emit("Reshape", bias, column)))
    x = m.convolution("pointwise", x, 32, 64, 1)
    x = m.emit("Relu", x)
    x = m.emit("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = m.emit("Flatten", m.emit("GlobalAveragePool", x))
    return m.proto(m.dense("head", x, 64, CLASSES), (batch, CLASSES))


@dataclass(frozen=True)
class Case:
    """A network and its batch.

    Attributes:
        make: Returns the model for a batch size.
        batch: How many samples.
        shape: Of one sample.
        classes: How many there are.
    """

    make: Callable[[int], onnx.ModelProto]
    batch: int
    shape: tuple[int, ...]
    classes: int = CLASSES

    def data(self, batches: int) -> list[tuple[Array, Array]]:
        """Return seeded inputs and classes."""
        random = np.random.default_rng(1)
        pairs = []
        for _ in range(batches):
            shape = (self.batch, *self.shape)
            x: Array = random.standard_normal(shape).astype(np.float32)
            if self.make is encoder:
                x = random.integers(0, WORDS, shape)
            pairs.append((x, random.integers(0, self.classes, self.batch)))
        return pairs


CASES: Mapping[str, Case] = {
    "mlp": Case(perceptron, 128, (784,)),
    "lenet": Case(digits, 64, (1, 28, 28)),
    "encoder": Case(encoder, 16, (64,)),
    "resnet18": Case(resnet18, 8, (3, 224, 224), 1000),
    "mobile": Case(mobile, 16, (3, 32, 32)),
}
