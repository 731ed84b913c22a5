"""Residual sums read what products read, and nothing else does."""

from collections.abc import Callable

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, ConvertTo, MatMul, ReduceSum, Relu, Sigmoid, Sub
from glow_nb.hlir.optimize.lower_precision import lower_precision
from glow_nb.hlir.optimize.share_roundings import share_roundings

BFLOAT16 = ElementKind.BFLOAT16
ROWS, WIDTH = 40, 32


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def block(builder: Builder, x: Value, seed: int) -> Value:
    """Return ``relu(x @ w + x)``."""
    weights = builder.constant("w", numbers(WIDTH, WIDTH, seed=seed) / 8)
    product = builder.emit(MatMul(x, weights))
    return builder.emit(Relu(builder.emit(Add(product, x))))


def residual(also: Callable[[Builder, Value], None] = lambda _builder, _x: None) -> Function:
    """Return two residual blocks, with what *also* reads the value between them."""
    builder = Builder("residual")
    x = builder.input("x", f"float32<{ROWS} x {WIDTH}>")
    between = block(builder, x, 1)
    builder.save(block(builder, between, 2), "y")
    also(builder, between)
    return builder.function()


def sums_of(function: Function) -> list[Add]:
    return [node for node in function if isinstance(node, Add)]


def is_rounded(value: Value) -> bool:
    """Return whether *value* is a rounded number in float32."""
    match value:
        case ConvertTo(input=ConvertTo(kind=kind)):
            return kind is BFLOAT16
    return False


def test_the_sum_of_a_block_reads_the_rounded_input() -> None:
    function = share_roundings(lower_precision(residual()))
    first, second = sums_of(function)
    assert not is_rounded(first.rhs), "inputs are not stored"
    assert is_rounded(second.rhs)
    assert share_roundings(function) is function


def sigmoid(builder: Builder, x: Value) -> None:
    builder.save(builder.emit(Sigmoid(x)), "also")


def total(builder: Builder, x: Value) -> None:
    builder.save(builder.emit(ReduceSum(x, axes=(1,), keep_dims=False)), "also")


def output(builder: Builder, x: Value) -> None:
    builder.save(x, "also")


@pytest.mark.parametrize("also", [sigmoid, total, output])
def test_what_something_else_reads_is_not_rounded(also: Callable[[Builder, Value], None]) -> None:
    function = lower_precision(residual(also))
    assert share_roundings(function) is function


def cast_of_the_model(builder: Builder, x: Value) -> None:
    builder.save(builder.emit(ConvertTo(x, ElementKind.FLOAT16)), "also")


def test_a_cast_of_the_model_rounds_no_sum() -> None:
    builder = Builder("own")
    x = builder.emit(Relu(builder.input("x", f"float32<{ROWS} x {WIDTH}>")))
    cast_of_the_model(builder, x)
    builder.save(builder.emit(Add(x, x)), "y")
    function = builder.function()
    assert share_roundings(function) is function, "1e6 is infinite in float16"
    function = lower_precision(residual(cast_of_the_model))
    assert share_roundings(function) is function


def test_other_arithmetic_reads_it_too() -> None:
    def less(builder: Builder, x: Value) -> None:
        builder.save(builder.emit(Sub(x, builder.constant("one", numbers(1, WIDTH)))), "also")

    function = share_roundings(lower_precision(residual(less)))
    (difference,) = (node for node in function if isinstance(node, Sub))
    assert is_rounded(difference.lhs)
    assert is_rounded(sums_of(function)[1].rhs)


def test_what_no_product_rounds_stays() -> None:
    function = residual()
    assert share_roundings(function) is function


def test_results_are_off_by_one_rounding() -> None:
    function, x = residual(), {"x": numbers(ROWS, WIDTH, seed=3)}
    exact = evaluate(function, x)["y"]
    apart = evaluate(lower_precision(function), x)["y"] - exact
    shared = evaluate(share_roundings(lower_precision(function)), x)["y"] - exact
    scale = np.sqrt(np.mean(exact**2))
    assert np.sqrt(np.mean(shared**2)) < np.sqrt(np.mean(apart**2)) + scale * 2.0**-8


def test_the_arena_has_one_copy() -> None:
    networks = [
        glow_nb.compile(residual(), backend="interpreter", precision="bfloat16", without=without)
        for without in ((), ("share_roundings",))
    ]
    one, two = (network.memory.arena_bytes for network in networks)
    assert two - one >= ROWS * WIDTH * 4
    x = {"x": numbers(ROWS, WIDTH, seed=3)}
    first, second = (network.run(x)["y"] for network in networks)
    np.testing.assert_allclose(first, second, atol=0.05)
