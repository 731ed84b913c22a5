"""Small networks to calibrate and quantize."""

from __future__ import annotations

from typing import Any

import numpy as np

import glow_nb
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import (
    Add,
    AvgPool,
    Concat,
    Convolution,
    FullyConnected,
    MaxPool,
    Relu,
    Reshape,
    Sigmoid,
    Softmax,
)


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def dense(batch: int = 2, name: str = "dense", scale: float = 1.0) -> Function:
    """Return ``relu(x @ w + b) @ v + c``."""
    b = glow_nb.Builder(name)
    x = b.input("x", f"float32<{batch} x 5>")
    w, bias = b.constant("w", random(5, 7) * np.float32(scale)), b.constant("b", random(7, seed=1))
    hidden = b.emit(Relu(b.emit(FullyConnected(x, w, bias), name="first")), name="hidden")
    v, c = b.constant("v", random(7, 3, seed=2)), b.constant("c", random(3, seed=3))
    b.save(b.emit(FullyConnected(hidden, v, c), name="second"), "y")
    return b.function()


def convolutional(batch: int = 2) -> Function:
    """Return two convolutions with ReLU, a maximum, and a dense layer."""
    b = glow_nb.Builder("convolutional")
    x: Value = b.input("x", f"float32<{batch} x 8 x 8 x 3>")
    window: Any = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "group": 1}
    for index, (channels, depth) in enumerate([(3, 8), (8, 6)]):
        filter = b.constant(f"w{index}", random(depth, 3, 3, channels, seed=index) / 4)
        bias = b.constant(f"b{index}", random(depth, seed=index + 5) / 4)
        x = b.emit(Convolution(x, filter, bias, kernel=(3, 3), **window), name=f"conv{index}")
        x = b.emit(Relu(x), name=f"relu{index}")
        x = b.emit(
            MaxPool(x, kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0), dilation=(1, 1)),
            name=f"pool{index}",
        )
    x = b.emit(Reshape(x, (batch, 24)), name="flat")
    w, c = b.constant("v", random(24, 5, seed=9) / 4), b.constant("c", random(5, seed=10))
    b.save(b.emit(FullyConnected(x, w, c), name="scores"), "y")
    return b.function()


def convolved(b: glow_nb.Builder, x: Value, depth: int, name: str, seed: int) -> Value:
    """Emit a 1x1 convolution with *depth* channels."""
    filter = b.constant(f"{name}.w", random(depth, 1, 1, x.type.shape[-1], seed=seed) / 2)
    bias = b.constant(f"{name}.b", random(depth, seed=seed + 1))
    window: Any = {"stride": (1, 1), "pads": (0,) * 4, "dilation": (1, 1), "group": 1}
    return b.emit(Convolution(x, filter, bias, kernel=(1, 1), **window), name=name)


def residual() -> Function:
    """Return a residual block between two convolutions, and means of 2x2 pixels."""
    b = glow_nb.Builder("residual")
    x = b.input("x", "float32<1 x 4 x 4 x 3>")
    stem = b.emit(Relu(convolved(b, x, 8, "stem", 0)), name="stem_relu")
    inner = b.emit(Relu(convolved(b, stem, 8, "inner", 2)), name="inner_relu")
    sum = b.emit(Add(convolved(b, inner, 8, "outer", 4), stem), name="sum")
    relu = b.emit(Relu(sum), name="sum_relu")
    head = convolved(b, relu, 4, "head", 6)
    mean = b.emit(
        AvgPool(
            head, kernel=(2, 2), stride=(2, 2), pads=(0,) * 4, dilation=(1, 1), count_padding=True
        ),
        name="mean",
    )
    b.save(convolved(b, mean, 5, "last", 8), "y")
    return b.function()


def branching() -> Function:
    """Return two convolutions whose results lie side by side, one of them read again."""
    b = glow_nb.Builder("branching")
    x = b.input("x", "float32<1 x 4 x 4 x 3>")
    parts = [b.emit(Relu(convolved(b, x, 4, f"part{i}", 2 * i)), name=f"relu{i}") for i in (1, 0)]
    again = b.emit(Sigmoid(convolved(b, parts[1], 4, "again", 4)), name="gate")
    joined = b.emit(Concat((*parts, again), axis=3), name="joined")
    b.save(b.emit(Softmax(convolved(b, joined, 5, "last", 6), axis=3), name="softmax"), "y")
    return b.function()
