"""Networks for sound, images and texts of any size, written as exporters write them.

A wav2vec 2.0 (arXiv 2006.11477) over samples, a Whisper (arXiv 2212.04356) over a spectrogram and
tokens, a segmenter whose maps become as large as earlier ones, a vision transformer whose positions
are stretched over the image, a CLIP (arXiv 2103.00020) of images and texts, and a decoder like
Llama, which computes positions and masks in the graph. Weights are random and seeded::

    python -m experiments.networks.open_media FOLDER --only segmenter
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt

import numpy as np
import onnx
from onnx import TensorProto

from experiments.networks.layers import main as write_networks
from experiments.networks.open_sizes import LONGEST, NEVER, VOCABULARY, Dimensions, Model

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Media(Model):
    """A model under construction, with layers of sound and images; values are names."""

    def filtered(
        self,
        x: str,
        channels: tuple[int, int],
        kernel: Sequence[int],
        stride: int = 1,
        group: int = 1,
        pads: Sequence[int] | None = None,
        dilation: int = 1,
    ) -> str:
        """Return a convolution from and to so many *channels*, by default over the whole of *x*."""
        inputs, outputs = channels
        taps = inputs // group * prod(kernel)
        numbers = self.random.standard_normal((outputs, inputs // group, *kernel), np.float32)
        around = [dilation * (size // 2) for size in kernel] * 2
        return self.emit(
            "Conv", x, self.constant(numbers * np.float32(sqrt(2 / taps))),
            self.constant(self.random.standard_normal(outputs, np.float32) * np.float32(0.05)),
            kernel_shape=list(kernel), strides=[stride] * len(kernel), group=group,
            pads=list(around if pads is None else pads), dilations=[dilation] * len(kernel),
        )  # fmt: skip

    def scaled(self, x: str, channels: int, rank: int) -> str:
        """Return the channels of *x* times numbers near one."""
        numbers = 1 + 0.1 * self.random.standard_normal((channels, *[1] * rank))
        return self.emit("Mul", x, self.constant(numbers.astype(np.float32)))

    def by_groups(self, x: str, channels: int) -> str:
        """Return *x* normalized for each channel, as exporters write a normalization of groups."""
        ones, zeros = (self.constant(np.full(channels, n, np.float32)) for n in (1, 0))
        flat = self.emit("Reshape", x, self.whole(0, channels, -1))
        normal = self.emit("InstanceNormalization", flat, ones, zeros, epsilon=1e-5)
        return self.scaled(self.emit("Reshape", normal, self.emit("Shape", x)), channels, 1)

    def heads_of(self, x: str) -> str:
        """Return what a dense layer makes of tokens, in heads."""
        return self.split_heads(self.dense(x, self.width, self.width), [0, 2, 1, 3])

    def keys_of(self, x: str) -> str:
        """Return the same with tokens last."""
        return self.split_heads(self.dense(x, self.width, self.width), [0, 2, 3, 1])

    def attended(self, x: str, others: str, mask: str) -> str:
        """Return what tokens *x* make of tokens *others*."""
        mixed = self.attention(self.heads_of(x), self.keys_of(others), self.heads_of(others), mask)
        return self.dense(mixed, self.width, self.width)

    def block(self, x: str, mask: str, others: str = "") -> str:
        """Return a layer that normalizes first, with an attention to *others* if there are some."""
        y = self.normalized(x)
        x = self.emit("Add", x, self.attended(y, y, mask))
        if others:
            y = self.attended(self.normalized(x), others, self.nothing())
            x = self.emit("Add", x, y)
        return self.emit("Add", x, self.feed_forward(self.normalized(x)))

    def nothing(self) -> str:
        """Return a mask that hides nothing."""
        return self.constant(np.zeros((1, 1, 1, 1), np.float32))

    def sizes(self, x: str, first: int, end: int) -> str:
        """Return some sizes of *x* as a vector."""
        ends = (self.whole(first), self.whole(end), self.whole(0))
        return self.emit("Slice", self.emit("Shape", x), *ends)

    def resized(self, x: str, channels: int, like: str, mode: str = "linear") -> str:
        """Return *x* with the height and width of *like*."""
        parts = (self.sizes(x, 0, 1), self.whole(channels), self.sizes(like, 2, 4))
        wanted = self.emit("Concat", *parts, axis=0)
        rounding = "half_pixel" if mode == "linear" else "asymmetric"
        none = self.constant(np.zeros(0, np.float32))
        return self.emit(
            "Resize", x, none, none, wanted, mode=mode, nearest_mode="floor",
            coordinate_transformation_mode=rounding,
        )  # fmt: skip

    def places(self, x: str, longest: int = LONGEST) -> str:
        """Return tokens with what is known of their places added."""
        ends = (self.whole(0), self.size(x, 1), self.whole(1))
        numbers = self.random.standard_normal((1, longest, self.width), np.float32)
        table = self.constant(numbers * np.float32(0.1))
        return self.emit("Add", x, self.emit("Slice", table, *ends))

    def steps(self, first: str, end: str) -> str:
        """Return ``first, first + 1, ...`` before *end*, vectors of one size each."""
        ends = (self.emit("Squeeze", each, self.whole(0)) for each in (first, end))
        return self.emit("Range", *ends, self.constant(np.int64(1)))

    def causal(self, first: str, end: str) -> str:
        """Return a mask that hides later keys from the tokens between two places."""
        columns = self.steps(self.whole(0), end)
        rows = self.emit("Unsqueeze", self.steps(first, end), self.whole(1))
        is_later = self.emit("Greater", columns, rows)
        return self.emit("Where", is_later, self.number(NEVER), self.number(0))


def speech_encoder(
    name: str = "speech_encoder", layers: int = 1, heads: int = 4
) -> onnx.ModelProto:
    """Return a wav2vec 2.0: filters over samples, places by a wide filter, and a transformer."""
    m = Media(heads, 16)
    samples, filters = m.input("samples", FLOAT, ["batch", "time"]), 32
    x = m.filtered(m.emit("Unsqueeze", samples, m.whole(1)), (1, filters), [10], 5, pads=[0, 0])
    x = m.gelu(m.by_groups(x, filters))
    for taps in (3, 3, 3, 3, 2, 2):
        x = m.gelu(m.filtered(x, (filters, filters), [taps], 2, pads=[0, 0]))
    x = m.dense(m.emit("Transpose", x, perm=[0, 2, 1]), filters, m.width)
    around = m.filtered(m.emit("Transpose", x, perm=[0, 2, 1]), (m.width, m.width), [16], group=4)
    ends = (m.whole(0), m.whole(-1), m.whole(2))  # an even filter makes one too many
    around = m.gelu(m.emit("Slice", around, *ends))
    x = m.normalized(m.emit("Add", x, m.emit("Transpose", around, perm=[0, 2, 1])))
    for _ in range(layers):
        x = m.normalized(m.emit("Add", x, m.attended(x, x, m.nothing())))
        x = m.normalized(m.emit("Add", x, m.feed_forward(x)))
    m.output(m.dense(x, m.width, 32), "letters", ["batch", "frames", 32])
    return m.model(name)


def listener(name: str = "listener", layers: int = 1, heads: int = 4) -> onnx.ModelProto:
    """Return a Whisper: an encoder of columns of a spectrogram, and a decoder of tokens."""
    m = Media(heads, 16)
    x = m.input("spectrogram", FLOAT, ["batch", 20, "columns"])
    x = m.gelu(m.filtered(x, (20, m.width), [3]))
    x = m.gelu(m.filtered(x, (m.width, m.width), [3], 2))
    x = m.places(m.emit("Transpose", x, perm=[0, 2, 1]))
    for _ in range(layers):
        x = m.block(x, m.nothing())
    heard = m.normalized(x)
    tokens = m.input("tokens", INT64, ["batch", "length"])
    y = m.places(m.emit("Gather", m.random_weights(VOCABULARY, m.width), tokens))
    mask = m.causal(m.whole(0), m.size(tokens, 1))
    for _ in range(layers):
        y = m.block(y, mask, heard)
    logits = m.emit("MatMul", m.normalized(y), m.random_weights(m.width, VOCABULARY))
    m.output(logits, "logits", ["batch", "length", VOCABULARY])
    return m.model(name)


def segmenter(name: str = "segmenter", depth: int = 16) -> onnx.ModelProto:
    """Return maps that become small and large again, beside dilated ones and the whole image."""
    m = Media(1, depth)
    image = m.input("image", FLOAT, ["batch", 3, "height", "width"])
    x, made, channels = image, [], 3
    for level in range(4):
        x = m.emit("Relu", m.filtered(x, (channels, depth << level), [3, 3], 2))
        channels = depth << level
        x = m.emit("Relu", m.emit("Add", x, m.filtered(x, (channels, channels), [3, 3])))
        made.append((x, channels))
    seen = [m.filtered(x, (channels, depth), [3, 3], dilation=n) for n in (1, 2, 4)]
    whole = m.filtered(m.emit("GlobalAveragePool", x), (channels, depth), [1, 1])
    x = m.emit("Concat", *seen, m.resized(whole, depth, x), axis=1)
    x = m.emit("Relu", m.filtered(x, (4 * depth, depth), [1, 1]))
    for near, channels in reversed(made[:-1]):
        near_part = m.filtered(near, (channels, depth), [1, 1])
        x = m.emit("Add", m.resized(x, depth, near, "nearest"), near_part)
        x = m.emit("Relu", m.filtered(x, (depth, depth), [3, 3]))
    labels = m.filtered(x, (depth, 5), [1, 1])
    m.output(m.resized(labels, 5, image), "labels", ["batch", 5, "height", "width"])
    return m.model(name)


def viewer(
    name: str = "viewer", layers: int = 1, heads: int = 4, patch: int = 16
) -> onnx.ModelProto:
    """Return a vision transformer whose positions are stretched over the patches of an image."""
    m = Media(heads, 16)
    image = m.input("image", FLOAT, ["batch", 3, "height", "width"])
    x = m.filtered(image, (3, m.width), [patch, patch], patch, pads=[0] * 4)
    numbers = m.random.standard_normal((1, m.width, 14, 14), np.float32)
    table = m.constant(numbers * np.float32(0.1))
    flat = m.whole(0, m.width, -1)
    stretched = m.emit("Reshape", m.resized(table, m.width, x), flat)
    tokens = m.emit("Add", m.emit("Reshape", x, flat), stretched)
    x = m.emit("Transpose", tokens, perm=[0, 2, 1])
    wanted = m.emit("Concat", m.size(x, 0), m.whole(1, m.width), axis=0)
    first = m.emit("Expand", m.constant(np.full((1, 1, m.width), 0.1, np.float32)), wanted)
    x = m.emit("Concat", first, x, axis=1)
    for _ in range(layers):
        x = m.block(x, m.nothing())
    first = m.emit("Gather", m.normalized(x), m.constant(np.int64(0)), axis=1)
    m.output(m.dense(first, m.width, 100), "scores", ["batch", 100])
    return m.model(name)


def matcher(name: str = "matcher", layers: int = 1, heads: int = 4) -> onnx.ModelProto:
    """Return a CLIP: how well each of some images goes with each of some texts."""
    m = Media(heads, 16)
    image = m.input("pixels", FLOAT, ["images", 3, 64, 64])
    x = m.filtered(image, (3, m.width), [16, 16], 16, pads=[0] * 4)
    x = m.emit("Transpose", m.emit("Reshape", x, m.whole(0, m.width, -1)), perm=[0, 2, 1])
    x = m.block(m.places(x, 16), m.nothing())
    first = m.emit("Gather", m.normalized(x), m.constant(np.int64(0)), axis=1)
    ids = m.input("ids", INT64, ["texts", "length"])
    y = m.places(m.emit("Gather", m.random_weights(VOCABULARY, m.width), ids))
    mask = m.causal(m.whole(0), m.size(ids, 1))
    for _ in range(layers):
        y = m.block(y, mask)
    last = m.emit("ArgMax", ids, axis=1, keepdims=0)  # the last token has the largest number
    rows = m.steps(m.whole(0), m.size(ids, 0))
    pairs = [m.emit("Unsqueeze", each, m.whole(1)) for each in (rows, last)]
    text = m.emit("GatherND", m.normalized(y), m.emit("Concat", *pairs, axis=1))
    parts = []
    for features in (first, text):
        z = m.emit("MatMul", features, m.random_weights(m.width, 32))
        parts.append(m.emit("Div", z, m.emit("ReduceL2", z, axes=[-1])))
    turned = m.emit("Transpose", parts[0], perm=[1, 0])
    logits = m.emit("Mul", m.emit("MatMul", parts[1], turned), m.emit("Exp", m.number(2.0)))
    m.output(logits, "logits", ["texts", "images"])
    return m.model(name)


def turned(m: Media, x: str, cosines: str, sines: str) -> str:
    """Return heads with the halves of their channels turned by the places of tokens."""
    half, far = m.whole(m.depth // 2), m.whole(np.iinfo(np.int64).max)
    first = m.emit("Slice", x, m.whole(0), half, m.whole(3))
    second = m.emit("Slice", x, half, far, m.whole(3))
    across = m.emit("Concat", m.emit("Neg", second), first, axis=3)
    return m.emit("Add", m.emit("Mul", x, cosines), m.emit("Mul", across, sines))


def grouped_heads(m: Media, x: str, groups: int) -> str:
    """Return what weights make of tokens, in *groups* of heads."""
    product = m.emit("MatMul", x, m.random_weights(m.width, groups * m.depth))
    parts = (m.size(x, 0), m.size(x, 1), m.whole(groups, m.depth))
    split = m.emit("Reshape", product, m.emit("Concat", *parts, axis=0))
    return m.emit("Transpose", split, perm=[0, 2, 1, 3])


def repeated(m: Media, x: str, groups: int) -> str:
    """Return each head of *x* once for each head of queries that reads it."""
    share, batch, tokens = m.heads // groups, m.size(x, 0), m.size(x, 2)
    whole = m.emit("Concat", batch, m.whole(groups, share), tokens, m.whole(m.depth), axis=0)
    apart = m.emit("Expand", m.emit("Unsqueeze", x, m.whole(2)), whole)
    joined = m.emit("Concat", batch, m.whole(m.heads), tokens, m.whole(m.depth), axis=0)
    return m.emit("Reshape", apart, joined)


def grouped_decoder(
    name: str = "grouped_decoder", layers: int = 1, heads: int = 6, groups: int = 2
) -> onnx.ModelProto:
    """Return a Llama: any number of tokens after any number of past ones, whose keys are fed."""
    m = Media(heads, 16)
    ids = m.input("input_ids", INT64, ["batch", "tokens"])
    cache: Dimensions = ["batch", groups, "past", m.depth]
    pasts = [m.input(f"past_{n}", FLOAT, cache) for n in range(2 * layers)]
    x = m.emit("Gather", m.random_weights(VOCABULARY, m.width), ids)
    past = m.size(pasts[0], 2)
    end = m.emit("Add", past, m.size(ids, 1))
    mask = m.causal(past, end)
    rates = m.constant(1e4 ** (-np.arange(0, m.depth, 2, dtype=np.float32) / m.depth)[None])
    places = m.emit("Unsqueeze", m.emit("Cast", m.steps(past, end), to=FLOAT), m.whole(1))
    angles = m.emit("MatMul", places, rates)
    angles = m.emit("Concat", angles, angles, axis=-1)
    turns = m.emit("Cos", angles), m.emit("Sin", angles)
    for layer in range(layers):
        y = m.normalized(x)
        query = turned(m, grouped_heads(m, y, heads), *turns)
        new = (turned(m, grouped_heads(m, y, groups), *turns), grouped_heads(m, y, groups))
        known = []
        for which, part in enumerate(new):
            known.append(m.emit("Concat", pasts[2 * layer + which], part, axis=2))
            grown: Dimensions = ["batch", groups, "past + tokens", m.depth]
            m.output(known[-1], f"present_{2 * layer + which}", grown)
        keys, values = (repeated(m, part, groups) for part in known)
        keys = m.emit("Transpose", keys, perm=[0, 1, 3, 2])
        attended = m.attention(query, keys, values, mask)
        x = m.emit("Add", x, m.emit("MatMul", attended, m.random_weights(m.width, m.width)))
        x = m.emit("Add", x, m.feed_forward(m.normalized(x)))
    logits = m.emit("MatMul", m.normalized(x), m.random_weights(m.width, VOCABULARY))
    m.output(logits, "logits", ["batch", "tokens", VOCABULARY])
    return m.model(name)


NETWORKS: tuple[Callable[[], onnx.ModelProto], ...] = (
    speech_encoder,
    listener,
    segmenter,
    viewer,
    matcher,
    grouped_decoder,
)

if __name__ == "__main__":
    write_networks(__doc__, NETWORKS)
