"""Is anything slow in networks made of attention?

An encoder like BERT-base (arXiv 1810.04805) over 128 and 384 tokens, a smaller one whose heads are
26 wide, ones over 64, 200 and 512 tokens, one with odd sizes and a batch of 3; an audio encoder
like Whisper-base (2212.04356) over 30 seconds, 1,500 tokens; ViT-B/16 (2010.11929); a decoder like
GPT-2 over 64 tokens, and its single step after 64 tokens that are known; one like Llama
(2302.13971, with groups of heads, 2305.13245) over 256 tokens, and its step after 255. They are
ONNX models with seeded random weights, written as exporters write them: attention, GELU and
normalizations in primitives, masks added or chosen. They are written to a folder, for a duel or a
profile::

    python -m experiments.networks.transformers FOLDER --only odd_encoder
    python -m experiments.benchmarks.duel FOLDER/odd_encoder.onnx --threads 2
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from experiments.networks.layers import write
from glow_nb.base.types import Array

OPSET = 13
VOCABULARY = 1000
NEVER = -10000.0
"""What is added to the score of a token that is not to be seen."""


@dataclass(frozen=True)
class Size:
    """The sizes of a network.

    Attributes:
        layers: How many there are.
        batch: Sequences.
        tokens: Tokens of a sequence.
        heads: Heads of the attention.
        depth: Channels of a head.
        groups: Heads of keys and values, if not as many.
    """

    layers: int
    batch: int
    tokens: int
    heads: int
    depth: int
    groups: int = 0

    @property
    def width(self) -> int:
        """Channels of a token."""
        return self.heads * self.depth


class _Model:
    """An ONNX model under construction; values are names."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, kind: int, *shape: int) -> str:
        """Declare an input; return its name."""
        self._inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def emit(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one result; return its name."""
        return self.emit_several(operator, 1, *inputs, **attributes)[0]

    def emit_several(
        self, operator: str, results: int, *inputs: str, **attributes: Any
    ) -> list[str]:
        """Add a node; return the names of its results."""
        names = [f"{operator.lower()}_{len(self._nodes)}_{index}" for index in range(results)]
        self._nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def constant(self, array: Any) -> str:
        """Return the name of a constant."""
        name = f"constant_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, number: float) -> str:
        """Return a ``float32`` constant."""
        return self.constant(np.float32(number))

    def sizes(self, *sizes: int) -> str:
        """Return an ``int64`` vector."""
        return self.constant(np.array(sizes, np.int64))

    def weights(self, *shape: int, scale: float | None = None) -> str:
        """Return random weights, by default for sums over the first dimension."""
        numbers: Array = self._random.standard_normal(shape, np.float32)
        return self.constant(numbers * np.float32(scale or 1 / sqrt(shape[0])))

    def normalized(self, x: str) -> str:
        """Return the layer normalization of *x*, in primitives."""
        centred = self.emit("Sub", x, self.emit("ReduceMean", x, axes=[-1]))
        square = self.emit("Pow", centred, self.number(2))
        variance = self.emit("ReduceMean", square, axes=[-1])
        deviation = self.emit("Sqrt", self.emit("Add", variance, self.number(1e-12)))
        scaled = self.emit("Mul", self.emit("Div", centred, deviation), self._near_one())
        return self.emit("Add", scaled, self.weights(self.size.width, scale=0.1))

    def _near_one(self) -> str:
        numbers = self._random.standard_normal(self.size.width, np.float32)
        return self.constant(1 + numbers * np.float32(0.1))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """Return ``x @ weights + bias``."""
        product = self.emit("MatMul", x, self.weights(inputs, outputs))
        return self.emit("Add", product, self.weights(outputs, scale=0.1))

    def gelu(self, x: str, approximate: str) -> str:
        """Return the Gaussian error linear unit of *x*, in primitives."""
        if approximate == "tanh":
            cube = self.emit("Mul", self.emit("Pow", x, self.number(3)), self.number(0.044715))
            inner = self.emit("Mul", self.emit("Add", x, cube), self.number(sqrt(2 / np.pi)))
            bent = self.emit("Tanh", inner)
        else:
            bent = self.emit("Erf", self.emit("Div", x, self.number(sqrt(2))))
        product = self.emit("Mul", x, self.emit("Add", bent, self.number(1)))
        return self.emit("Mul", product, self.number(0.5))

    def feed_forward(self, x: str, approximate: str = "none") -> str:
        """Return what two dense layers, the inner one four times as wide, make of *x*."""
        width = self.size.width
        return self.dense(self.gelu(self.dense(x, width, 4 * width), approximate), 4 * width, width)

    def in_heads(self, x: str, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        """Return the channels of *x* cut into heads, ``[batch, heads, tokens, depth]``."""
        size = self.size
        cut = self.emit("Reshape", x, self.sizes(size.batch, -1, size.heads, size.depth))
        return self.emit("Transpose", cut, perm=list(order))

    def attended(self, query: str, key: str, value: str, mask: str, operator: str) -> str:
        """Return the values weighted by how well queries fit the keys, which are transposed."""
        size = self.size
        scores = self.emit("MatMul", query, key)
        scores = self.emit("Div", scores, self.number(sqrt(size.depth)))
        if operator == "Add":
            scores = self.emit("Add", scores, mask)
        elif operator == "Where":
            scores = self.emit("Where", mask, scores, self.number(NEVER))
        mixed = self.emit("MatMul", self.emit("Softmax", scores, axis=-1), value)
        return self.dense(self.joined(mixed), size.width, size.width)

    def joined(self, mixed: str) -> str:
        """Return the channels of all heads side by side."""
        size = self.size
        joined = self.emit("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.emit("Reshape", joined, self.sizes(size.batch, size.tokens, size.width))

    def heads_of(self, x: str, heads: int) -> str:
        """Return what weights without bias make of *x*, ``[batch, tokens, heads, depth]``."""
        size = self.size
        product = self.emit("MatMul", x, self.weights(size.width, heads * size.depth))
        return self.emit("Reshape", product, self.sizes(size.batch, -1, heads, size.depth))

    def scaled_to_one(self, x: str) -> str:
        """Return *x* divided by the root of its mean square, in primitives."""
        square = self.emit("Mul", x, x)
        mean = self.emit("Add", self.emit("ReduceMean", square, axes=[-1]), self.number(1e-6))
        inverse = self.emit("Reciprocal", self.emit("Sqrt", mean))
        return self.emit("Mul", self.emit("Mul", x, inverse), self._near_one())

    def gated(self, x: str) -> str:
        """Return what two dense layers, the inner one gated by a third, make of *x*."""
        width = self.size.width
        gate, inner = (self.emit("MatMul", x, self.weights(width, 3 * width)) for _ in range(2))
        gate = self.emit("Mul", gate, self.emit("Sigmoid", gate))
        return self.emit("MatMul", self.emit("Mul", gate, inner), self.weights(3 * width, width))

    def turns(self, first: int) -> tuple[str, str]:
        """Return cosines and sines of the angles of the tokens from *first* on."""
        size = self.size
        rates = 1e4 ** (-np.arange(0, size.depth, 2) / size.depth)
        angles = np.arange(first, first + size.tokens)[:, None] * np.tile(rates, 2)
        cosines, sines = (turn(angles)[None, None].astype(np.float32) for turn in (np.cos, np.sin))
        return self.constant(cosines), self.constant(sines)

    def transposed(self, x: str, turns: tuple[str, str]) -> str:
        """Return heads *x* with each half of their channels turned by the position of the token."""
        half = self.size.depth // 2
        first, second = self.emit_several("Split", 2, x, self.sizes(half, half), axis=3)
        across = self.emit("Concat", self.emit("Neg", second), first, axis=3)
        cosines, sines = turns
        return self.emit("Add", self.emit("Mul", x, cosines), self.emit("Mul", across, sines))

    def repeated(self, x: str, tokens: int) -> str:
        """Return each head of *x* once for each head of queries that reads it."""
        size = self.size
        share = size.heads // size.groups
        apart = self.emit("Unsqueeze", x, self.sizes(2))
        whole = self.sizes(size.batch, size.groups, share, tokens, size.depth)
        shape = self.sizes(size.batch, size.heads, tokens, size.depth)
        return self.emit("Reshape", self.emit("Expand", apart, whole), shape)

    def proto(self, name: str, result: str, *shape: int) -> onnx.ModelProto:
        """Return the model with one output of *shape*."""
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self._nodes, name, self._inputs, [output], self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        onnx.checker.check_model(model)
        return model


def encoder(name: str, size: Size) -> onnx.ModelProto:
    """Return an encoder that normalizes after each part, and a classifier of the first token."""
    m, width = _Model(size), size.width
    tokens = m.input("input_ids", TensorProto.INT64, size.batch, size.tokens)
    mask = m.input("attention_mask", TensorProto.INT64, size.batch, size.tokens)
    for axis in (1, 2):
        mask = m.emit("Unsqueeze", mask, m.sizes(axis))
    seen = m.emit("Cast", mask, to=TensorProto.FLOAT)
    mask = m.emit("Mul", m.emit("Sub", m.number(1), seen), m.number(NEVER))
    x = m.emit("Gather", m.weights(VOCABULARY, width, scale=1), tokens)
    x = m.normalized(m.emit("Add", x, m.weights(1, size.tokens, width, scale=1)))
    for _ in range(size.layers):
        query = m.in_heads(m.dense(x, width, width))
        key = m.in_heads(m.dense(x, width, width), (0, 2, 3, 1))
        value = m.in_heads(m.dense(x, width, width))
        x = m.normalized(m.emit("Add", m.attended(query, key, value, mask, "Add"), x))
        x = m.normalized(m.emit("Add", m.feed_forward(x), x))
    first = m.emit("Gather", x, m.constant(np.int64(0)), axis=1)
    pooled = m.emit("Tanh", m.dense(first, width, width))
    return m.proto(name, m.dense(pooled, width, 2), size.batch, 2)


def decoder(name: str, size: Size, known: int = 0) -> onnx.ModelProto:
    """Return a decoder that normalizes before each part, after *known* tokens whose keys it has."""
    m, width = _Model(size), size.width
    ids = m.input("input_ids", TensorProto.INT64, size.batch, size.tokens)
    x = m.emit("Gather", m.weights(VOCABULARY, width, scale=0.1), ids)
    x = m.emit("Add", x, m.weights(1, size.tokens, width, scale=0.1))
    causal = m.constant(np.tril(np.ones((1, 1, size.tokens, size.tokens), np.bool_)))
    for layer in range(size.layers):
        y = m.dense(m.normalized(x), width, 3 * width)
        parts = m.emit_several("Split", 3, y, m.sizes(width, width, width), axis=2)
        query, key, value = (m.in_heads(part) for part in parts)
        if known:
            shape = (size.batch, size.heads, known, size.depth)
            past = [m.input(f"past_{layer}_{n}", TensorProto.FLOAT, *shape) for n in ("k", "v")]
            key = m.emit("Concat", past[0], key, axis=2)
            value = m.emit("Concat", past[1], value, axis=2)
        key = m.emit("Transpose", key, perm=[0, 1, 3, 2])
        y = m.attended(query, key, value, causal, "" if known else "Where")
        x = m.emit("Add", x, y)
        x = m.emit("Add", x, m.feed_forward(m.normalized(x), "tanh"))
    scores = m.emit("MatMul", m.normalized(x), m.weights(width, VOCABULARY))
    return m.proto(name, scores, size.batch, size.tokens, VOCABULARY)


def audio_encoder(name: str, size: Size, bands: int = 80) -> onnx.ModelProto:
    """Return an encoder of a spectrogram, of two columns for a token, that normalizes first."""
    m, width = _Model(size), size.width
    x = m.input("spectrogram", TensorProto.FLOAT, size.batch, bands, 2 * size.tokens)
    for channels, stride in ((bands, 1), (width, 2)):
        filter = m.weights(width, channels, 3, scale=1 / sqrt(3 * channels))
        bias = m.weights(width, scale=0.1)
        x = m.emit("Conv", x, filter, bias, kernel_shape=[3], pads=[1, 1], strides=[stride])
        x = m.gelu(x, "none")
    x = m.emit("Transpose", x, perm=[0, 2, 1])
    x = m.emit("Add", x, m.weights(1, size.tokens, width, scale=0.1))
    for _ in range(size.layers):
        y = m.normalized(x)
        query = m.in_heads(m.dense(y, width, width))
        key = m.in_heads(m.emit("MatMul", y, m.weights(width, width)), (0, 2, 3, 1))
        value = m.in_heads(m.dense(y, width, width))
        x = m.emit("Add", x, m.attended(query, key, value, "", ""))
        x = m.emit("Add", x, m.feed_forward(m.normalized(x)))
    return m.proto(name, m.normalized(x), size.batch, size.tokens, width)


def grouped_decoder(name: str, size: Size, known: int = 0) -> onnx.ModelProto:
    """Return a decoder whose heads share keys in groups, after *known* tokens whose keys it has."""
    m, width, keys = _Model(size), size.width, known + size.tokens
    ids = m.input("input_ids", TensorProto.INT64, size.batch, size.tokens)
    x = m.emit("Gather", m.weights(VOCABULARY, width, scale=0.1), ids)
    hidden = np.triu(np.full((size.tokens, keys), np.finfo(np.float32).min), known + 1)
    causal = m.constant(hidden[None, None].astype(np.float32))
    turns = m.turns(known)
    for layer in range(size.layers):
        y = m.scaled_to_one(x)
        query, key, value = (
            m.emit("Transpose", m.heads_of(y, heads), perm=[0, 2, 1, 3])
            for heads in (size.heads, size.groups, size.groups)
        )
        query, key = m.transposed(query, turns), m.transposed(key, turns)
        if known:
            shape = (size.batch, size.groups, known, size.depth)
            past = [m.input(f"past_{layer}_{n}", TensorProto.FLOAT, *shape) for n in ("k", "v")]
            key = m.emit("Concat", past[0], key, axis=2)
            value = m.emit("Concat", past[1], value, axis=2)
        key, value = m.repeated(key, keys), m.repeated(value, keys)
        scores = m.emit("MatMul", query, m.emit("Transpose", key, perm=[0, 1, 3, 2]))
        scores = m.emit("Mul", scores, m.number(size.depth**-0.5))
        scores = scores if size.tokens == 1 else m.emit("Add", scores, causal)
        mixed = m.emit("MatMul", m.emit("Softmax", scores, axis=-1), value)
        x = m.emit("Add", x, m.emit("MatMul", m.joined(mixed), m.weights(width, width)))
        x = m.emit("Add", x, m.gated(m.scaled_to_one(x)))
    scores = m.emit("MatMul", m.scaled_to_one(x), m.weights(width, VOCABULARY))
    return m.proto(name, scores, size.batch, size.tokens, VOCABULARY)


def vision(name: str, size: Size, image: int = 224, patch: int = 16) -> onnx.ModelProto:
    """Return a vision transformer over patches of an image; ``size.tokens`` counts the class."""
    m, width = _Model(size), size.width
    data = m.input("image", TensorProto.FLOAT, size.batch, 3, image, image)
    x = m.emit(
        "Conv", data, m.weights(width, 3, patch, patch, scale=0.03), m.weights(width, scale=0.1),
        kernel_shape=[patch] * 2, strides=[patch] * 2,
    )  # fmt: skip
    x = m.emit("Reshape", x, m.sizes(size.batch, width, size.tokens - 1))
    x = m.emit("Transpose", x, perm=[0, 2, 1])
    first = m.emit("Expand", m.weights(1, 1, width, scale=1), m.sizes(size.batch, 1, width))
    x = m.emit("Concat", first, x, axis=1)
    x = m.emit("Add", x, m.weights(1, size.tokens, width, scale=0.1))
    for _ in range(size.layers):
        y = m.dense(m.normalized(x), width, 3 * width)
        cut = m.sizes(size.batch, size.tokens, 3, size.heads, size.depth)
        y = m.emit("Transpose", m.emit("Reshape", y, cut), perm=[2, 0, 3, 1, 4])
        parts = [m.emit("Gather", y, m.constant(np.int64(part)), axis=0) for part in range(3)]
        key = m.emit("Transpose", parts[1], perm=[0, 1, 3, 2])
        x = m.emit("Add", x, m.attended(parts[0], key, parts[2], "", ""))
        x = m.emit("Add", x, m.feed_forward(m.normalized(x)))
    first = m.emit("Gather", m.normalized(x), m.constant(np.int64(0)), axis=1)
    return m.proto(name, m.dense(first, width, 1000), size.batch, 1000)


ODD = Size(2, 3, 37, 5, 21)
"""The sizes of small networks, which share many kernels."""

NETWORKS = {
    "bert_128": lambda: encoder("bert_128", Size(12, 1, 128, 12, 64)),
    "bert_384": lambda: encoder("bert_384", Size(12, 1, 384, 12, 64)),
    "encoder_64": lambda: encoder("encoder_64", Size(12, 1, 64, 12, 64)),
    "encoder_200": lambda: encoder("encoder_200", Size(12, 1, 200, 12, 64)),
    "encoder_512": lambda: encoder("encoder_512", Size(6, 1, 512, 8, 64)),
    "audio_encoder": lambda: audio_encoder("audio_encoder", Size(6, 1, 1500, 8, 64)),
    "odd_audio": lambda: audio_encoder("odd_audio", ODD, bands=7),
    "narrow_encoder": lambda: encoder("narrow_encoder", Size(4, 1, 128, 12, 26)),
    "odd_encoder": lambda: encoder("odd_encoder", ODD),
    "vit_b16": lambda: vision("vit_b16", Size(12, 1, 197, 12, 64)),
    "odd_vision": lambda: vision("odd_vision", ODD, image=102, patch=17),
    "gpt_64": lambda: decoder("gpt_64", Size(12, 1, 64, 12, 64)),
    "odd_decoder": lambda: decoder("odd_decoder", ODD),
    "gpt_step": lambda: decoder("gpt_step", Size(12, 1, 1, 12, 64), known=64),
    "llama_256": lambda: grouped_decoder("llama_256", Size(8, 1, 256, 12, 64, 4)),
    "llama_step": lambda: grouped_decoder("llama_step", Size(8, 1, 1, 12, 64, 4), known=255),
    "odd_llama": lambda: grouped_decoder("odd_llama", Size(2, 2, 11, 6, 10, 3), known=4),
    "odd_step": lambda: decoder("odd_step", replace(ODD, tokens=1), known=13),
}
"""By name; those that are called odd are small."""


def main() -> None:
    """Write the networks as ONNX files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    arguments = parser.parse_args()
    for path in write([NETWORKS[name] for name in arguments.only], arguments.folder):
        print(path)


if __name__ == "__main__":
    main()
