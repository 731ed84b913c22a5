"""Is anything slow in networks that mix convolutions and attention, or widen an image again?

ConvNeXt-T (arXiv 2201.03545), RegNetY-1.6GF (2003.13678), SegFormer-B0 (2105.15203), a stage-wise
transformer with shifted windows like Swin-T (2103.14030), a U-Net (1505.04597), a network of
dilated convolutions like DeepLabv3 (1706.05587), and a tagger of two LSTMs, as ONNX models with
seeded random weights, written as exporters write them. They are written to a folder, for a duel or
a profile::

    python -m experiments.networks.recent FOLDER --only convnext swin
    python -m experiments.benchmarks.duel FOLDER/convnext.onnx --threads 2
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx

from experiments.networks.layers import Layers, main

IMAGE = (1, 3, 224, 224)


class Tokens(Layers):
    """Layers that take the channels last, as transformers do."""

    def ints(self, *numbers: int) -> str:
        """Return an ``int64`` vector."""
        return self.constant(np.array(numbers, np.int64))

    def number(self, number: float) -> str:
        """Return a ``float32`` constant."""
        return self.constant(np.array(number, np.float32))

    def patches(self, x: str, depth: int, size: int) -> str:
        """Return what a layer makes of each patch of *size* x *size* pixels."""
        batch, channels, *sizes = self.shapes[x]
        filter = self.weights(depth, channels, size, size, inputs=channels * size**2, gain=1)
        shape = (batch, depth, *(n // size for n in sizes))
        bias, square = self.weights(depth, inputs=400), [size, size]
        return self.emit("Conv", shape, x, filter, bias, kernel_shape=square, strides=square)

    def resized(self, x: str, *shape: int) -> str:
        """Return an image of *shape*, of which each pixel lies between those of *x*."""
        if self.shapes[x] == shape:
            return x
        return self.emit("Resize", shape, x, "", "", self.ints(*shape), mode="linear")

    def transposed(self, x: str, *order: int) -> str:
        """Return *x* with its axes in another order."""
        shape = tuple(self.shapes[x][axis] for axis in order)
        return self.emit("Transpose", shape, x, perm=list(order))

    def shaped(self, x: str, *shape: int) -> str:
        """Return *x* with another shape."""
        return self.emit("Reshape", shape, x, self.ints(*shape))

    def normalized(self, x: str) -> str:
        """Return the layer normalization of *x* over its last axis."""
        shape = self.shapes[x]
        scale, bias = (self.weights(shape[-1], inputs=n, gain=1) for n in (1, 100))
        return self.emit("LayerNormalization", shape, x, scale, bias, axis=-1, epsilon=1e-6)

    def dense(self, x: str, depth: int) -> str:
        """Return ``x @ weights + bias``."""
        *outer, channels = self.shapes[x]
        shape = (*outer, depth)
        y = self.emit("MatMul", shape, x, self.weights(channels, depth, inputs=channels, gain=1))
        return self.emit("Add", shape, y, self.weights(depth, inputs=400))

    def gelu(self, x: str) -> str:
        """Return the Gaussian error linear unit of *x*, in primitives."""
        shape = self.shapes[x]
        bent = self.emit("Erf", shape, self.emit("Div", shape, x, self.number(sqrt(2))))
        product = self.emit("Mul", shape, x, self.emit("Add", shape, bent, self.number(1)))
        return self.emit("Mul", shape, product, self.number(0.5))

    def heads(self, x: str, heads: int, *, are_keys: bool = False) -> str:
        """Return tokens ``[batch, tokens, channels]`` cut into heads; keys are transposed."""
        batch, tokens, channels = self.shapes[x]
        cut = self.shaped(x, batch, tokens, heads, channels // heads)
        return self.transposed(cut, 0, 2, 3, 1) if are_keys else self.transposed(cut, 0, 2, 1, 3)

    def attention(self, x: str, others: str, heads: int, bias: str = "") -> str:
        """Return what tokens *x* make of tokens *others*; *bias* is added to the scores."""
        batch, tokens, channels = self.shapes[x]
        query = self.heads(self.dense(x, channels), heads)
        key = self.heads(self.dense(others, channels), heads, are_keys=True)
        value = self.heads(self.dense(others, channels), heads)
        scores = (batch, heads, tokens, self.shapes[others][1])
        y = self.emit("MatMul", scores, query, key)
        y = self.emit("Mul", scores, y, self.number(sqrt(heads / channels)))
        y = self.emit("Add", scores, y, bias) if bias else y
        y = self.emit("Softmax", scores, y, axis=-1)
        y = self.emit("MatMul", (batch, heads, tokens, channels // heads), y, value)
        return self.dense(
            self.shaped(self.transposed(y, 0, 2, 1, 3), batch, tokens, channels), channels
        )

    def as_tokens(self, x: str) -> str:
        """Return an image ``[batch, channels, height, width]`` as tokens."""
        batch, channels, height, width = self.shapes[x]
        return self.transposed(self.shaped(x, batch, channels, height * width), 0, 2, 1)

    def as_image(self, x: str, height: int, width: int) -> str:
        """Return tokens as an image."""
        batch, _, channels = self.shapes[x]
        return self.shaped(self.transposed(x, 0, 2, 1), batch, channels, height, width)

    def rolled(self, x: str, by: int) -> str:
        """Return an image, channels last, whose rows and columns are moved around by *by*."""
        for axis in (1, 2):
            shape = list(self.shapes[x])
            size, cut = shape[axis], by % shape[axis]
            parts = []
            for first, end in ((cut, size), (0, cut)):
                shape[axis] = end - first
                ends = (self.ints(number) for number in (first, end, axis))
                parts.append(self.emit("Slice", tuple(shape), x, *ends))
            x = self.emit("Concat", self.shapes[x], *parts, axis=axis)
        return x

    def windows(self, x: str, size: int) -> str:
        """Return an image, channels last, cut into windows of *size*, each as tokens."""
        batch, height, width, channels = self.shapes[x]
        rows, columns = height // size, width // size
        cut = self.shaped(x, batch, rows, size, columns, size, channels)
        whole = self.transposed(cut, 0, 1, 3, 2, 4, 5)
        return self.shaped(whole, batch * rows * columns, size * size, channels)

    def joined(self, x: str, shape: tuple[int, ...], size: int) -> str:
        """Return windows as an image of *shape*, channels last."""
        batch, height, width, channels = shape
        rows, columns = height // size, width // size
        cut = self.shaped(x, batch, rows, columns, size, size, channels)
        return self.shaped(self.transposed(cut, 0, 1, 3, 2, 4, 5), *shape)


def convnext(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return ConvNeXt-T: wide depthwise convolutions, and dense layers of each pixel."""
    m = Tokens("convnext", image)
    x = "image"
    for depth, blocks in ((96, 3), (192, 3), (384, 9), (768, 3)):
        if x == "image":
            x = m.patches(x, depth, 4)
        x = m.transposed(m.normalized(m.transposed(x, 0, 2, 3, 1)), 0, 3, 1, 2)
        if m.shapes[x][1] < depth:
            x = m.patches(x, depth, 2)
        for _ in range(blocks):
            y = m.transposed(m.depthwise(x, 7, 1, ""), 0, 2, 3, 1)
            y = m.dense(m.gelu(m.dense(m.normalized(y), 4 * depth)), depth)
            y = m.emit("Mul", m.shapes[y], y, m.weights(depth, inputs=100))
            x = m.add(x, m.transposed(y, 0, 3, 1, 2))
    return m.classify(x)


