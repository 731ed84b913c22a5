"""Gradients of operators that move elements are their transposes, each mode and step of them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

from glow_nb.base.types import Array
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Node, Value

MOVES: list[tuple[tuple[int, ...], Callable[[Value], Node]]] = [
    *(
        ((4, 4), lambda x, m=mode, p=pads: ops.Pad(x, p, mode=m))
        for mode in ("constant", "edge", "reflect", "wrap")
        for pads in ((1, 2, 3, 1), (0, 0, 0, 0), (-1, 2, 1, -1), (2, 0, -1, 0), (0, -3, -4, 0))
    ),
    ((4, 1), lambda x: ops.Pad(x, (0, 2, 1, 3), mode="edge")),
    ((7,), lambda x: ops.Slice(x, (1,), (7,), (3,))),
    ((7,), lambda x: ops.Slice(x, (6,), (-1,), (-1,))),
    ((7, 5), lambda x: ops.Slice(x, (5, 1), (0, 4), (-2, 2))),
    ((7, 5), lambda x: ops.Slice(x, (6, 4), (-1, 0), (-3, -2))),
    ((7, 5), lambda x: ops.Slice(x, (3, 1), (3, 5), (1, 2))),
    ((7, 5), lambda x: ops.Slice(x, (6, 1), (6, 5), (-1, 2))),
    ((2, 3), lambda x: ops.Tile(x, (2, 3))),
    ((2, 3), lambda x: ops.Tile(x, (0, 3))),
    ((2, 1, 3), lambda x: ops.Broadcast(x, (2, 4, 3))),
    ((2, 1), lambda x: ops.Broadcast(x, (2, 0))),
    ((2, 3, 4), lambda x: ops.Transpose(x, (2, 0, 1))),
    ((2, 3), lambda x: ops.Concat((x, x, x), 1)),
    ((5,), lambda x: ops.CumSum(x, 0)),
    ((5,), lambda x: ops.CumSum(x, 0, exclusive=True)),
    ((2, 5), lambda x: ops.CumSum(x, 1, reverse=True)),
    ((2, 5), lambda x: ops.CumSum(x, 1, exclusive=True, reverse=True)),
]


@pytest.mark.parametrize(("shape", "make"), MOVES)
def test_the_gradient_is_the_transpose(
    shape: tuple[int, ...], make: Callable[[Value], Node]
) -> None:
    builder = Builder()
    x = builder.input("x", f"float32<{' x '.join(map(str, shape))}>")
    moved = builder.emit(make(x))
    weights = (np.arange(moved.type.size, dtype=np.float32) % 7 - 2).reshape(moved.type.shape)
    weighted = builder.emit(ops.Mul(moved, builder.constant("weights", weights)))
    axes = tuple(range(moved.type.rank))
    builder.save(builder.emit(ops.ReduceSum(weighted, axes, keep_dims=False)), "loss")
    function = builder.function()

    def loss(feed: Array) -> float:
        return float(evaluate(function, {"x": feed.reshape(shape).astype(np.float32)})["loss"])

    wanted = np.array([loss(unit) for unit in np.eye(prod(shape))]) - loss(np.zeros(prod(shape)))
    zeros = {"x": np.zeros(shape, np.float32)}
    found = evaluate(differentiate(function, ["x"]), zeros)["d_x"]
    np.testing.assert_array_equal(found, wanted.reshape(shape))


def test_a_piece_that_nothing_reads_has_the_gradient_0() -> None:
    builder = Builder()
    x = builder.input("x", "float32<5>")
    pieces = builder.emit(ops.Split(x, 0, (2, 0, 3))).results
    builder.save(builder.emit(ops.ReduceSum(pieces[2], (0,), keep_dims=False)), "loss")
    found = evaluate(differentiate(builder.function(), ["x"]), {"x": np.ones(5, np.float32)})
    np.testing.assert_array_equal(found["d_x"], [0, 0, 1, 1, 1])


def test_a_split_into_one_piece_passes_its_gradient_on() -> None:
    builder = Builder()
    x = builder.input("x", "float32<2>")
    piece = builder.emit(ops.Split(x, 0, (2,)))
    builder.save(builder.emit(ops.ReduceSum(piece, (0,), keep_dims=False)), "loss")
    found = evaluate(differentiate(builder.function(), ["x"]), {"x": np.ones(2, np.float32)})
    np.testing.assert_array_equal(found["d_x"], [1, 1])
