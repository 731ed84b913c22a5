"""Passes that make integer arithmetic of floats between dequantizations keep what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.network.compilation import optimize

FLOAT32 = ElementKind.FLOAT32
KINDS = [ElementKind(name) for name in ("uint8", "int8", "int16")]
BYTES = KINDS[:2]
EXACT = ("merge_quantizations", "quantize_clips", "sink_dequantizes")


class Drawn:
    """A function that is drawn from a seed, one operator between quantized tensors at a time."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = Builder("main")
        self.feeds: dict[str, Array] = {}

    def type(self, kinds: list[ElementKind] = BYTES) -> dict[str, Any]:
        """Return kind, scale and offset of a quantized type, its offset often at the end."""
        kind = kinds[self.rng.integers(len(kinds))]
        least, greatest = kind.limits
        offset = self.rng.choice([least, 0, greatest, int(self.rng.integers(least, greatest + 1))])
        return {"kind": kind, "scale": self.scale(), "offset": int(offset)}

    def scale(self) -> float:
        return float(np.float32(2 ** self.rng.uniform(-6, -3)))

    def stored(self, kind: ElementKind, shape: tuple[int, ...]) -> Array:
        """Return integers, many of them extreme."""
        least, greatest = kind.limits
        numbers = self.rng.integers(least, greatest + 1, shape)
        extremes = self.rng.choice([least, greatest], shape)
        return np.where(self.rng.random(shape) < 0.3, extremes, numbers).astype(kind.dtype)

    def input(self, shape: tuple[int, ...], type: dict[str, Any] | None = None) -> Value:
        """Return the dequantization of an input."""
        type = type or self.type()
        wanted = TensorType(type["kind"], shape, type["scale"], type["offset"])
        input = self.builder.input("x", wanted)
        self.feeds[input.name] = self.stored(type["kind"], shape)
        return self.builder.emit(ops.Dequantize(input))

    def weights(self, shape: tuple[int, ...], axis: int) -> Value:
        """Return known weights, dequantized by one scale or one for each place of *axis*."""
        kind = BYTES[self.rng.integers(2)]
        stored = self.builder.constant("w", self.stored(kind, shape))
        if self.rng.random() < 0.4:
            zero = int(self.stored(kind, ()))
            typed = self.builder.emit(ops.AsQuantized(stored, scale=self.scale(), offset=zero))
            return self.builder.emit(ops.Dequantize(typed))
        ones = tuple(size if place == axis else 1 for place, size in enumerate(shape))
        scale = self.builder.constant("s", self.rng.uniform(0.02, 0.1, ones).astype(np.float32))
        offset = self.builder.constant("o", self.stored(kind, ones))
        return self.builder.emit(ops.DequantizeLinear(stored, scale, offset))

    def bias(self, depth: int) -> Value:
        """Return known floats, or int32 in a scale of its own."""
        if self.rng.random() < 0.5:
            return self.builder.constant("b", self.rng.normal(0, 2, depth).astype(np.float32))
        stored = self.builder.constant("b", self.rng.integers(-9999, 9999, depth, np.int32))
        typed = self.builder.emit(ops.AsQuantized(stored, scale=self.scale() / 64, offset=0))
        return self.builder.emit(ops.Dequantize(typed))

    def quantized(self, real: Value, **type: Any) -> Value:
        """Return *real*, bounded or not, quantized."""
        choice = self.rng.integers(3)
        if choice == 1:
            real = self.builder.emit(ops.Relu(real))
        if choice == 2:
            low, high = sorted(self.rng.normal(0, 3, 2))
            real = self.builder.emit(ops.Clip(real, minimum=float(low), maximum=float(high)))
        return self.builder.emit(ops.Quantize(real, **(type or self.type(KINDS))))

    def function(self, *results: Value) -> Function:
        for result in results:
            self.builder.save(result, "y")
        return self.builder.function()


def convolution(d: Drawn) -> Value:
    group, per_group, depth = (int(n) for n in d.rng.integers(1, 4, 3))
    kernel = tuple(int(n) for n in d.rng.integers(1, 4, 2))
    x = d.input((1, 4, 5, group * per_group))
    filter = d.weights((group * depth, *kernel, per_group), axis=0)
    pads = tuple(int(n) for n in d.rng.integers(0, 3, 4))
    window: dict[str, Any] = {"kernel": kernel, "stride": (1, 2), "pads": pads, "dilation": (1, 1)}
    bias = d.bias(group * depth)
    return d.builder.emit(ops.Convolution(x, filter, bias, **window, group=group))


def dense_layer(d: Drawn) -> Value:
    x, weights = d.input((3, 7)), d.weights((7, 5), axis=1)
    return d.builder.emit(ops.FullyConnected(x, weights, d.bias(5)))


def turned_product(d: Drawn) -> Value:
    x, weights = d.input((7, 3)), d.weights((5, 7), axis=0)
    lhs, rhs = (d.builder.emit(ops.Transpose(value, (1, 0))) for value in (x, weights))
    return d.builder.emit(ops.MatMul(lhs, rhs))


