"""Products by Strassen's algorithm are products, whatever follows them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glow_nb
from glow_nb.distance import distance
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.optimize.multiply_by_strassen import multiply_by_strassen
from glow_nb.types import Array, TensorType

SMALL = {"rows": 2, "inner": 2, "columns": 2}

HALVES = st.integers(1, 9)


def feeds_of(function: Function) -> dict[str, Array]:
    random = np.random.default_rng(3)
    return {
        value.name: random.normal(size=value.type.shape).astype(value.type.kind.dtype)
        for value in function.inputs
    }


def weights(b: Builder, name: str, *shape: int, kind: type = np.float64) -> Value:
    values = np.random.default_rng(len(name)).normal(size=shape)
    return b.constant(name, values.astype(kind))


def counts(function: Function) -> Counter[str]:
    return Counter(node.opcode for node in function)


def layers(rows: int, inner: int, columns: int, *, leading: tuple[int, ...]) -> Function:
    """Return two dense layers with an activation between them, a residual and a gate."""
    b = Builder()
    x = b.input("x", f"float64<{' x '.join(map(str, (*leading, rows, inner)))}>")
    ones = (1,) * len(leading)
    y: Value = b.emit(ops.MatMul(x, weights(b, "w", inner, columns)))
    y = b.emit(ops.Add(y, weights(b, "bias", *ones, 1, columns)))
    y = b.emit(ops.Relu(y))
    y = b.emit(ops.Mul(y, b.input("gate", f"float64<{' x '.join(map(str, (*ones, rows, 1)))}>")))
    z = b.emit(ops.MatMul(y, weights(b, "second", columns, inner)))
    b.save(b.emit(ops.Add(x, z)), "z")
    b.save(b.emit(ops.ReduceSum(y, (len(leading),), True)), "sums")
    return b.function()


@given(HALVES, HALVES, HALVES, st.sampled_from([(), (1,), (1, 1)]))
def test_results_are_those_of_the_products(
    rows: int, inner: int, columns: int, leading: tuple[int, ...]
) -> None:
    function = layers(2 * rows, 2 * inner, 2 * columns, leading=leading)
    cut = multiply_by_strassen(function, **SMALL)
    assert counts(cut)["mat_mul"] == 14
    feeds = feeds_of(function)
    expected, found = (evaluate(each, feeds) for each in (function, cut))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-10)


def test_an_activation_and_the_next_product_take_quarters() -> None:
    cut = glow_nb.optimize(
        layers(4, 6, 8, leading=(1,)), pipeline=(_cut_once, "eliminate_dead_nodes")
    )
    assert counts(cut)["relu"] == 4
    assert counts(cut)["concat"] == 6  # of the whole that is summed up, and of the result


@given(st.sampled_from(["both", "number", "kind", "predicate"]), HALVES)
def test_elementwise_nodes_of_every_form_keep_their_meaning(form: str, halves: int) -> None:
    b = Builder()
    size = 2 * halves
    x = b.input("x", f"float64<{size} x 4>")
    first: Value = b.emit(ops.MatMul(x, weights(b, "w", 4, 6)))
    second = b.emit(ops.MatMul(x, weights(b, "second", 4, 6)))
    match form:
        case "both":
            made: Value = b.emit(ops.Mul(first, second))
        case "number":
            made = b.emit(ops.Add(first, b.constant("one", np.ones((1, 1)))))
        case "kind":
            made = b.emit(ops.Select(b.emit(ops.Less(first, second)), first, x_of(b, size)))
        case _:
            kept = b.input("kept", f"bool<{size}>")
            made = b.emit(ops.Relu(first, predicate=kept))
    b.save(made, "y")
    function = b.function()
    cut = multiply_by_strassen(function, **SMALL)
    assert counts(cut)["mat_mul"] == 14
    feeds = feeds_of(function)
    np.testing.assert_allclose(
        evaluate(cut, feeds)["y"], evaluate(function, feeds)["y"], rtol=1e-10, atol=1e-10
    )


def x_of(b: Builder, rows: int) -> Value:
    return b.input("other", f"float64<{rows} x 6>")


def test_halves_are_cut_again() -> None:
    function = product("float32<8 x 8>", (8, 8))
    twice = multiply_by_strassen(
        glow_nb.optimize(multiply_by_strassen(function, **SMALL), pipeline=glow_nb.STRASSEN[1:]),
        **SMALL,
    )
    assert counts(twice)["mat_mul"] == 49
    feeds = feeds_of(function)
    assert distance(evaluate(function, feeds)["y"], evaluate(twice, feeds)["y"]) < 1e-5


@pytest.mark.parametrize("size", [-1, 2.5, "many"])
def test_sizes_are_whole_numbers(size: Any) -> None:
    with pytest.raises(glow_nb.GlowError, match="rows"):
        multiply_by_strassen(product("float32<4 x 4>", (4, 4)), rows=size)


def _cut_once(function: Function) -> Function:
    """Cut small products, but those that are the halves of others."""
    is_cut = counts(function)["mat_mul"] > 2
    return function if is_cut else multiply_by_strassen(function, **SMALL)


def product(lhs: str, rhs: tuple[int, ...], kind: type = np.float32) -> Function:
    b = Builder()
    b.save(b.emit(ops.MatMul(b.input("x", lhs), weights(b, "w", *rhs, kind=kind))), "y")
    return b.function()


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (product("float32<5 x 4>", (4, 4)), {}),
        (product("float32<4 x 5>", (5, 4)), {}),
        (product("float32<4 x 4>", (4, 5)), {}),
        (product("float32<4 x 4>", (4, 4)), {"rows": 6}),
        (product("float32<4 x 4>", (4, 4)), {"inner": 6}),
        (product("float32<4 x 4>", (4, 4)), {"columns": 6}),
        (product("float32<2 x 4 x 4>", (4, 4)), {}),
        (product("float32<1 x 4 x 4>", (1, 4, 4)), {}),
        (product("float32<0 x 4>", (4, 4)), {"rows": 0}),
        (product("float32<1 x 4>", (4, 4)), {"rows": 1}),
        (product("float16<4 x 4>", (4, 4), np.float16), {}),
    ],
)
def test_other_products_stay(function: Function, sizes: dict[str, int]) -> None:
    """Sizes are odd or small, there are several matrices, or elements have 16 bits."""
    assert multiply_by_strassen(function, **SMALL | sizes) is function


def test_a_matrix_that_comes_at_run_time_stays() -> None:
    b = Builder()
    x, w = (b.input(name, TensorType.of(np.zeros((4, 4), np.float32))) for name in "xw")
    b.save(b.emit(ops.MatMul(x, w)), "y")
    function = b.function()
    assert multiply_by_strassen(function, **SMALL) is function


@pytest.mark.jit
@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_of_the_products_do_all_the_work(threads: int) -> None:
    """Of large layers: sums of halves of the input are all that is computed beside products."""
    b = Builder()
    x = b.input("x", "float32<1 x 128 x 512>")
    y = b.emit(ops.MatMul(x, weights(b, "w", 512, 512, kind=np.float32)))
    b.save(b.emit(ops.Relu(y)), "y")
    function = b.function()
    plain, cut = (
        glow_nb.compile(function, threads=threads, pipeline=pipeline)
        for pipeline in (glow_nb.INFERENCE, (*glow_nb.INFERENCE, *glow_nb.STRASSEN))
    )
    families = Counter(kernel.family for kernel in cut.kernels)
    assert families.pop("mat_mul") == 7
    assert set(families) == {"elementwise"}
    feeds = feeds_of(function)
    assert distance(plain.run(feeds)["y"], cut.run(feeds)["y"]) < 3e-6
    assert cut.memory.constant_bytes < 1.8 * plain.memory.constant_bytes
