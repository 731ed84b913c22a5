"""Reductions with few results, cut into parts."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.optimize.split_reductions import split_reductions
from glow_nb.llir.stack import StackInst

REDUCTIONS = (ops.ReduceSum, ops.ReduceMean, ops.ReduceMax, ops.ReduceMin, ops.ReduceProd)
CASES = [
    ((256, 260), (0, 1), True),
    ((4, 33, 500), (1, 2), False),
    ((2, 40_000), (1,), True),
    ((90_000, 3), (0,), False),
    ((2, 4000, 3, 3), (1, 2), True),
]


@pytest.mark.parametrize(("shape", "axes", "keep_dims"), CASES, ids=str)
@pytest.mark.parametrize("kind", ["float64", "int32"])
def test_parts_give_the_same(
    shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool, kind: str
) -> None:
    random = np.random.default_rng(0)
    for reduction in REDUCTIONS:
        if kind == "int32" and reduction is ops.ReduceMean:
            continue
        b = Builder()
        x = b.input("x", f"{kind}<{' x '.join(map(str, shape))}>")
        b.save(b.emit(reduction(x, axes=axes, keep_dims=keep_dims)), "y")
        function = b.function()
        split = split_reductions(function)
        assert len(split.nodes) == len(function.nodes) + 3
        numbers = (
            random.normal(size=shape) + 1 if kind == "float64" else random.integers(1, 9, shape)
        )
        feeds = {"x": numbers.astype(kind)}
        got, wanted = (evaluate(f, feeds)["y"] for f in (split, function))
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_what_cannot_be_cut_evenly_or_needs_not_stays() -> None:
    for shape, axes in (((65_537,), (0,)), ((1000, 100), (1,)), ((100, 100), (0, 1)),
                        ((70, 10, 140), (0, 2))):  # fmt: skip
        b = Builder()
        x = b.input("x", f"float32<{' x '.join(map(str, shape))}>")
        b.save(b.emit(ops.ReduceSum(x, axes=axes, keep_dims=True)), "y")
        function = b.function()
        assert split_reductions(function) is function


@pytest.mark.jit
def test_what_computes_the_elements_is_drawn_into_the_parts() -> None:
    b = Builder()
    x = b.input("x", "float32<300 x 400>")
    error = b.emit(ops.Sub(x, b.input("target", "float32<300 x 400>")))
    mean = b.emit(ops.ReduceMean(b.emit(ops.Mul(error, error)), axes=(0, 1), keep_dims=False))
    b.save(mean, "loss")
    function = b.function()
    net = glow_nb.compile(function, threads=2)
    stacks = [work for work in net.program.work if isinstance(work, StackInst)]
    assert [[i.opcode for i in stack.prologue] for stack in stacks] == [["sub", "mul"]]
    random = np.random.default_rng(0)
    feeds = {name: random.normal(size=(300, 400)).astype(np.float32) for name in ("x", "target")}
    np.testing.assert_allclose(net.run(feeds)["loss"], evaluate(function, feeds)["loss"], rtol=1e-5)
