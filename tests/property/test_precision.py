"""Lowering the precision: conversions move without a change of a bit, and all backends agree."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.steps import Repeat
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.optimize import GRAPH_PASSES

ROUNDING = 2.0**-8
"""The largest relative error of a number that is rounded to bfloat16."""


class Drawing:
    """Draws networks of convolutions, products, and what moves elements between them.

    Attributes:
        data: What draws.
        b: The graph.
    """

    def __init__(self, data: st.DataObject) -> None:
        self.data, self.b = data, Builder()
        self.random = np.random.default_rng(data.draw(st.integers(0, 99)))

    def chosen(self, *words: str) -> str:
        return self.data.draw(st.sampled_from(words))

    def numbers(self, *shape: int) -> Value:
        scale = 1 / sqrt(max(1, prod(shape[1:])))
        numbers = self.random.standard_normal(shape) * scale
        return self.b.constant(f"c{len(self.b.nodes)}", numbers.astype(np.float32))

    def moved(self, x: Value) -> Value:
        """Return what moves, or chooses among, the elements of *x*, ``[N, H, W, C]``."""
        emit = self.b.emit
        match self.chosen("relu", "pool", "concat", "pad", "maximum", "tile", "tanh", "swap"):
            case "relu":
                return emit(ops.Relu(x))
            case "tanh":
                return emit(ops.Tanh(x))
            case "pool":
                window: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1)}
                return emit(ops.MaxPool(x, kernel=(2, 2), pads=(1, 1, 0, 0), **window))
            case "concat":
                return emit(ops.Concat((x, emit(ops.Neg(x))), axis=3))
            case "pad":
                value = self.data.draw(st.sampled_from([0.0, 0.1]))
                return emit(ops.Pad(x, (0, 1, 0, 0, 0, 0, 1, 0), value=value))
            case "maximum":
                return emit(ops.Maximum(x, self.numbers(1, 1, 1, 1)))
            case "tile":
                return emit(ops.Tile(x, (1, 1, 1, 2)))
        return emit(ops.Transpose(x, (0, 2, 1, 3)))

    def convolved(self, x: Value) -> Value:
        channels, depth = x.type.shape[-1], 8
        return self.b.emit(
            ops.Convolution(
                *(x, self.numbers(depth, 3, 3, channels), self.numbers(depth)),
                kernel=(3, 3),
                stride=(1, 1),
                pads=(1, 1, 1, 1),
                dilation=(1, 1),
            )
        )

    def function(self) -> Function:
        x: Value = self.b.input("x", "float32<2 x 4 x 4 x 8>")
        kept = []
        for _ in range(self.data.draw(st.integers(1, 3))):
            for _ in range(self.data.draw(st.integers(0, 3))):
                x = self.moved(x)
                kept.append(x)
            x = self.convolved(x)
        if self.data.draw(st.booleans()):
            self.b.save(self.data.draw(st.sampled_from([*kept, x])), "inside")
        batch, *sizes = x.type.shape
        rows = self.b.emit(ops.Reshape(x, (batch, prod(sizes))))
        self.b.save(self.b.emit(ops.MatMul(rows, self.numbers(prod(sizes), 3))), "y")
        return self.b.function()


def feed() -> dict[str, Array]:
    return {"x": np.random.default_rng(1).standard_normal((2, 4, 4, 8)).astype(np.float32)}


def rounded(function: Function) -> Function:
    return GRAPH_PASSES.run(function, ("lower_precision", "fold_constants"))


@settings(max_examples=20)
@given(st.data())
def test_conversions_move_without_a_change_of_a_bit(data: st.DataObject) -> None:
    before = rounded(Drawing(data).function())
    moving: Any = ("hoist_roundings", "sink_transposes", "sink_reshapes", "eliminate_dead_nodes")
    after = GRAPH_PASSES.run(before, (Repeat(moving),))
    for node in after.nodes:  # nothing is moved before it is rounded, if nothing else reads it
        if isinstance(node, ops.ConvertTo) and node.kind is ElementKind.BFLOAT16:
            is_moved = isinstance(node.input, ops.Concat | ops.MaxPool | ops.Tile | ops.Pad)
            assert not is_moved or after.use_counts[node.input] > 1
    wanted, found = (evaluate(function, feed()) for function in (before, after))
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.jit
@settings(max_examples=max(1, settings().max_examples // 15))
@given(st.data())
def test_every_backend_rounds_the_factors(data: st.DataObject) -> None:
    function = Drawing(data).function()
    exact, wanted = evaluate(function, feed()), evaluate(rounded(function), feed())
    for backend, threads in (("interpreter", 1), ("cpu", 1), ("cpu", 2)):
        net = glow_nb.compile(
            function, backend=backend, threads=threads, precision="bfloat16", cache=False
        )
        found = net.run(feed())
        for name, array in wanted.items():
            scale = float(np.abs(exact[name]).max())
            # a sum in another order may end on the other side of what is rounded next
            np.testing.assert_allclose(found[name], array, rtol=0, atol=2 * ROUNDING * scale)
            np.testing.assert_allclose(found[name], exact[name], rtol=0, atol=8 * ROUNDING * scale)
