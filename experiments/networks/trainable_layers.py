"""Layers with seeded weights, for networks that the examples of training build by hand."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import (
    Add,
    BatchNormalization,
    Convolution,
    FullyConnected,
    Gelu,
    LayerNormalization,
    MatMul,
    MaxPool,
    Mul,
    Relu,
    Reshape,
    Softmax,
    Transpose,
)
from glow_nb.hlir.ops.families import splat

NEVER = -1e9
"""What is added to the score of a token that is not to be seen."""


class Layers(Builder):
    """A builder that knows layers; their weights are drawn in order, from one seed."""

    def __init__(self, name: str, seed: int = 0) -> None:
        """Begin a function called *name*."""
        super().__init__(name)
        self._random = np.random.default_rng(seed)

    def normal(self, name: str, shape: tuple[int, ...], deviation: float) -> Value:
        """Return a weight of normal numbers."""
        array = self._random.normal(0, deviation, shape)
        return self.constant(name, array.astype(np.float32))

    def full(self, name: str, size: int, number: float) -> Value:
        """Return a vector that is a weight."""
        return self.constant(name, np.full(size, number, np.float32))

    def dense(self, name: str, x: Value, outputs: int, gain: float = sqrt(2)) -> Value:
        """Return ``x @ weight + bias`` of rows, with weights of He and others (1502.01852)."""
        inputs = x.type.shape[-1]
        weight = self.normal(f"{name}.weight", (inputs, outputs), gain / sqrt(inputs))
        rows = self.reshaped(x, (-1, inputs))
        product = self.emit(FullyConnected(rows, weight, self.full(f"{name}.bias", outputs, 0)))
        return self.reshaped(product, (*x.type.shape[:-1], outputs))

    def convolution(self, name: str, x: Value, outputs: int, size: int = 3) -> Value:
        """Return a convolution with its batch normalization and ReLU, of the same size."""
        inputs = x.type.shape[-1]
        shape = (outputs, size, size, inputs)
        filter = self.normal(f"{name}.filter", shape, sqrt(2 / (inputs * size * size)))
        none = self.constant("none", np.zeros(outputs, np.float32), is_weight=False)
        pads = (size // 2,) * 4
        x = self.emit(
            Convolution(
                x, filter, none, kernel=(size, size), stride=(1, 1), pads=pads, dilation=(1, 1)
            )
        )
        vectors = {"scale": 1.0, "bias": 0.0, "mean": 0.0, "variance": 1.0}
        scale, bias, mean, variance = (
            self.full(f"{name}.{key}", outputs, number) for key, number in vectors.items()
        )
        normal = BatchNormalization(x, scale, bias, mean, variance, epsilon=1e-5, channel_axis=3)
        return self.emit(Relu(self.emit(normal)))

    def halved(self, x: Value) -> Value:
        """Return the largest of each 2 x 2 pixels."""
        return self.emit(MaxPool(x, kernel=(2, 2), stride=(2, 2), pads=(0,) * 4, dilation=(1, 1)))

    def normalized(self, name: str, x: Value) -> Value:
        """Return the layer normalization of the last axis."""
        width, last = x.type.shape[-1], x.type.rank - 1
        scale, bias = (self.full(f"{name}.{k}", width, n) for k, n in (("scale", 1), ("bias", 0)))
        return self.emit(LayerNormalization(x, scale, bias, axis=last, epsilon=1e-5))

    def attended(self, name: str, x: Value, heads: int) -> Value:
        """Return what each token of ``[batch, tokens, width]`` sees of itself and those before."""
        batch, tokens, width = x.type.shape
        cut = (batch, tokens, heads, width // heads)
        query, key, value = (
            self.reshaped(self.dense(f"{name}.{part}", x, width, 1.0), cut)
            for part in ("query", "key", "value")
        )
        key = self.emit(Transpose(key, (0, 2, 3, 1)))
        query, value = (self.emit(Transpose(part, (0, 2, 1, 3))) for part in (query, value))
        scores: Value = self.emit(MatMul(query, key))
        scores = self.emit(Mul(scores, splat(self, scores.type, sqrt(heads / width), "scale")))
        later = np.triu(np.full((1, 1, tokens, tokens), NEVER, np.float32), 1)
        scores = self.emit(Add(scores, self.constant("later", later, is_weight=False)))
        mixed = self.emit(MatMul(self.emit(Softmax(scores, axis=3)), value))
        joined = self.reshaped(self.emit(Transpose(mixed, (0, 2, 1, 3))), x.type.shape)
        return self.dense(f"{name}.out", joined, width, 1.0)

    def block(self, name: str, x: Value, heads: int) -> Value:
        """Return *x* after one layer of a decoder, which normalizes before each part."""
        x = self.emit(Add(x, self.attended(name, self.normalized(f"{name}.first", x), heads)))
        inner = self.dense(
            f"{name}.inner", self.normalized(f"{name}.second", x), 4 * x.type.shape[2]
        )
        outer = self.dense(f"{name}.outer", self.emit(Gelu(inner)), x.type.shape[2], 1.0)
        return self.emit(Add(x, outer))

    def reshaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Return *x* with another shape, in which one size may be -1."""
        known = -prod(shape) if -1 in shape else 0
        sizes = tuple(x.type.size // known if size == -1 else size for size in shape)
        return x if sizes == x.type.shape else self.emit(Reshape(x, sizes))


def split(count: int, tested: int) -> tuple[Array, Array]:
    """Return the numbers of the samples that are trained on, and of those that are *tested*."""
    order = np.random.default_rng(2018).permutation(count)  # the paper's year; always the same
    return order[tested:], order[:tested]
