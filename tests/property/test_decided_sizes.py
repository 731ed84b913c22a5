"""Random functions one of whose sizes a run decides, for all counts that it may find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.base.size import Symbol
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.parse import parse_function
from glow_nb.hlir.print import print_function
from glow_nb.hlir.verify import verify
from glow_nb.hlir.with_sizes import with_sizes

ROWS, COLUMNS = 5, 3

Step = Callable[[Builder, Value], Value]


def _times_weights(b: Builder, x: Value) -> Value:
    weights = np.arange(12, dtype=np.float32).reshape(COLUMNS, 4)[:, :COLUMNS] / 4
    return b.emit(ops.MatMul(x, b.constant("w", weights)))


def _with_fixed_rows(b: Builder, x: Value) -> Value:
    rows = b.constant("fixed", np.ones((2, COLUMNS), np.float32))
    return b.emit(ops.Concat((x, rows, x), axis=0))


def _per_column(b: Builder, x: Value) -> Value:
    sums = b.emit(ops.ReduceSum(x, axes=(0,)))
    return b.emit(ops.Sub(x, b.emit(ops.Broadcast(sums, x.type.shape))))


def _twice_by_reshape(b: Builder, x: Value) -> Value:
    flat = b.emit(ops.Reshape(x, (x.type.size,)))
    return b.emit(ops.Reshape(flat, x.type.shape))


def _by_columns(b: Builder, x: Value) -> Value:
    turned = b.emit(ops.Relu(b.emit(ops.Transpose(x, permutation=(1, 0)))))
    return b.emit(ops.Transpose(turned, permutation=(1, 0)))


STEPS: tuple[Step, ...] = (
    _times_weights,
    _with_fixed_rows,
    _per_column,
    _twice_by_reshape,
    _by_columns,
    lambda b, x: b.emit(ops.Softmax(x, axis=0)),
    lambda b, x: b.emit(ops.Softmax(x, axis=1)),
    lambda b, x: b.emit(ops.CumSum(x, axis=0)),
    lambda b, x: b.emit(ops.Tanh(b.emit(ops.Add(x, x)))),
    lambda b, x: b.emit(ops.Tile(x, repeats=(2, 1))),
    lambda b, x: b.emit(ops.Pad(x, pads=(1, 0, 0, 0))),
)


def _function(steps: list[int]) -> Function:
    b = Builder("drawn")
    x = b.input("x", f"float32<{ROWS} x {COLUMNS}>")
    places, count = b.emit(ops.NonZero(b.input("chosen", f"bool<{ROWS}>"))).results
    found = Symbol("found", 3, 0, ROWS).size
    b.emit(ops.DecideSize(count, found))
    first = b.emit(ops.Slice(places, starts=(0, 0), stops=(1, found), steps=(1, 1)))
    rows: Value = b.emit(ops.Gather(x, b.emit(ops.Reshape(first, (found,))), axis=0))
    for step in steps:
        rows = STEPS[step](b, rows)
    b.save(rows, "rows")
    b.save(b.emit(ops.ReduceSum(rows, axes=(0,))), "sums")
    b.save(b.emit(ops.ArgMax(rows, axis=1)), "best")
    return b.function()


def _feeds(count: int) -> dict[str, Any]:
    rng = np.random.default_rng(count)
    chosen = np.zeros(ROWS, np.bool_)
    chosen[rng.permutation(ROWS)[:count]] = True
    return {"x": rng.standard_normal((ROWS, COLUMNS), np.float32), "chosen": chosen}


def _check(steps: list[int], backend: str, threads: int) -> None:
    function = _function(steps)
    verify(function)
    assert print_function(parse_function(print_function(function))) == print_function(function)
    network = glow_nb.compile(function, backend=backend, threads=threads)
    for count in range(ROWS + 1):
        feeds = _feeds(count)
        expected = evaluate(with_sizes(function, {"found": count}), feeds)
        for outputs in (evaluate(function, feeds), network.run(feeds)):
            assert {name: array.shape for name, array in outputs.items()} == {
                name: array.shape for name, array in expected.items()
            }
            for name, array in outputs.items():
                if name == "best":  # where two are about equal, it may be either
                    array = np.take_along_axis(expected["rows"], array.reshape(-1, 1), axis=1)
                    wanted = expected["rows"].max(1, keepdims=True)
                else:
                    wanted = expected[name]
                np.testing.assert_allclose(array, wanted, 1e-4, 1e-5, err_msg=name)


drawn = st.lists(st.integers(0, len(STEPS) - 1), max_size=5)


@settings(max_examples=8)
@given(drawn)
def test_runs_mean_what_the_static_function_of_their_count_means(steps: list[int]) -> None:
    _check(steps, "interpreter", 1)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@settings(max_examples=25, deadline=None)
@given(steps=drawn)
def test_machine_code_means_so_as_well(threads: int, steps: list[int]) -> None:
    _check(steps, "cpu", threads)
