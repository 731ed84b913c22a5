"""A stack may read again what its head reads."""

from __future__ import annotations

import numpy as np
import pytest

import glow_nb
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function

RANDOM = np.random.default_rng(0)


def residual_convolution() -> Function:
    b = Builder()
    x = b.input("x", "float32<1 x 5 x 6 x 8>")
    filter = b.constant("w", RANDOM.normal(size=(8, 3, 3, 8)).astype(np.float32))
    bias = b.constant("b", RANDOM.normal(size=8).astype(np.float32))
    made = ops.Convolution(
        x, filter, bias, kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1)
    )
    b.save(b.emit(ops.Relu(b.emit(ops.Add(b.emit(made), x)))), "y")
    return b.function()


def gated_product() -> Function:
    b = Builder()
    x = b.input("x", "float32<7 x 12>")
    weights = b.constant("w", RANDOM.normal(size=(12, 12)).astype(np.float32))
    b.save(b.emit(ops.Mul(x, b.emit(ops.MatMul(x, weights)))), "y")
    return b.function()


@pytest.mark.jit
@pytest.mark.parametrize("build", [residual_convolution, gated_product])
def test_input_of_the_head_is_added_to_its_result(build: object) -> None:
    assert callable(build)
    function = build()
    feeds = {"x": RANDOM.normal(size=function.inputs[0].type.shape).astype(np.float32)}
    expected = glow_nb.evaluate(function, feeds)["y"]
    result = glow_nb.compile(function, threads=1).run(feeds)["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)
