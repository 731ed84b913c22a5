"""Is anything slow in networks made of depthwise and grouped convolutions?

MobileNet v1, v2 and v3 (arXiv 1704.04861, 1801.04381, 1905.02244), EfficientNet-B0 (1905.11946),
ShuffleNet v2 (1807.11164), ResNeXt-50 (1611.05431) and one network of odd sizes, as ONNX models
with seeded random weights; batch normalization is already part of the filters. They are written to
a folder, for a duel or a profile::

    python -m experiments.mobile_networks FOLDER --only mobilenet_v3 odd
    python -m experiments.duel FOLDER/mobilenet_v3.onnx --threads 2
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_nb.types import Array

CLASSES = 1000
IMAGE = (1, 3, 224, 224)


class _Model:
    """An ONNX model under construction, layer by layer; values are names with known shapes."""

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, tuple[int, ...]] = {"image": shape}

    def emit(self, operator: str, shape: tuple[int, ...], *inputs: str, **attributes: Any) -> str:
        """Add a node whose result has *shape*; return the name of the result."""
        name = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        self.shapes[name] = shape
        return name

    def constant(self, array: Array) -> str:
        """Return the name of a constant."""
        name = f"constant_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weights(self, *shape: int, inputs: int, gain: float = 2.0) -> str:
        """Return random weights for sums of *inputs* products that are to keep their scale."""
        numbers = self._random.standard_normal(shape, np.float32)
        return self.constant(numbers * np.float32(np.sqrt(gain / inputs)))

    def convolution(
        self,
        x: str,
        depth: int,
        kernel: int = 1,
        stride: int = 1,
        group: int = 1,
        act: str = "Relu",
    ) -> str:
        """Return ``act(convolution(x))``, padded so that the image keeps its size over *stride*."""
        batch, channels, *size = self.shapes[x]
        inputs, pad = channels // group * kernel**2, kernel // 2
        filter = self.weights(depth, channels // group, kernel, kernel, inputs=inputs)
        bias = self.weights(depth, inputs=400)
        shape = (batch, depth, *((n + 2 * pad - kernel) // stride + 1 for n in size))
        y = self.emit(
            "Conv", shape, x, filter, bias,
            kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=group,
        )  # fmt: skip
        return self.activation(y, act)

    def depthwise(self, x: str, kernel: int, stride: int, act: str) -> str:
        """Return a convolution of every channel by itself."""
        channels = self.shapes[x][1]
        return self.convolution(x, channels, kernel, stride, channels, act)

    def activation(self, x: str, act: str) -> str:
        """Return *act* of x: an ONNX operator, ``Relu6``, ``Silu``, or nothing."""
        shape = self.shapes[x]
        match act:
            case "":
                return x
            case "Relu6":
                limits = [self.constant(np.array(n, np.float32)) for n in (0, 6)]
                return self.emit("Clip", shape, x, *limits)
            case "Silu":
                return self.emit("Mul", shape, x, self.emit("Sigmoid", shape, x))
        return self.emit(act, shape, x)

    def squeeze(self, x: str, depth: int, inner: str, outer: str) -> str:
        """Return x, each channel scaled by what two layers of *depth* make of all their means."""
        channels = self.shapes[x][1]
        y = self.convolution(self.mean(x), depth, act=inner)
        return self.emit("Mul", self.shapes[x], x, self.convolution(y, channels, act=outer))

    def mean(self, x: str) -> str:
        """Return the means over the image."""
        return self.emit("GlobalAveragePool", (*self.shapes[x][:2], 1, 1), x)

    def max_pool(self, x: str) -> str:
        """Return the maxima of 3 x 3 windows, two apart."""
        batch, channels, *size = self.shapes[x]
        shape = (batch, channels, *((n - 1) // 2 + 1 for n in size))
        window = {"kernel_shape": [3] * 2, "strides": [2] * 2, "pads": [1] * 4}
        return self.emit("MaxPool", shape, x, **window)

    def add(self, x: str, y: str) -> str:
        """Return the sum if the shapes are equal, else *y*."""
        same = self.shapes[x] == self.shapes[y]
        return self.emit("Add", self.shapes[x], x, y) if same else y

    def halves(self, x: str) -> tuple[str, str]:
        """Return the channels of *x* in two halves."""
        batch, channels, *size = self.shapes[x]
        ends = [self.constant(np.array([n], np.int64)) for n in (0, channels // 2, channels, 1)]
        shape = (batch, channels // 2, *size)
        low = self.emit("Slice", shape, x, ends[0], ends[1], ends[3])
        return low, self.emit("Slice", shape, x, ends[1], ends[2], ends[3])

    def interleaved(self, x: str, y: str) -> str:
        """Return the channels of *x* and *y* in turn."""
        batch, channels, *size = self.shapes[x]
        apart, whole = (batch, 2, channels, *size), (batch, 2 * channels, *size)
        z = self.emit("Concat", whole, x, y, axis=1)
        z = self.emit("Reshape", apart, z, self.constant(np.array(apart, np.int64)))
        z = self.emit("Transpose", (), z, perm=[0, 2, 1, 3, 4])
        return self.emit("Reshape", whole, z, self.constant(np.array(whole, np.int64)))

    def classify(self, x: str, classes: int = CLASSES) -> onnx.ModelProto:
        """End the network with the means over the image and a linear layer."""
        batch, channels = self.shapes[x][:2]
        flat = self.emit("Flatten", (batch, channels), self.mean(x))
        weights = self.weights(channels, classes, inputs=channels)
        last = self.emit("Gemm", (batch, classes), flat, weights)
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])
            for name in ("image", last)
        ]
        graph = helper.make_graph(self._nodes, self.name, ends[:1], ends[1:], self._weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def mobilenet_v1(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return MobileNet v1: a depthwise and a pointwise convolution in each layer."""
    m = _Model("mobilenet_v1", image)
    x = m.convolution("image", 32, 3, 2, act="Relu6")
    layers = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for depth, stride in [*layers, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        x = m.convolution(m.depthwise(x, 3, stride, "Relu6"), depth, act="Relu6")
    return m.classify(x)


def _inverted(
    m: _Model, x: str, width: int, depth: int, kernel: int, stride: int, act: str,
    squeeze: Callable[[str], str] | None = None,
) -> str:  # fmt: skip
    """Return a block that widens, filters (and weighs the channels), and narrows again."""
    y = x if width == m.shapes[x][1] else m.convolution(x, width, act=act)
    y = m.depthwise(y, kernel, stride, act)
    return m.add(x, m.convolution(squeeze(y) if squeeze else y, depth, act=""))


def mobilenet_v2(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return MobileNet v2 of width 1."""
    m = _Model("mobilenet_v2", image)
    x = m.convolution("image", 32, 3, 2, act="Relu6")
    for factor, depth, repeats, first in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for stride in (first, *[1] * (repeats - 1)):
            x = _inverted(m, x, factor * m.shapes[x][1], depth, 3, stride, "Relu6")
    return m.classify(m.convolution(x, 1280, act="Relu6"))


def mobilenet_v3(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return MobileNet v3 large."""
    m = _Model("mobilenet_v3", image)
    x = m.convolution("image", 16, 3, 2, act="HardSwish")
    for kernel, width, depth, mid, act, stride in (
        *((3, 16, 16, 0, "Relu", 1), (3, 64, 24, 0, "Relu", 2), (3, 72, 24, 0, "Relu", 1)),
        *((5, 72, 40, 24, "Relu", 2), (5, 120, 40, 32, "Relu", 1), (5, 120, 40, 32, "Relu", 1)),
        *((3, 240, 80, 0, "HardSwish", 2), (3, 200, 80, 0, "HardSwish", 1)),
        *((3, 184, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1)),
        *((3, 480, 112, 120, "HardSwish", 1), (3, 672, 112, 168, "HardSwish", 1)),
        *((5, 672, 160, 168, "HardSwish", 2), (5, 960, 160, 240, "HardSwish", 1)),
        (5, 960, 160, 240, "HardSwish", 1),
    ):

        def squeeze(y: str, mid: int = mid) -> str:
            return m.squeeze(y, mid, "Relu", "HardSigmoid")

        x = _inverted(m, x, width, depth, kernel, stride, act, squeeze if mid else None)
    x = m.mean(m.convolution(x, 960, act="HardSwish"))
    return m.classify(m.convolution(x, 1280, act="HardSwish"))


def efficientnet_b0(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return EfficientNet-B0."""
    m = _Model("efficientnet_b0", image)
    x = m.convolution("image", 32, 3, 2, act="Silu")
    for factor, depth, repeats, first, kernel in (
        *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
        *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
    ):
        for stride in (first, *[1] * (repeats - 1)):
            channels = m.shapes[x][1]

            def squeeze(y: str, mid: int = channels // 4) -> str:
                return m.squeeze(y, mid, "Silu", "Sigmoid")

            x = _inverted(m, x, factor * channels, depth, kernel, stride, "Silu", squeeze)
    return m.classify(m.convolution(x, 1280, act="Silu"))


def shufflenet_v2(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return ShuffleNet v2 of width 1."""
    m = _Model("shufflenet_v2", image)
    x = m.max_pool(m.convolution("image", 24, 3, 2))
    for half, repeats in ((58, 4), (116, 8), (232, 4)):
        left = m.convolution(m.depthwise(x, 3, 2, ""), half)
        right = m.convolution(m.depthwise(m.convolution(x, half), 3, 2, ""), half)
        x = m.interleaved(left, right)
        for _ in range(repeats - 1):
            left, right = m.halves(x)
            right = m.convolution(m.depthwise(m.convolution(right, half), 3, 1, ""), half)
            x = m.interleaved(left, right)
    return m.classify(m.convolution(x, 1024))


def resnext50(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return ResNeXt-50 with 32 groups of 4 channels and more."""
    m = _Model("resnext50", image)
    x = m.max_pool(m.convolution("image", 64, 7, 2))
    for width, repeats, first in ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2)):
        for stride in (first, *[1] * (repeats - 1)):
            y = m.convolution(m.convolution(x, width), width, 3, stride, 32)
            y = m.convolution(y, 2 * width, act="")
            if m.shapes[x] != m.shapes[y]:
                x = m.convolution(x, 2 * width, 1, stride, act="")
            x = m.activation(m.add(x, y), "Relu")
    return m.classify(x)


def odd(image: tuple[int, ...] = (3, 3, 193, 161)) -> onnx.ModelProto:
    """Return a network in which nothing is a multiple of anything."""
    m = _Model("odd", image)
    x = m.convolution(m.max_pool(m.convolution("image", 20, 5, 2)), 36, 3, 1, 4)
    x = m.convolution(m.depthwise(x, 3, 2, "HardSwish"), 52)
    x = m.add(x, m.convolution(m.depthwise(x, 5, 1, "Relu6"), 52, act=""))
    x = m.squeeze(m.convolution(x, 52, 3, 1, 13), 13, "Relu", "Sigmoid")
    x = m.depthwise(m.convolution(m.convolution(x, 100, 3, 2), 132), 7, 1, "Relu")
    return m.classify(m.convolution(x, 77), 37)


NETWORKS = (
    mobilenet_v1, mobilenet_v2, mobilenet_v3, efficientnet_b0, shufflenet_v2, resnext50, odd,
)  # fmt: skip


def write(networks: Iterable[Callable[[], onnx.ModelProto]], folder: Path) -> list[Path]:
    """Write *networks* to *folder*; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [network() for network in networks]
    paths = [folder / f"{model.graph.name}.onnx" for model in models]
    for model, path in zip(models, paths, strict=True):
        onnx.save(model, path)
    return paths


def main() -> None:
    """Write the networks as ONNX files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    names = {network.__name__: network for network in NETWORKS}
    parser.add_argument("--only", nargs="+", choices=names, default=list(names))
    arguments = parser.parse_args()
    for path in write([names[name] for name in arguments.only], arguments.folder):
        print(path)


if __name__ == "__main__":
    main()
