"""Random ONNX graphs mean after import what they mean to onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from glow_nb.hlir.evaluate import evaluate
from glow_nb.importers import import_onnx
from tests.unit.importers.models import model, value, weight

Shape = tuple[int, ...]


class Graph:
    """A random ONNX graph under construction: every tensor's name and shape is known."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        shape = tuple(self.source.randint(1, 7) for _ in range(self.source.choice([2, 3, 4, 4])))
        self.input = shape
        self.values: dict[str, Shape] = {"x": shape}

    def any(self, *ranks: int) -> str | None:
        """Return the name of a value of one of *ranks*, or None."""
        names = [n for n, shape in self.values.items() if not ranks or len(shape) in ranks]
        return self.source.choice(names) if names else None

    def weight(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(weight(name, array))
        return name

    def floats(self, *shape: int) -> str:
        return self.weight(self.numbers.normal(size=shape).astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.weight(np.array(numbers, np.int64))

    def add(self, op: str, operands: list[str], shape: Shape, **attributes: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        self.values[name] = shape

    def feeds(self) -> dict[str, Any]:
        return {"x": self.numbers.normal(size=self.input).astype(np.float32)}

    def model(self) -> onnx.ModelProto:
        read = {name for node in self.nodes for name in node.input}
        outputs = [name for name in self.values if name not in read and name != "x"]
        proto = model(self.nodes, [value("x", self.input)], outputs, self.weights)
        for info in proto.graph.output:
            info.type.tensor_type.elem_type = TensorProto.FLOAT
        return proto


def unary(g: Graph) -> None:
    name = g.any()
    if name:
        op = g.source.choice(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "LeakyRelu", "Erf", "Elu"])
        g.add(op, [name], g.values[name])


def binary(g: Graph) -> None:
    name = g.any()
    if name:
        shape = g.values[name]
        other = [n if g.source.random() < 0.6 else 1 for n in shape]
        operands = [name, g.floats(*other[g.source.randint(0, len(other)) :])]
        g.source.shuffle(operands)
        g.add(g.source.choice(["Add", "Sub", "Mul", "Max", "Min"]), operands, shape)


def sum_of_equals(g: Graph) -> None:
    name = g.any()
    if name:
        equals = [n for n, shape in g.values.items() if shape == g.values[name]]
        g.add("Sum", [name, g.source.choice(equals), name], g.values[name])


def convolution(g: Graph) -> None:
    name = g.any(3, 4)
    if name:
        batch, channels, *spatial = g.values[name]
        group = g.source.choice([1, channels])
        depth = group * g.source.randint(1, 3)
        kernel = [g.source.randint(1, min(n, 3)) for n in spatial]
        stride = [g.source.randint(1, 2) for _ in spatial]
        pads = [g.source.randint(0, 1) for _ in range(2 * len(spatial))]
        out = [
            (n + pads[i] + pads[len(spatial) + i] - kernel[i]) // stride[i] + 1
            for i, n in enumerate(spatial)
        ]
        filters = g.floats(depth, channels // group, *kernel)
        operands = [name, filters, g.floats(depth)][: g.source.randint(2, 3)]
        options = {"strides": stride, "pads": pads, "group": group}
        g.add("Conv", operands, (batch, depth, *out), **options)


def pool(g: Graph) -> None:
    name = g.any(3, 4)
    if name:
        batch, channels, *spatial = g.values[name]
        kernel = [min(n, g.source.randint(2, 3)) for n in spatial]
        op = g.source.choice(["MaxPool", "AveragePool"])
        out = [-(-n // 2) for n in spatial]
        options = {"kernel_shape": kernel, "strides": [2] * len(spatial), "auto_pad": "SAME_UPPER"}
        g.add(op, [name], (batch, channels, *out), **options)


def batch_normalization(g: Graph) -> None:
    name = g.any(2, 3, 4)
    if name:
        channels = g.values[name][1]
        variance = g.weight(np.abs(g.numbers.normal(size=channels)).astype(np.float32) + 0.5)
        vectors = [g.floats(channels) for _ in range(3)]
        g.add("BatchNormalization", [name, *vectors, variance], g.values[name])


def transpose(g: Graph) -> None:
    name = g.any()
    if name:
        shape = g.values[name]
        order = g.source.sample(range(len(shape)), len(shape))
        g.add("Transpose", [name], tuple(shape[i] for i in order), perm=order)


def reshape(g: Graph) -> None:
    name = g.any()
    if name:
        shape = g.values[name]
        cut = g.source.randint(0, len(shape))
        target = (prod(shape[:cut]), prod(shape[cut:]))
        g.add("Reshape", [name, g.ints(target[0], -1)], target)


def concat(g: Graph) -> None:
    name = g.any()
    if name:
        shape = g.values[name]
        axis = g.source.randrange(len(shape))
        wide = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
        g.add("Concat", [name, name], wide, axis=axis - g.source.choice([0, len(shape)]))


def cut(g: Graph) -> None:
    name = g.any()
    if name:
        shape = g.values[name]
        axis = g.source.randrange(len(shape))
        step = g.source.choice([1, 2, -1])
        size = len(range(shape[axis])[::step])
        ends = (g.ints(0), g.ints(1 << 40)) if step > 0 else (g.ints(-1), g.ints(-(1 << 40)))
        kept = (*shape[:axis], size, *shape[axis + 1 :])
        g.add("Slice", [name, *ends, g.ints(axis), g.ints(step)], kept)


def reduce(g: Graph) -> None:
    name = g.any(3, 4)
    if name:
        shape = g.values[name]
        axis = g.source.randrange(len(shape))
        op = g.source.choice(["ReduceMean", "ReduceMax", "ReduceL2"])
        kept = (*shape[:axis], 1, *shape[axis + 1 :])
        g.add(op, [name], kept, axes=[axis])


def softmax(g: Graph) -> None:
    name = g.any()
    if name:
        op = g.source.choice(["Softmax", "LogSoftmax"])
        g.add(op, [name], g.values[name], axis=g.source.randrange(len(g.values[name])))


def product(g: Graph) -> None:
    name = g.any()
    if name:
        *rows, inner = g.values[name]
        columns = g.source.randint(1, 5)
        if rows:
            g.add("MatMul", [name, g.floats(inner, columns)], (*rows, columns))


STEPS: list[Callable[[Graph], None]] = [
    unary,
    binary,
    sum_of_equals,
    convolution,
    pool,
    batch_normalization,
    transpose,
    reshape,
    concat,
    cut,
    reduce,
    softmax,
    product,
]


def random_graph(seed: int, steps: int) -> Graph:
    graph = Graph(seed)
    while len(graph.nodes) < steps:
        graph.source.choice(STEPS)(graph)
    return graph


@settings(max_examples=200)
@given(st.integers(0, 1 << 32), st.integers(1, 12))
def test_import_keeps_the_meaning(seed: int, steps: int) -> None:
    graph = random_graph(seed, steps)
    proto, feeds = graph.model(), graph.feeds()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    expected = session.run(None, feeds)
    results = evaluate(import_onnx(proto), feeds)
    assert list(results) == [entry.name for entry in session.get_outputs()]
    for got, wanted in zip(results.values(), expected, strict=True):
        assert got.shape == wanted.shape
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5 * scale)
