"""MobileNet v1 and v2 and Inception v3, from their papers, for questions about shapes only.

Batch 1, float32, channels last, batch normalization already part of the filters; every weight is
zero and takes no memory. MobileNet: arXiv 1704.04861 table 1 and 1801.04381 table 2, for 224 x 224
images; Inception v3: arXiv 1512.00567 with the blocks of TensorFlow's own model, for 299 x 299.
"""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.ops import (
    Add,
    AvgPool,
    Clip,
    Concat,
    Convolution,
    FullyConnected,
    MaxPool,
    ReduceMean,
    Relu,
    Softmax,
)

CLASSES = 1000


def mobilenet_v1() -> Function:
    """Return MobileNet v1 of width 1: a depthwise and a pointwise convolution in each layer."""
    net = _Layers("mobilenet_v1", 224, most=6.0)
    x = net.convolution(net.input, 32, 3, stride=2)
    layers = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for depth, stride in [*layers, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        x = net.depthwise(x, stride)
        x = net.convolution(x, depth)
    return net.classify(x)


def mobilenet_v2() -> Function:
    """Return MobileNet v2 of width 1: blocks that widen, filter and narrow again."""
    net = _Layers("mobilenet_v2", 224, most=6.0)
    x = net.convolution(net.input, 32, 3, stride=2)
    for factor, depth, repeats, first_stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for index in range(repeats):
            x = net.inverted_residual(x, factor, depth, first_stride if index == 0 else 1)
    return net.classify(net.convolution(x, 1280))


def inception_v3() -> Function:
    """Return Inception v3 without the auxiliary classifier."""
    net = _Layers("inception_v3", 299)
    x = net.convolution(net.input, 32, 3, stride=2, same=False)
    x = net.convolution(x, 32, 3, same=False)
    x = net.max_pool(net.convolution(x, 64, 3))
    x = net.convolution(net.convolution(x, 80), 192, 3, same=False)
    x = net.max_pool(x)
    for depth in (32, 64, 64):
        x = _block_35(net, x, depth)
    x = _reduction_35(net, x)
    for depth in (128, 160, 160, 192):
        x = _block_17(net, x, depth)
    x = _reduction_17(net, x)
    for _ in range(2):
        x = _block_8(net, x)
    return net.classify(x)


NETWORKS = (mobilenet_v1, mobilenet_v2, inception_v3)


class _Layers:
    """A network under construction, layer by layer; activations are clipped to *most* if given."""

    def __init__(self, name: str, side: int, most: float | None = None) -> None:
        self._builder = Builder(name)
        self._most = most
        self.input: Value = self._builder.input("image", f"float32<1 x {side} x {side} x 3>")

    def convolution(
        self,
        x: Value,
        depth: int,
        height: int = 1,
        width: int | None = None,
        *,
        stride: int = 1,
        same: bool = True,
        group: int = 1,
        activate: bool = True,
    ) -> Value:
        """Return ``relu(convolution(x))``; with *same*, the image keeps its size over *stride*."""
        kernel = (height, width or height)
        pads = _pads(x, kernel, stride) if same else (0, 0, 0, 0)
        filter = self._zeros(depth, *kernel, x.type.shape[-1] // group)
        bias = self._zeros(depth)
        steps, ones = (stride, stride), (1, 1)
        node = self._builder.emit(
            Convolution(
                x, filter, bias, kernel=kernel, stride=steps, pads=pads, dilation=ones, group=group
            )
        )
        return self._activate(node) if activate else node

    def depthwise(self, x: Value, stride: int) -> Value:
        """Return a 3 x 3 convolution of every channel for itself."""
        channels = x.type.shape[-1]
        return self.convolution(x, channels, 3, stride=stride, group=channels)

    def inverted_residual(self, x: Value, factor: int, depth: int, stride: int) -> Value:
        """Return the block of MobileNet v2, added to *x* if it has the same shape."""
        channels = x.type.shape[-1]
        y = self.convolution(x, factor * channels) if factor > 1 else x
        y = self.convolution(self.depthwise(y, stride), depth, activate=False)
        return self._builder.emit(Add(x, y)) if y.type == x.type else y

    def max_pool(self, x: Value) -> Value:
        """Return the maxima of 3 x 3 windows, two apart, all of them inside."""
        return self._builder.emit(
            MaxPool(x, kernel=(3, 3), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1))
        )

    def average(self, x: Value) -> Value:
        """Return the means of 3 x 3 windows, of the cells inside of the image."""
        return self._builder.emit(
            AvgPool(x, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1))
        )

    def concat(self, *parts: Value) -> Value:
        """Return *parts*, channel after channel."""
        return self._builder.emit(Concat(parts, axis=3))

    def classify(self, x: Value) -> Function:
        """End the network with a mean over the image, a linear layer and a softmax."""
        b = self._builder
        features = b.emit(ReduceMean(x, axes=(1, 2), keep_dims=False))
        weights = self._zeros(x.type.shape[-1], CLASSES)
        logits = b.emit(FullyConnected(features, weights, self._zeros(CLASSES)))
        b.save(b.emit(Softmax(logits, axis=1)), "probabilities")
        return b.function()

    def _activate(self, x: Value) -> Value:
        if self._most is None:
            return self._builder.emit(Relu(x))
        return self._builder.emit(Clip(x, minimum=0.0, maximum=self._most))

    def _zeros(self, *shape: int) -> Constant:
        return self._builder.constant("weights", np.broadcast_to(np.float32(0), shape))


