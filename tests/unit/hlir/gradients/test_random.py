"""Gradients through dropout and the inverse error function."""

from __future__ import annotations

import math

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import GradientError
from glow_nb.hlir import ops
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.differentiate import differentiate
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.gradients.random import dropout_gradient, inverse_erf_gradient
from glow_nb.hlir.ops.random import inverse_error_function
from glow_nb.llir.instructions.random import RandomBitsInst
from glow_nb.llir.program import Instruction
from glow_nb.llir.stack import StackInst


@pytest.mark.parametrize("ratio", [0.0, 0.25, 1.0])
def test_dropout_passes_gradients_where_it_passed_elements(ratio: float) -> None:
    builder = Backward()
    generator = builder.input("generator", "int64<2>")
    x, upstream = (builder.input(name, "float32<9 x 11>") for name in ("x", "upstream"))
    dropout = builder.emit(ops.Dropout(x, generator, ratio, stream=3))
    builder.save(dropout, "y")
    found = dropout_gradient(dropout, upstream, builder)["input"]
    assert isinstance(found, ops.Dropout)
    builder.save(found, "d_x")
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((9, 11), np.float32) for name in ("x", "upstream")}
    results = evaluate(builder.function(), feeds | {"generator": np.array([4, 5])})
    factor = np.float32(1 / (1 - ratio)) if ratio < 1 else 0
    wanted = np.where(results["y"] != 0, feeds["upstream"] * factor, 0)
    np.testing.assert_array_equal(results["d_x"], wanted)


def test_slope_of_the_inverse_error_function() -> None:
    builder = Backward()
    x, upstream = (builder.input(name, "float64<7>") for name in ("x", "upstream"))
    node = builder.emit(ops.InverseErf(x))
    found = inverse_erf_gradient(node, upstream, builder)["input"]
    assert isinstance(found, ops.Mul)
    builder.save(found, "d_x")
    numbers = np.array([-1.0, -0.9, -0.3, 0.0, 0.1, 0.7, 1.0])
    results = evaluate(builder.function(), {"x": numbers, "upstream": np.full(7, 2.0)})
    slope = 2 / math.sqrt(math.pi) * np.exp(-(inverse_error_function(numbers) ** 2))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(results["d_x"], 2 / slope, rtol=1e-14)


def test_probabilities_have_no_gradient() -> None:
    builder = Builder()
    generator, p = builder.input("generator", "int64<2>"), builder.input("p", "float32<1>")
    builder.save(
        builder.emit(ops.ConvertTo(builder.emit(ops.Bernoulli(p, generator)), p.type.kind)), "y"
    )
    with pytest.raises(
        GradientError, match=r"through bernoulli %bernoulli \(its results are truth values\)"
    ):
        differentiate(builder.function(), ["p"])


def test_no_mask_is_kept_until_the_gradient() -> None:
    builder = Builder()
    generator = builder.input("generator", "int64<2>")
    x, w = builder.input("x", "float32<64 x 32>"), builder.input("w", "float32<32 x 16>")
    dropped = builder.emit(ops.Dropout(builder.emit(ops.Tanh(x)), generator))
    y = builder.emit(ops.Tanh(builder.emit(ops.MatMul(dropped, w))))
    builder.save(builder.emit(ops.ReduceSum(y, axes=(0, 1), keep_dims=False)), "sum")
    function = differentiate(builder.function(), ["x", "w"])
    work = glow_nb.compile(function, backend="interpreter").program.work
    draws = [n for n, i in enumerate(work) if any(type(p) is RandomBitsInst for p in parts(i))]
    product = next(n for n, i in enumerate(work) if any(p.opcode == "mat_mul" for p in parts(i)))
    assert len(draws) == 2
    assert draws[0] < product < draws[1]


def parts(instruction: Instruction) -> tuple[Instruction, ...]:
    return instruction.body if isinstance(instruction, StackInst) else (instruction,)