def regnet(image: tuple[int, ...] = IMAGE) -> onnx.ModelProto:
    """Return RegNetY-1.6GF: convolutions in groups of 24 channels, whose results are weighed."""
    m = Layers("regnet", image)
    x = m.convolution("image", 32, 3, 2)
    for depth, blocks in ((48, 2), (120, 6), (336, 17), (888, 2)):
        for stride in (2, *[1] * (blocks - 1)):
            channels = m.shapes[x][1]
            y = m.convolution(m.convolution(x, depth), depth, 3, stride, depth // 24)
            y = m.convolution(m.squeeze(y, channels // 4, "Relu", "Sigmoid"), depth, act="")
            if m.shapes[x] != m.shapes[y]:
                x = m.convolution(x, depth, 1, stride, act="")
            x = m.activation(m.add(x, y), "Relu")
    return m.classify(x)


def segformer(image: tuple[int, ...] = (1, 3, 512, 512), classes: int = 150) -> onnx.ModelProto:
    """Return SegFormer-B0: keys and values are of fewer tokens, the results of all stages meet."""
    m = Tokens("segformer", image)
    x, made = "image", []
    for depth, heads, ratio in ((32, 1, 8), (64, 2, 4), (160, 5, 2), (256, 8, 1)):
        x = m.convolution(x, depth, *((7, 4) if x == "image" else (3, 2)), act="")
        height, width = m.shapes[x][2:]
        t = m.normalized(m.as_tokens(x))
        for _ in range(2):
            y = others = m.normalized(t)
            if ratio > 1:
                others = m.as_tokens(m.patches(m.as_image(y, height, width), depth, ratio))
                others = m.normalized(others)
            t = m.add(t, m.attention(y, others, heads))
            y = m.as_image(m.dense(m.normalized(t), 4 * depth), height, width)
            y = m.as_tokens(m.depthwise(y, 3, 1, ""))
            t = m.add(t, m.dense(m.gelu(y), depth))
        x = m.as_image(m.normalized(t), height, width)
        made.append(m.as_image(m.dense(m.as_tokens(x), 256), height, width))
    wide = [m.resized(y, *m.shapes[made[0]]) for y in reversed(made)]
    x = m.convolution(m.convolution(m.concat(*wide), 256), classes, act="")
    return m.model(x)


def swin(image: tuple[int, ...] = IMAGE, window: int = 7) -> onnx.ModelProto:
    """Return attention within windows of 7 x 7 tokens, which are moved in every second layer."""
    m = Tokens("swin", image)
    x = m.patches("image", 96, 4)
    _, depth, height, width = m.shapes[x]
    t = m.normalized(m.as_tokens(x))
    for heads, blocks in ((3, 2), (6, 2), (12, 6), (24, 2)):
        shape = (1, height, width, depth)
        count, tokens = height * width // window**2, window**2
        for number in range(blocks):
            by = window // 2 if number % 2 and height > window else 0
            y = m.shaped(m.normalized(t), *shape)
            y = m.windows(m.rolled(y, by) if by else y, window)
            bias = m._random.standard_normal(
                (count if by else 1, heads, tokens, tokens), np.float32
            )
            y = m.attention(y, y, heads, m.constant(bias))
            y = m.joined(y, shape, window)
            y = m.rolled(y, -by) if by else y
            t = m.add(t, m.shaped(y, 1, height * width, depth))
            t = m.add(t, m.dense(m.gelu(m.dense(m.normalized(t), 4 * depth)), depth))
        if height > window:
            y = m.shaped(t, *shape)
            height, width, depth = height // 2, width // 2, 2 * depth
            cut = m.shaped(y, 1, height, 2, width, 2, depth // 2)
            y = m.shaped(m.transposed(cut, 0, 1, 3, 4, 2, 5), 1, height * width, 2 * depth)
            t = m.dense(m.normalized(y), depth)
    return m.classify(m.as_image(m.normalized(t), height, width))


def unet(image: tuple[int, ...] = (1, 3, 256, 256)) -> onnx.ModelProto:
    """Return a U-Net of 32 to 512 channels: an image becomes small, and large again."""
    m = Tokens("unet", image)
    x = "image"
    kept: list[str] = []
    for depth in (32, 64, 128, 256, 512):
        if kept:
            x = m.max_pool(x)
        x = m.convolution(m.convolution(x, depth, 3), depth, 3)
        kept.append(x)
    for near in reversed(kept[:-1]):
        batch, depth, height, width = m.shapes[near]
        filter = m.weights(2 * depth, depth, 2, 2, inputs=2 * depth)
        bias, shape = m.weights(depth, inputs=400), (batch, depth, height, width)
        x = m.emit("ConvTranspose", shape, x, filter, bias, kernel_shape=[2, 2], strides=[2, 2])
        x = m.convolution(m.convolution(m.concat(near, x), depth, 3), depth, 3)
    return m.model(m.convolution(x, 2, act=""))


def deeplab(image: tuple[int, ...] = (1, 3, 257, 257), classes: int = 21) -> onnx.ModelProto:
    """Return dilated convolutions at an eighth of the size, at last with four distances at once."""
    m = Tokens("deeplab", image)
    x = "image"
    for depth in (32, 64, 128):
        x = m.convolution(x, depth, 3, stride=2)
    for dilation in (2, 2, 4):
        y = m.convolution(x, 128, 3, dilation=dilation)
        x = m.add(x, m.convolution(y, 128, 3, act="", dilation=dilation))
    near = m.convolution(x, 64)
    far = [m.convolution(x, 64, 3, dilation=dilation) for dilation in (6, 12, 18)]
    x = m.convolution(m.concat(near, *far), 64)
    return m.model(m.resized(m.convolution(x, classes, act=""), 1, classes, *image[2:]))


def tagger(sequence: tuple[int, ...] = (128, 1, 256), classes: int = 50) -> onnx.ModelProto:
    """Return two LSTMs of both directions, and what a dense layer makes of each token."""
    m = Tokens("tagger", sequence)
    tokens, batch, width = sequence
    x = "image"
    for _ in range(2):
        inputs, shape = m.shapes[x][-1], (tokens, 2, batch, width)
        w = m.weights(2, 4 * width, inputs, inputs=inputs, gain=1)
        r, b = (
            m.weights(2, 4 * width, width, inputs=width, gain=1),
            m.weights(2, 8 * width, inputs=400),
        )
        y = m.emit("LSTM", shape, x, w, r, b, direction="bidirectional", hidden_size=width)
        x = m.shaped(m.transposed(y, 0, 2, 1, 3), tokens, batch, 2 * width)
    return m.model(m.dense(x, classes))


NETWORKS = (convnext, regnet, segformer, swin, unet, deeplab, tagger)


if __name__ == "__main__":
    main(__doc__, NETWORKS)
