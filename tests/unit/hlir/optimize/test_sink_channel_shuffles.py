"""Groups that read a shuffle in unequal parts: what fills up the shorter ones changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.optimize import GRAPH_PASSES
from glow_nb.network import compilation as compiler

CHANNELS, HALF = 18, 9


def _shuffled(b: Builder, x: Value) -> Node:
    """Emit the shuffle of two groups of channels."""
    apart = b.emit(ops.Reshape(x, (1, 3, 2, HALF)))
    transposed = b.emit(ops.Transpose(apart, (0, 1, 3, 2)))
    return b.emit(ops.Reshape(transposed, (1, 3, CHANNELS)))


def _grouped(b: Builder, x: Value, depth: int) -> Node:
    """Emit a pointwise convolution of two groups."""
    filter = np.arange(1, depth * HALF + 1, dtype=np.float32).reshape(depth, 1, HALF)
    weights, bias = b.constant("w", filter), b.constant("b", np.zeros(depth, np.float32))
    return b.emit(
        ops.Convolution(
            x, weights, bias, kernel=(1,), stride=(1,), pads=(0, 0), dilation=(1,), group=2
        )
    )


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 1.0])
@pytest.mark.parametrize("place", range(CHANNELS))
def test_a_channel_stays_out_of_groups_that_do_not_read_it(special: float, place: int) -> None:
    b = Builder()
    x = b.input("x", f"float32<1 x 3 x {CHANNELS}>")
    b.save(_grouped(b, _shuffled(b, x), depth=4), "y")
    function = b.function()
    after = GRAPH_PASSES.run(function, ("sink_channel_shuffles",))
    assert after is not function
    feeds = {"x": np.ones((1, 3, CHANNELS), np.float32)}
    feeds["x"][0, 1, place] = special
    np.testing.assert_array_equal(evaluate(after, feeds)["y"], evaluate(function, feeds)["y"])


def test_a_grouped_convolution_makes_its_channels_where_the_next_reads_them() -> None:
    b = Builder()
    made = _grouped(b, b.input("x", f"float32<1 x 3 x {CHANNELS}>"), depth=CHANNELS)
    b.save(_grouped(b, _shuffled(b, made), depth=4), "y")
    function = b.function()
    after = compiler.optimize(function)
    assert {node.opcode for node in after} == {"convolution", "reshape", "save"}
    feeds = {"x": np.random.default_rng(0).normal(size=(1, 3, CHANNELS)).astype(np.float32)}
    want, got = (evaluate(each, feeds)["y"] for each in (function, after))
    np.testing.assert_allclose(got, want, rtol=1e-5)
