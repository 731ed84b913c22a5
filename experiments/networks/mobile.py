"""Is anything slow in networks made of depthwise and grouped convolutions?

MobileNet v1, v2 and v3 (arXiv 1704.04861, 1801.04381, 1905.02244), EfficientNet-B0 (1905.11946),
ShuffleNet v2 (1807.11164), ResNeXt-50 (1611.05431) and one network of odd sizes, as ONNX models
with seeded random weights; batch normalization is already part of the filters. They are written to
a folder, for a duel or a profile::

    python -m experiments.networks.mobile FOLDER --only mobilenet_v3 odd
    python -m experiments.benchmarks.duel FOLDER/mobilenet_v3.onnx --threads 2
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from experiments.networks.layers import Layers, main

IMAGE = (1, 3, 224, 224)


def mobilenet_v1(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return MobileNet v1: a depthwise and a pointwise convolution in each layer."""
    m = Layers("mobilenet_v1", image)
    x = m.convolution("image", 32, 3, 2, act="Relu6")
    layers = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)]
    for depth, stride in [*layers, *[(512, 1)] * 5, (1024, 2), (1024, 1)]:
        x = m.convolution(m.depthwise(x, 3, stride, "Relu6"), depth, act="Relu6")
    return m.classify(x)


def _inverted(
    m: Layers, x: str, width: int, depth: int, kernel: int, stride: int, act: str,
    squeeze: Callable[[str], str] | None = None,
) -> str:  # fmt: skip
    """Return a block that widens, filters (and weighs the channels), and narrows again."""
    y = x if width == m.shapes[x][1] else m.convolution(x, width, act=act)
    y = m.depthwise(y, kernel, stride, act)
    return m.add(x, m.convolution(squeeze(y) if squeeze else y, depth, act=""))


def mobilenet_v2(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return MobileNet v2 of width 1."""
    m = Layers("mobilenet_v2", image)
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
    m = Layers("mobilenet_v3", image)
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
    m = Layers("efficientnet_b0", image)
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
    m = Layers("shufflenet_v2", image)
    x = m.max_pool(m.convolution("image", 24, 3, 2))
    for half, repeats in ((58, 4), (116, 8), (232, 4)):
        left = m.convolution(m.depthwise(x, 3, 2, ""), half)
        right = m.convolution(m.depthwise(m.convolution(x, half), 3, 2, ""), half)
        x = m.interleaved(left, right)
        for _ in range(repeats - 1):
            left, right = m.parts(x, 2)
            right = m.convolution(m.depthwise(m.convolution(right, half), 3, 1, ""), half)
            x = m.interleaved(left, right)
    return m.classify(m.convolution(x, 1024))


def resnext50(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return ResNeXt-50 with 32 groups of 4 channels and more."""
    m = Layers("resnext50", image)
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
    m = Layers("odd", image)
    x = m.convolution(m.max_pool(m.convolution("image", 20, 5, 2)), 36, 3, 1, 4)
    x = m.convolution(m.depthwise(x, 3, 2, "HardSwish"), 52)
    x = m.add(x, m.convolution(m.depthwise(x, 5, 1, "Relu6"), 52, act=""))
    x = m.squeeze(m.convolution(x, 52, 3, 1, 13), 13, "Relu", "Sigmoid")
    x = m.depthwise(m.convolution(m.convolution(x, 100, 3, 2), 132), 7, 1, "Relu")
    return m.classify(m.convolution(x, 77), 37)


NETWORKS = (
    mobilenet_v1, mobilenet_v2, mobilenet_v3, efficientnet_b0, shufflenet_v2, resnext50, odd,
)  # fmt: skip


if __name__ == "__main__":
    main(__doc__, NETWORKS)
