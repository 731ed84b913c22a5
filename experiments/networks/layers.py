"""Networks as ONNX models, layer by layer, with seeded random weights."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from glow_nb.base.types import Array

CLASSES = 1000

Sizes = int | tuple[int, ...]
"""One number for each spatial dimension, or one for all."""


def _each(number: Sizes, rank: int) -> list[int]:
    return [number] * rank if isinstance(number, int) else list(number)


class Layers:
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
        kernel: Sizes = 1,
        stride: Sizes = 1,
        group: int = 1,
        act: str = "Relu",
        *,
        dilation: int = 1,
        is_causal: bool = False,
    ) -> str:
        """Return ``act(convolution(x))``, padded so that x keeps its sizes over *stride*.

        All zeros are before x if *is_causal*.
        """
        batch, channels, *sizes = self.shapes[x]
        taps, steps = (_each(number, len(sizes)) for number in (kernel, stride))
        filter = self.weights(
            depth, channels // group, *taps, inputs=channels // group * math.prod(taps)
        )
        bias = self.weights(depth, inputs=400)
        reaches = [(k - 1) * dilation for k in taps]
        begins = reaches if is_causal else [reach // 2 for reach in reaches]
        ends = [0 if is_causal else begin for begin in begins]
        out = [
            (n + begin + end - reach - 1) // step + 1
            for n, begin, end, reach, step in zip(sizes, begins, ends, reaches, steps, strict=True)
        ]
        y = self.emit(
            "Conv", (batch, depth, *out), x, filter, bias, kernel_shape=taps, strides=steps,
            pads=[*begins, *ends], dilations=[dilation] * len(sizes), group=group,
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
        batch, channels, *sizes = self.shapes[x]
        return self.emit("GlobalAveragePool", (batch, channels, *(1 for _ in sizes)), x)

    def max_pool(self, x: str, kernel: Sizes = 3, stride: Sizes = 2) -> str:
        """Return the maxima of windows of an odd size."""
        batch, channels, *sizes = self.shapes[x]
        taps, steps = (_each(number, len(sizes)) for number in (kernel, stride))
        shape = ((n - 1) // step + 1 for n, step in zip(sizes, steps, strict=True))
        pads = [k // 2 for k in taps] * 2
        return self.emit(
            "MaxPool", (batch, channels, *shape), x, kernel_shape=taps, strides=steps, pads=pads
        )

    def concat(self, *parts: str) -> str:
        """Return the channels of *parts* one after the other."""
        batch, _, *sizes = self.shapes[parts[0]]
        channels = sum(self.shapes[part][1] for part in parts)
        return self.emit("Concat", (batch, channels, *sizes), *parts, axis=1)

    def parts(self, x: str, count: int) -> list[str]:
        """Return the channels of *x* in *count* equal parts."""
        batch, channels, *sizes = self.shapes[x]
        size = channels // count
        one, axis = (self.constant(np.array([n], np.int64)) for n in (1, 1))
        ends = [self.constant(np.array([n * size], np.int64)) for n in range(count + 1)]
        shape = (batch, size, *sizes)
        return [self.emit("Slice", shape, x, *ends[n : n + 2], axis, one) for n in range(count)]

    def add(self, x: str, y: str) -> str:
        """Return the sum if the shapes are equal, else *y*."""
        same = self.shapes[x] == self.shapes[y]
        return self.emit("Add", self.shapes[x], x, y) if same else y

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
        return self.model(self.emit("Gemm", (batch, classes), flat, weights))

    def model(self, result: str) -> onnx.ModelProto:
        """Return the network, whose result this is."""
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])
            for name in ("image", result)
        ]
        graph = helper.make_graph(self._nodes, self.name, ends[:1], ends[1:], self._weights)
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def write(networks: Iterable[Callable[[], onnx.ModelProto]], folder: Path) -> list[Path]:
    """Write *networks* to *folder*; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    models = [network() for network in networks]
    paths = [folder / f"{model.graph.name}.onnx" for model in models]
    for model, path in zip(models, paths, strict=True):
        onnx.save(model, path)
    return paths


def main(description: str | None, networks: Iterable[Callable[[], onnx.ModelProto]]) -> None:
    """Write those of *networks* that the command line names as ONNX files."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the ONNX files are written")
    names = {network.__name__: network for network in networks}
    parser.add_argument("--only", nargs="+", choices=names, default=list(names))
    arguments = parser.parse_args()
    for path in write([names[name] for name in arguments.only], arguments.folder):
        print(path)