def product_of_activations(d: Drawn) -> Value:
    return d.builder.emit(ops.MatMul(d.input((2, 3, 7)), d.input((2, 7, 4))))


def spread(d: Drawn) -> Value:
    x, filter = d.input((1, 3, 4)), d.weights((4, 2, 5), axis=2)
    return d.builder.emit(
        ops.TransposedConvolution(
            x, filter, kernel=(2,), stride=(2,), pads=(0, 0), dilation=(1,), size=(6,)
        )
    )


def arithmetic(d: Drawn) -> Value:
    choices = (ops.Add, ops.Sub, ops.Mul, ops.Minimum, ops.Maximum)
    operator = choices[d.rng.integers(len(choices))]
    return d.builder.emit(operator(d.input((2, 3, 4)), d.input((2, 1, 4))))


def average(d: Drawn) -> Value:
    x, counts = d.input((1, 5, 6, 3)), bool(d.rng.integers(2))
    window: dict[str, Any] = {"kernel": (2, 3), "stride": (2, 1), "dilation": (1, 1)}
    return d.builder.emit(ops.AvgPool(x, **window, pads=(1, 0, 0, 1), count_padding=counts))


def mean(d: Drawn) -> Value:
    x, keeps = d.input((2, 5, 6, 3)), bool(d.rng.integers(2))
    return d.builder.emit(ops.ReduceMean(x, axes=(1, 2), keep_dims=keeps))


def swish(d: Drawn) -> Value:
    x = d.input((3, 70))
    return d.builder.emit(ops.Mul(x, d.builder.emit(ops.Sigmoid(x))))


def largest(d: Drawn) -> Value:
    window: dict[str, Any] = {"kernel": (2, 3), "stride": (2, 1), "dilation": (1, 1)}
    return d.builder.emit(ops.MaxPool(d.input((1, 5, 6, 3)), **window, pads=(0, 1, 1, 0)))


def concat(d: Drawn) -> Value:
    first = d.type()
    second = first if d.rng.random() < 0.5 else d.type()
    parts = (d.input((2, 3), first), d.input((2, 4), second))
    return d.builder.emit(ops.Concat(parts, axis=1))


def gather(d: Drawn) -> Value:
    places = d.builder.constant("places", d.rng.integers(0, 6, 4), is_weight=False)
    return d.builder.emit(ops.Gather(d.input((2, 6)), places, axis=1))


DRAWN = {
    "quantized_convolution": convolution,
    "quantized_fully_connected": dense_layer,
    "quantized_mat_mul": turned_product,
    "mat_mul of activations": product_of_activations,
    "quantized_transposed_convolution": spread,
    "quantized arithmetic": arithmetic,
    "quantized_average_pool": average,
    "mean": mean,
    "swish": swish,
    "max_pool": largest,
    "concat": concat,
    "gather": gather,
}


def steps_apart(left: Function, right: Function, feeds: dict[str, Array]) -> float:
    """Return how many steps of their type the integers of two functions are apart at most."""
    (x,), (y,) = (evaluate(function, feeds).values() for function in (left, right))
    assert x.dtype == y.dtype
    return float(np.abs(x.astype(np.int64) - y).max(initial=0))


@pytest.mark.parametrize("name", DRAWN)
@settings(max_examples=25)
@given(seed=st.integers(0, 1 << 32))
def test_islands_are_within_one_step(name: str, seed: int) -> None:
    drawn = Drawn(seed)
    real = DRAWN[name](drawn)
    function = drawn.function(drawn.quantized(real))
    raised = optimize(function)
    assert not any(node.opcode in ("convolution", "fully_connected") for node in raised.nodes)
    assert steps_apart(function, raised, drawn.feeds) <= 1


@pytest.mark.parametrize("name", DRAWN)
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32))
def test_moves_and_bounds_are_exact(name: str, seed: int) -> None:
    drawn = Drawn(seed)
    quantized = drawn.quantized(DRAWN[name](drawn))
    again = drawn.builder.emit(ops.Dequantize(quantized))
    function = drawn.function(drawn.quantized(again))
    moved = GRAPH_PASSES.run(function, (*EXACT, *EXACT, "eliminate_dead_nodes"))
    assert steps_apart(function, moved, drawn.feeds) == 0


@settings(max_examples=50)
@given(seed=st.integers(0, 1 << 32), rank=st.integers(1, 4))
def test_tables_hold_what_the_function_computes(seed: int, rank: int) -> None:
    drawn = Drawn(seed)
    x = drawn.input((2,) * rank)
    half = drawn.builder.constant("half", np.full((1,) * rank, 0.5, np.float32))
    inner = drawn.builder.emit(ops.Tanh(drawn.builder.emit(ops.Mul(x, half))))
    function = drawn.function(drawn.quantized(drawn.builder.emit(ops.Mul(x, inner))))
    table = GRAPH_PASSES.run(function, ("raise_lookup_tables", "eliminate_dead_nodes"))
    assert [node.opcode for node in table.nodes] == ["int_lookup_table", "save"]
    assert steps_apart(function, table, drawn.feeds) == 0
