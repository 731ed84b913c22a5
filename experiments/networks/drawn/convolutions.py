"""Convolutions by kind, and pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.networks.drawn.drawing import Drawing, kind


def _convolution(
    g: Drawing,
    channels: int,
    depth: int,
    kernel: list[int],
    sizes: list[int],
    *,
    group: int = 1,
    act: bool = True,
    **attributes: Any,
) -> str:
    """Return a convolution with a bias, mostly with a ReLU."""
    dilations = attributes.get("dilations", [1] * len(kernel))
    half = [(k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True)]
    attributes.setdefault("pads", half * 2)
    x = g.input(1, channels, *sizes)
    inner = channels // group
    weights = g.weights(depth, inner, *kernel, sums=inner * int(np.prod(kernel)))
    y = g.node(
        "Conv", x, weights, g.constant(g.array(depth)), kernel_shape=kernel, group=group,
        **attributes,
    )  # fmt: skip
    return str(g.node("Relu", y) if act and g.chance(0.7) else y)


@kind
def convolution(g: Drawing) -> str:
    kernel, stride = g.one_of(3, 3, 3, 5), g.one_of(1, 1, 2)
    sizes = [g.whole(7, 56), g.whole(7, 56)]
    return _convolution(
        g, g.whole(16, 160), g.whole(16, 160), [kernel] * 2, sizes, strides=[stride] * 2
    )


@kind
def pointwise_convolution(g: Drawing) -> str:
    sizes = [g.whole(7, 56), g.whole(7, 56)]
    return _convolution(g, g.whole(16, 384), g.whole(16, 384), [1, 1], sizes)


@kind
def strided_pointwise_convolution(g: Drawing) -> str:
    sizes = [g.whole(14, 56), g.whole(14, 56)]
    return _convolution(g, g.whole(32, 384), g.whole(32, 384), [1, 1], sizes, strides=[2, 2])


@kind
def stem_convolution(g: Drawing) -> str:
    kernel, size = g.one_of(3, 5, 7), g.whole(64, 224)
    strides = [g.one_of(1, 2, 2)] * 2
    return _convolution(g, 3, g.whole(8, 64), [kernel] * 2, [size, size], strides=strides)


@kind
def patch_embedding(g: Drawing) -> str:
    patch = g.one_of(4, 8, 14, 16)
    size = patch * g.whole(8, 16)
    return _convolution(
        g, 3, g.whole(64, 512), [patch] * 2, [size] * 2, act=False, strides=[patch] * 2,
        pads=[0] * 4,
    )  # fmt: skip


@kind
def depthwise_convolution(g: Drawing) -> str:
    channels, kernel, stride = g.whole(16, 384), g.one_of(3, 3, 5, 7), g.one_of(1, 1, 2)
    sizes = [g.whole(7, 64), g.whole(7, 64)]
    return _convolution(
        g, channels, channels, [kernel] * 2, sizes, group=channels, strides=[stride] * 2
    )


@kind
def depthwise_with_multiplier(g: Drawing) -> str:
    channels, times = g.whole(3, 96), g.one_of(2, 3, 4, 8)
    kernel, sizes = [g.one_of(3, 5)] * 2, [g.whole(14, 64), g.whole(14, 64)]
    return _convolution(g, channels, channels * times, kernel, sizes, group=channels)


@kind
def grouped_convolution(g: Drawing) -> str:
    group = g.one_of(2, 4, 8, 32)
    channels, depth = (group * g.whole(4, max(4, 256 // group)) for _ in range(2))
    return _convolution(g, channels, depth, [3, 3], [g.whole(7, 40)] * 2, group=group)


@kind
def dilated_convolution(g: Drawing) -> str:
    sizes, dilation = [g.whole(14, 56), g.whole(14, 56)], g.one_of(2, 3, 4)
    return _convolution(
        g, g.whole(16, 128), g.whole(16, 128), [3, 3], sizes, dilations=[dilation] * 2
    )


@kind
def convolution_of_one_dimension(g: Drawing) -> str:
    kernel, dilation = g.one_of(3, 5, 9), g.one_of(1, 1, 2)
    return _convolution(
        g, g.whole(16, 256), g.whole(16, 256), [kernel], [g.whole(50, 800)], dilations=[dilation]
    )


@kind
def convolution_of_three_dimensions(g: Drawing) -> str:
    sizes = [g.whole(4, 12), g.whole(8, 28), g.whole(8, 28)]
    return _convolution(g, g.whole(3, 48), g.whole(8, 64), [3, 3, 3], sizes)


@kind
def convolution_with_few_results(g: Drawing) -> str:
    sizes = [g.whole(28, 96), g.whole(28, 96)]
    return _convolution(g, g.whole(16, 96), g.one_of(1, 2, 3), [g.one_of(1, 3, 5)] * 2, sizes)


def _transposed(g: Drawing, depth: int, rank: int, size: int) -> str:
    channels, kernel, stride = g.whole(16, 96), *g.one_of((2, 2), (4, 2), (3, 2), (5, 2), (3, 1))
    x = g.input(1, channels, *[size] * rank)
    pad = (kernel - stride) // 2
    weights = g.weights(channels, depth, *[kernel] * rank, sums=channels * kernel)
    return str(
        g.node(
            "ConvTranspose", x, weights, g.constant(g.array(depth)), strides=[stride] * rank,
            kernel_shape=[kernel] * rank, pads=[pad] * (2 * rank),
        )
    )  # fmt: skip


@kind
def transposed_convolution(g: Drawing) -> str:
    return _transposed(g, g.whole(8, 96), 2, g.whole(7, 32))


@kind
def transposed_convolution_with_few_results(g: Drawing) -> str:
    return _transposed(g, g.one_of(1, 2, 3), 2, g.whole(14, 64))


@kind
def transposed_convolution_of_one_dimension(g: Drawing) -> str:
    return _transposed(g, g.whole(8, 96), 1, g.whole(50, 400))


@kind
def transposed_convolution_of_three_dimensions(g: Drawing) -> str:
    return _transposed(g, g.whole(4, 24), 3, g.whole(4, 10))


@kind
def transposed_convolution_in_any_window(g: Drawing) -> str:
    """Groups, dilations, longer strides, more at the ends."""
    group, rank = g.one_of(1, 1, 2, 8), g.one_of(1, 2, 2, 3)
    channels, depth = group * g.whole(2, 64 // group), group * g.one_of(1, 2, 4, 8)
    size = {1: g.whole(100, 800), 2: g.whole(14, 48), 3: g.whole(5, 12)}[rank]
    stride, kernel, dilation = g.one_of(2, 3, 4), g.one_of(3, 5, 7), g.one_of(1, 1, 2)
    x = g.input(g.one_of(1, 1, 2), channels, *[size] * rank)
    weights = g.weights(channels, depth // group, *[kernel] * rank, sums=channels * kernel // group)
    return str(
        g.node(
            "ConvTranspose", x, weights, g.constant(g.array(depth)), strides=[stride] * rank,
            kernel_shape=[kernel] * rank, pads=[kernel // 2] * (2 * rank), group=group,
            dilations=[dilation] * rank, output_padding=[g.one_of(0, 1)] * rank,
        )
    )  # fmt: skip


@kind
def deformable_convolution(g: Drawing) -> str:
    g.opset = 22
    channels, depth, size = g.whole(8, 48), g.whole(8, 48), g.whole(14, 40)
    x, weights = (
        g.input(1, channels, size, size),
        g.weights(depth, channels, 3, 3, sums=9 * channels),
    )
    offsets = g.input(1, 18, size, size)
    return str(g.node("DeformConv", x, weights, offsets, kernel_shape=[3, 3], pads=[1] * 4))


def _pool(g: Drawing, operator: str, kernel: int, stride: int, least: int, most: int) -> str:
    x = g.input(1, g.whole(8, 192), g.whole(least, most), g.whole(least, most))
    pads = [kernel // 2 if g.chance(0.7) and kernel > 2 else 0] * 4
    return str(g.node(operator, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads))


@kind
def max_pool(g: Drawing) -> str:
    return _pool(g, "MaxPool", *g.one_of((2, 2), (3, 2), (3, 1), (5, 1)), 14, 80)


@kind
def average_pool(g: Drawing) -> str:
    return _pool(g, "AveragePool", *g.one_of((2, 2), (3, 2), (3, 1), (5, 1)), 14, 80)


@kind
def pool_with_many_taps(g: Drawing) -> str:
    kernel = g.one_of(7, 9, 13, 25)
    return _pool(g, g.one_of("MaxPool", "AveragePool"), kernel, g.one_of(1, 1, 2), 26, 56)


@kind
def power_pool(g: Drawing) -> str:
    x = g.input(1, g.whole(8, 64), g.whole(14, 56), g.whole(14, 56))
    return str(g.node("LpPool", x, kernel_shape=[3, 3], strides=[2, 2], p=2))


@kind
def global_pool(g: Drawing) -> str:
    x = g.input(g.whole(1, 4), g.whole(32, 1024), g.whole(7, 28), g.whole(7, 28))
    return str(g.node(g.one_of("GlobalAveragePool", "GlobalMaxPool"), x))


@kind
def pool_of_three_dimensions(g: Drawing) -> str:
    x = g.input(1, g.whole(8, 32), g.whole(8, 16), g.whole(14, 40), g.whole(14, 40))
    operator, kernel = g.one_of("MaxPool", "AveragePool"), g.one_of(2, 3)
    return str(g.node(operator, x, kernel_shape=[kernel] * 3, strides=[2] * 3))


@kind
def bottleneck(g: Drawing) -> str:
    """A residual block of a network of images."""
    channels, size = g.whole(64, 256), g.whole(7, 28)
    inner = max(16, channels // 4)
    y = x = g.input(1, channels, size, size)
    for kernel, first, last in ((1, channels, inner), (3, inner, inner), (1, inner, channels)):
        weights = g.weights(last, first, kernel, kernel, sums=first * kernel**2)
        y = g.node("Conv", y, weights, pads=[kernel // 2] * 4, kernel_shape=[kernel] * 2)
        y = y if last == channels else g.node("Relu", y)
    return str(g.node("Relu", g.node("Add", x, y)))


@kind
def inverted_residual(g: Drawing) -> str:
    """A block of a mobile network, with squeeze and excitation."""
    channels, size = g.whole(16, 96), g.whole(7, 28)
    wide = 4 * channels
    x = g.input(1, channels, size, size)
    y = g.node("HardSwish", g.node("Conv", x, g.weights(wide, channels, 1, 1, sums=channels)))
    y = g.node("Conv", y, g.weights(wide, 1, 3, 3, sums=9), pads=[1] * 4, group=wide)
    y = g.node("HardSwish", y)
    few = g.node("Conv", g.node("GlobalAveragePool", y), g.weights(channels, wide, 1, 1, sums=wide))
    scale = g.node("Conv", g.node("Relu", few), g.weights(wide, channels, 1, 1, sums=channels))
    y = g.node("Mul", y, g.node("HardSigmoid", scale))
    return str(g.node("Add", x, g.node("Conv", y, g.weights(channels, wide, 1, 1, sums=wide))))
