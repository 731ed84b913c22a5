"""Zeros have one sign in every engine: -0.0 is less than 0.0, and the first of a window counts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node

ROWS = np.array([*product([0.0, -0.0, -1.0], repeat=3), *product([0.0, -0.0, 1.0], repeat=3)])
X = np.array([0.0, -0.0, 0.0, -0.0, -1.0, 1.0, np.nan, -0.0], np.float32)
Y = np.array([-0.0, 0.0, 0.0, -0.0, -0.0, 0.0, 0.0, np.nan], np.float32)


def _function() -> Function:
    b = Builder("main")
    x, y = b.input("x", "float32<8>"), b.input("y", "float32<8>")
    rows, image = b.input("rows", "float32<54 x 3>"), b.input("image", "float32<1 x 54 x 3 x 1>")
    zero = b.constant("zero", np.zeros(1, np.float32))
    negative = b.constant("negative", np.full(1, -0.0, np.float32))
    nodes: dict[str, Node] = {
        "relu": ops.Relu(x),
        "sign": ops.Sign(x),
        "gelu": ops.Gelu(x),
        "clip": ops.Clip(x, 0.0, 6.0),
        "clip from -0.0": ops.Clip(x, -0.0, 6.0),
        "clip to 0.0": ops.Clip(x, -1.0, 0.0),
        "clip to -0.0": ops.Clip(x, -1.0, -0.0),
        "maximum": ops.Maximum(x, y),
        "minimum": ops.Minimum(x, y),
        "maximum with 0.0": ops.Maximum(x, zero),
        "maximum with -0.0": ops.Maximum(x, negative),
        "minimum with 0.0": ops.Minimum(zero, x),
        "minimum with -0.0": ops.Minimum(x, negative),
        "largest": ops.ReduceMax(rows, (1,)),
        "smallest": ops.ReduceMin(rows, (1,)),
        "largest of columns": ops.ReduceMax(rows, (0,)),
        "smallest of columns": ops.ReduceMin(rows, (0,)),
        "sums": ops.CumSum(rows, 1),
        "sums before": ops.CumSum(rows, 1, exclusive=True),
        "sums from the end": ops.CumSum(rows, 1, reverse=True),
        "pool": ops.MaxPool(
            image, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1)
        ),
    }
    for name, node in nodes.items():
        b.save(b.emit(node), f"y {name}")
    return b.function()


FEEDS = {
    "x": X,
    "y": Y,
    "rows": ROWS.astype(np.float32),
    "image": ROWS.astype(np.float32).reshape(1, 54, 3, 1),
}


def _assert_same(found: dict[str, Array], wanted: dict[str, Array]) -> None:
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, 1e-6, err_msg=name)
        is_zero = array == 0
        np.testing.assert_array_equal(
            np.signbit(found[name][is_zero]), np.signbit(array[is_zero]), name
        )


def test_the_order_of_zeros_does_not_matter() -> None:
    found = glow_nb.evaluate(_function(), FEEDS)
    wanted = {
        "relu": [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, np.nan, 0.0],
        "sign": [0.0, 0.0, 0.0, 0.0, -1.0, 1.0, np.nan, 0.0],
        "maximum": [0.0, 0.0, 0.0, -0.0, -0.0, 1.0, np.nan, np.nan],
        "minimum": [-0.0, -0.0, 0.0, -0.0, -1.0, 0.0, np.nan, np.nan],
        "maximum with -0.0": [0.0, -0.0, 0.0, -0.0, -0.0, 1.0, np.nan, -0.0],
        "clip to 0.0": [0.0, -0.0, 0.0, -0.0, -1.0, 0.0, np.nan, -0.0],
        "clip to -0.0": [-0.0, -0.0, -0.0, -0.0, -1.0, -0.0, np.nan, -0.0],
    }
    _assert_same(found, {f"y {name}": np.array(row, np.float32) for name, row in wanted.items()})


def test_the_interpreter_gives_zeros_their_sign() -> None:
    net = glow_nb.compile(_function(), backend="interpreter")
    _assert_same(net.run(FEEDS), glow_nb.evaluate(_function(), FEEDS))


@pytest.mark.jit
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_kernels_give_zeros_their_sign(threads: int) -> None:
    net = glow_nb.compile(_function(), threads=threads)
    _assert_same(net.run(FEEDS), glow_nb.evaluate(_function(), FEEDS))