def _pads(x: Value, kernel: tuple[int, int], stride: int) -> tuple[int, ...]:
    """Return the padding that makes ``ceil(size / stride)`` results, the odd cell at the end."""
    totals = []
    for size, taps in zip(x.type.shape[1:3], kernel, strict=True):
        results = -(-size // stride)
        totals.append(max(0, (results - 1) * stride + taps - size))
    return (*(total // 2 for total in totals), *(total - total // 2 for total in totals))


def _block_35(net: _Layers, x: Value, depth: int) -> Value:
    conv = net.convolution
    return net.concat(
        conv(x, 64),
        conv(conv(x, 48), 64, 5),
        conv(conv(conv(x, 64), 96, 3), 96, 3),
        conv(net.average(x), depth),
    )


def _reduction_35(net: _Layers, x: Value) -> Value:
    conv = net.convolution
    return net.concat(
        conv(x, 384, 3, stride=2, same=False),
        conv(conv(conv(x, 64), 96, 3), 96, 3, stride=2, same=False),
        net.max_pool(x),
    )


def _block_17(net: _Layers, x: Value, depth: int) -> Value:
    conv = net.convolution
    single = conv(conv(conv(x, depth), depth, 1, 7), 192, 7, 1)
    double = conv(conv(conv(x, depth), depth, 7, 1), depth, 1, 7)
    double = conv(conv(double, depth, 7, 1), 192, 1, 7)
    return net.concat(conv(x, 192), single, double, conv(net.average(x), 192))


def _reduction_17(net: _Layers, x: Value) -> Value:
    conv = net.convolution
    narrow = conv(conv(x, 192), 320, 3, stride=2, same=False)
    wide = conv(conv(conv(x, 192), 192, 1, 7), 192, 7, 1)
    wide = conv(wide, 192, 3, stride=2, same=False)
    return net.concat(narrow, wide, net.max_pool(x))


def _block_8(net: _Layers, x: Value) -> Value:
    conv = net.convolution
    single = conv(x, 384)
    double = conv(conv(x, 448), 384, 3)
    split = [
        conv(branch, 384, *kernel) for branch in (single, double) for kernel in ((1, 3), (3, 1))
    ]
    return net.concat(conv(x, 320), *split, conv(net.average(x), 192))
