"""Which products take their weights in floats of 28 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.far_weights import LEAST_BYTES, MOST_ROWS
from glow_nb.backends.cpu.products import Product
from glow_nb.backends.cpu.select_packed_operators import select_packed_operators
from glow_nb.distance import distance
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul, Relu, Transpose
from glow_nb.kernels.operators import Float28MatMul
from glow_nb.kernels.products.product_cost import Candidate
from glow_nb.kernels.target import Target
from glow_nb.types import Array, ElementKind

RANDOM = np.random.default_rng(0)
TARGET = Target("x86_64-unknown-linux-gnu", "znver3", "+avx,+avx2,+fma", 8, l3_bytes=1 << 19)


def weights(inner: int, depth: int) -> Array:
    return (RANDOM.standard_normal((inner, depth)) * 0.02).astype(np.float32)


def product(lhs: str, matrix: Array, *, beside: int = 0) -> Function:
    """Return the product of *lhs* and *matrix*, and one of so many other columns."""
    b = Builder()
    x = b.input("x", f"{ElementKind.of(matrix.dtype).value}<{lhs}>")
    b.save(b.emit(MatMul(x, b.constant("w", matrix))), "y")
    if beside:
        other = b.constant("other", np.ones((matrix.shape[0], beside), matrix.dtype))
        b.save(b.emit(MatMul(x, other)), "z")
    return b.function()


def short(function: Function, target: Target = TARGET, **options: Any) -> int:
    """Return how many products of *function* are done so."""
    made = select_packed_operators(function, target=target, **options)
    return sum(isinstance(node, Float28MatMul) for node in made)


@pytest.mark.parametrize("lhs", ["1 x 512", "2 x 512", "1 x 1 x 512", "2 x 1 x 512"])
def test_products_of_few_rows_with_large_matrices_are(lhs: str) -> None:
    function = product(lhs, weights(512, 512))
    assert short(function) == 1
    assert short(function, float28="off") == 0


def test_others_are_not() -> None:
    matrix = weights(512, 512)
    assert short(product(f"{MOST_ROWS + 1} x 512", matrix)) == 0
    assert short(product("0 x 512", matrix)) == 0
    assert short(product("1 x 512", matrix.astype(np.float64))) == 0
    assert short(product("1 x 512", matrix.astype(np.float16))) == 0
    assert short(product("1 x 512", np.ones((512, 512), np.int32))) == 0
    assert short(product("1 x 512", weights(512, LEAST_BYTES // 4 // 512 - 8), beside=512)) == 1


def test_weights_that_a_cache_holds_are_not() -> None:
    function = product("1 x 256", weights(256, 256))  # 256 KiB
    assert short(function) == 0
    assert short(product("1 x 256", weights(256, 256), beside=288)) == 2  # of all the network
    large = Target(TARGET.triple, TARGET.cpu, TARGET.features, 8, l3_bytes=1 << 25)
    assert short(product("1 x 512", weights(512, 512)), large) == 0


def test_matrices_of_many_outliers_are_not() -> None:
    matrix = weights(512, 512)
    matrix[RANDOM.random(matrix.shape) < 0.01] *= 1e-6
    assert short(product("1 x 512", matrix)) == 0
    matrix = weights(512, 512)
    matrix[:100, 40] *= 1e6  # all in one panel
    assert short(product("1 x 512", matrix)) == 0
    matrix[:92, 40] *= 1e-6
    assert short(product("1 x 512", matrix)) == 1
    matrix[RANDOM.random(matrix.shape) < 0.5] = 0  # which has a code
    matrix[:, 100], matrix[7] = 0, 0
    assert short(product("1 x 512", matrix)) == 1


def test_matrices_that_come_at_run_time_are_not() -> None:
    b = Builder()
    x, w = b.input("x", "float32<1 x 512>"), b.input("w", "float32<512 x 512>")
    b.save(b.emit(MatMul(x, w)), "y")
    assert short(b.function()) == 0


def test_matrices_of_few_columns_are_not() -> None:
    """The last of four panels of eight columns would be padded with as many."""
    matrix = weights(8192, 25)
    assert short(product("1 x 8192", matrix)) == 0
    assert short(product("1 x 8192", weights(8192, 32))) == 1


def test_convolutions_are_not() -> None:
    b = Builder()
    x = b.input("x", "float32<1 x 1 x 1 x 512>")
    filter, bias = (
        b.constant("w", np.ones((512, 1, 1, 512), np.float32)),
        b.constant("b", np.ones(512, np.float32)),
    )
    b.save(b.emit(Convolution(x, filter, bias, (1, 1), (1, 1), (0,) * 4, (1, 1), 1)), "y")
    assert short(b.function()) == 0


@pytest.mark.jit
@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_keeps_its_meaning(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product with a bias and one with a transposed matrix, each before a ReLU."""
    b = Builder()
    x, bias = b.input("x", "float32<2 x 300>"), b.constant("b", weights(1, 380)[0])
    first, second = b.constant("w", weights(300, 380)), b.constant("v", weights(383, 380))
    hidden = b.emit(Relu(b.emit(FullyConnected(x, first, bias))))
    turned = b.emit(Transpose(second, (1, 0)))
    b.save(b.emit(Relu(b.emit(MatMul(hidden, turned)))), "y")
    function = b.function()
    host = Target.host()
    small = Target(host.triple, host.cpu, host.features, host.lanes, l3_bytes=1 << 18)
    monkeypatch.setattr(Target, "host", lambda: small)
    net = glow_nb.compile(function, threads=threads)
    assert [kernel.family for kernel in net.kernels] == ["float28_mat_mul"] * 2
    feeds = {"x": RANDOM.standard_normal((2, 300), np.float32)}
    assert distance(evaluate(function, feeds)["y"], net.run(feeds)["y"], least=1.0) <= 1e-5
    plain = glow_nb.compile(function, threads=threads, backend=glow_nb.Cpu(float28="off"))
    assert net.memory.constant_bytes < 0.95 * plain.memory.constant_bytes


def test_a_tuner_hears_of_them_but_does_not_measure_them() -> None:
    """Their weights pass through the caches between two uses of another weight."""
    heard: list[tuple[int, int]] = []

    class Listener:
        def choose(
            self,
            nodes: Sequence[Product],
            winograd: str,
            strassen: str,
            *,
            beside: Sequence[Product],
        ) -> dict[str, Candidate]:
            heard.append((len(nodes), len(beside)))
            return {}

    function = product("1 x 512", weights(512, 512), beside=25)  # few columns, which are padded
    assert short(function, tuner=Listener()) == 1
    assert short(function, tuner=Listener(), float28="off") == 0
    assert heard == [(1, 1), (2, 0)]
