"""Products with few columns that are computed transposed."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glow_nb
from glow_nb.backends.cpu.columns_to_rows import columns_to_rows
from glow_nb.base.types import Array
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import (
    Convolution,
    FullyConnected,
    MatMul,
    ReduceSum,
    Reshape,
    Transpose,
)
from glow_nb.hlir.ops.windows import Window
from glow_nb.kernels.target import Target
from tests.in_turn import marked_rows
from tests.targets import SMALL_CORE

Shape = tuple[int, ...]
WIDE = Target("x86_64-unknown-linux-gnu", "znver4", "+avx,+avx2,+fma,+avx512f,+avx512vl", lanes=16)


def numbers(shape: Shape, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def function_of(
    input: Shape, node: Callable[[Builder, Value], MatMul | FullyConnected | Convolution]
) -> Function:
    builder = Builder("columns")
    x = builder.input("x", f"float32<{' x '.join(map(str, input))}>")
    builder.save(builder.emit(node(builder, x)), "y")
    return builder.function()


def product(columns: Shape, *, constant: bool = True) -> Callable[[Builder, Value], MatMul]:
    def node(builder: Builder, x: Value) -> MatMul:
        if constant:
            return MatMul(x, builder.constant("w", numbers(columns, 1)))
        return MatMul(x, builder.input("w", f"float32<{' x '.join(map(str, columns))}>"))

    return node


def dense(inner: int, depth: int) -> Callable[[Builder, Value], FullyConnected]:
    def node(builder: Builder, x: Value) -> FullyConnected:
        weights, bias = numbers((inner, depth), 1), numbers((depth,), 2)
        return FullyConnected(x, builder.constant("w", weights), builder.constant("b", bias))

    return node


def convolution(
    channels: int, depth: int, taps: int = 1, stride: int = 1, group: int = 1
) -> Callable[[Builder, Value], Convolution]:
    def node(builder: Builder, x: Value) -> Convolution:
        filter = builder.constant("w", numbers((depth, taps, taps, channels // group), 1))
        bias = builder.constant("b", numbers((depth,), 2))
        window = Window((taps, taps), (stride, stride), (0, 0, 0, 0), (1, 1)).attributes
        return Convolution(x, filter, bias, **window, group=group)

    return node


TURNED = [
    ((3000, 64), product((64, 1))),
    ((3000, 64), product((64, 3), constant=False)),
    ((5, 300, 64), product((64, 2))),
    ((5, 300, 64), product((5, 64, 2), constant=False)),
    ((2000, 100), dense(100, 4)),
    ((2, 30, 40, 64), convolution(64, 3)),
]


def operands(function: Function) -> dict[str, Array]:
    return {value.name: numbers(value.type.shape, n) for n, value in enumerate(function.inputs)}


@pytest.mark.parametrize(("input", "node"), TURNED)
def test_few_columns_are_multiplied_as_rows(
    input: Shape, node: Callable[[Builder, Value], MatMul]
) -> None:
    function = function_of(input, node)
    made = columns_to_rows(function, target=WIDE)
    (found,) = (each for each in made if isinstance(each, MatMul))
    assert isinstance(found.rhs, Transpose)
    assert found.lhs.type.shape[-2] <= 4
    feeds = operands(function)
    (before,), (after,) = (evaluate(each, feeds).values() for each in (function, made))
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=2e-5)


def test_each_thread_saves_more_than_another_kernel_takes() -> None:
    function = function_of((600, 64), product((64, 2)))
    assert columns_to_rows(function, target=WIDE, threads=1) is not function
    assert columns_to_rows(function, target=WIDE, threads=16) is function


@pytest.mark.parametrize(
    ("input", "node"),
    [
        ((20, 64), product((64, 1))),  # saves less than another kernel takes
        ((3000, 64), product((64, 64))),
        ((2, 30, 40, 64), convolution(64, 3, taps=3)),
        ((2, 30, 40, 64), convolution(64, 3, stride=2)),
        ((2, 30, 40, 64), convolution(64, 4, group=2)),
        ((0, 64), product((64, 1))),
        ((3000, 0), product((0, 1))),
    ],
)
def test_other_products_stay(input: Shape, node: Callable[[Builder, Value], MatMul]) -> None:
    function = function_of(input, node)
    assert columns_to_rows(function, target=WIDE) is function


def transposed(shape: Shape, order: Shape, columns: Shape) -> Function:
    """Return the product of an input that is transposed before."""
    builder = Builder("transposed")
    x = builder.input("x", f"float32<{' x '.join(map(str, shape))}>")
    w = builder.input("w", f"float32<{' x '.join(map(str, columns))}>")
    builder.save(builder.emit(MatMul(builder.emit(Transpose(x, order)), w)), "y")
    return builder.function()


@pytest.mark.parametrize(
    ("shape", "order", "columns"),
    [
        ((64, 3000), (1, 0), (64, 2)),
        ((3, 64, 900), (0, 2, 1), (3, 64, 1)),
        ((4096, 256), (1, 0), (4096, 24)),  # more than a vector of columns
    ],
)
def test_a_matrix_that_was_transposed_is_read_as_it_was(
    shape: Shape, order: Shape, columns: Shape
) -> None:
    function = transposed(shape, order, columns)
    made = columns_to_rows(function, target=WIDE)
    (found,) = (each for each in made if isinstance(each, MatMul))
    assert found.rhs is made.inputs[0]
    feeds = operands(function)
    (before,), (after,) = (evaluate(each, feeds).values() for each in (function, made))
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("is_after_another", [False, True])
@pytest.mark.parametrize("is_read_twice", [False, True])
def test_a_copy_that_others_read_is_not_counted_as_saved(
    is_after_another: bool, is_read_twice: bool
) -> None:
    """Also where what was transposed is made by a product that was transposed before."""
    builder = Builder("two")
    x, w = builder.input("x", "float32<19200 x 64>"), builder.input("w", "float32<300 x 16>")
    column = builder.constant("v", np.ones((64, 1), np.float32))
    made = MatMul(x, column) if is_after_another else ReduceSum(x, axes=(1,))
    rows = builder.emit(Transpose(builder.emit(Reshape(builder.emit(made), (300, 64))), (1, 0)))
    builder.save(builder.emit(MatMul(rows, w)), "y")
    if is_read_twice:
        builder.save(rows, "z")
    found = columns_to_rows(builder.function(), target=SMALL_CORE)
    shapes = [each.type.shape for each in found if isinstance(each, MatMul)]
    assert ((64, 16) in shapes) == is_read_twice
    assert ((1, 19200) in shapes) == is_after_another


def test_integers_and_matrices_in_another_order_stay() -> None:
    builder = Builder("others")
    q, v = builder.input("q", "int8<3000 x 64>"), builder.constant("v", np.ones((64, 1), np.int8))
    builder.save(builder.emit(MatMul(q, v)), "z")
    for function in (builder.function(), transposed((64, 9, 900), (1, 2, 0), (64, 1))):
        assert columns_to_rows(function, target=WIDE) is function


sizes = st.integers(1, 20)


@settings(max_examples=60)
@given(sizes, sizes, st.integers(1, 8), st.lists(st.integers(1, 3), max_size=2), st.booleans())
def test_any_product_means_the_same(
    rows: int, inner: int, depth: int, batch: list[int], shares: bool
) -> None:
    columns = (inner, depth) if shares else (*batch, inner, depth)
    function = function_of((*batch, rows, inner), product(columns, constant=False))
    least = float("-inf")
    target = WIDE.with_machine(
        narrow_min_cycles=least, narrow_min_gain=least, narrow_min_gain_transposed=least
    )
    made = columns_to_rows(function, target=target)
    assert any(isinstance(each, Transpose) for each in made)
    feeds = operands(function)
    (before,), (after,) = (evaluate(each, feeds).values() for each in (function, made))
    np.testing.assert_allclose(after, before, rtol=2e-5, atol=2e-5)


@pytest.mark.jit
@pytest.mark.parametrize(("input", "node"), marked_rows(TURNED, only=TURNED[:2]))
def test_compiled_products_read_the_matrix_as_it_lies(
    input: Shape, node: Callable[[Builder, Value], MatMul]
) -> None:
    function = function_of(input, node)
    network = glow_nb.compile(function, threads=2)
    feeds = operands(function)
    (result,) = network.run(feeds).values()
    (wanted,) = evaluate(function, feeds).values()
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-5)
