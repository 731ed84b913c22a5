"""Products whose rows are counted only when the network runs."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.base.size import Symbol
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.products.blocking import Cut
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.network.compilation import build_program, lower_for
from tests.open_programs import check_sizes
from tests.targets import SMALL_CORE

INNER, DEPTH = 70, 44


def test_open_lines_are_cut_as_known_ones() -> None:
    size = Symbol("n", 32).size
    for limit in (1, 2, 6, 14):
        cut, out = OpenCut(size, limit), SourceWriter()
        cut.write(out)
        for pixels in (*range(1, limit * limit + 2), 997):
            names = {"n": pixels, "first": 0}
            exec(out.text, names)
            names["count"] = names["tiles"]
            wanted = Cut.balanced(pixels, limit)
            found = {
                tile: (eval(loop.start(str(tile)), names), loop.rows)
                for loop in cut.loops
                for tile in eval(loop.within, names)
            }
            known = {
                tile: (eval(loop.start(str(tile))), loop.rows)
                for loop in wanted.loops
                for tile in eval(loop.all)
            }
            assert found == known
            assert all(eval(cut.start(str(t)), names) == at for t, (at, _) in known.items())


def _dense_layers(rows: tuple[int, ...]) -> Function:
    """Two layers whose panels are not all whole, the first one with an epilogue."""
    rng = np.random.default_rng(0)
    builder = Builder("dense")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (*rows, INNER)))
    first = builder.constant("w", rng.standard_normal((INNER, DEPTH), np.float32))
    bias = builder.constant("b", rng.standard_normal((1,) * len(rows) + (DEPTH,), np.float32))
    second = builder.constant("v", rng.standard_normal((DEPTH, INNER), np.float32))
    product = builder.emit(ops.Add(builder.emit(ops.MatMul(x, first)), bias))
    hidden = builder.emit(ops.Relu(product))
    builder.save(builder.emit(ops.Add(builder.emit(ops.MatMul(hidden, second)), x)), "y")
    return builder.function()


@pytest.mark.jit
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_may_be_open(threads: int) -> None:
    rows = (Symbol("batch", 2, 1, 8).size, Symbol("length", 16, 1, 512).size)
    sets = [{"batch": 1, "length": 1}, {"batch": 3, "length": 11}]
    check_sizes(_dense_layers(rows), sets, threads=threads, target=SMALL_CORE, tolerance=1e-6)


@pytest.mark.jit
@pytest.mark.parametrize("weights", [ElementKind.FLOAT32, ElementKind.INT8])
def test_few_rows_have_loops_of_their_own(weights: ElementKind) -> None:
    rng = np.random.default_rng(0)
    builder = Builder("few")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (Symbol("n", 32, 1, 512).size, 1024)))
    w = builder.constant("w", rng.integers(-9, 9, (1024, 96)).astype(weights.dtype))
    scale = builder.constant("s", np.full((1, 96), 0.5, np.float32))
    product: Node = (
        ops.DequantizingMatMul(x, w, scale, None, block=1024)
        if weights is ElementKind.INT8
        else ops.MatMul(x, w)
    )
    builder.save(builder.emit(product), "y")
    function = builder.function()
    sets = [{"n": 1}, {"n": 5}]
    executable = check_sizes(function, sets, target=SMALL_CORE, threads=2, tolerance=1e-6)
    (use,) = executable.kernels
    assert "few_rows = " in use.instruction


def _long_sums(depth: int = 96) -> Function:
    """A layer whose sums wait between inner blocks, with a long epilogue."""
    rng = np.random.default_rng(0)
    builder = Builder("long")
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (Symbol("n", 32, 1, 512).size, 1024)))
    w = builder.constant("w", rng.standard_normal((1024, depth), np.float32) / 32)
    bias = builder.constant("b", rng.standard_normal((1, depth), np.float32))
    sum = builder.emit(ops.Add(builder.emit(ops.MatMul(x, w)), bias))
    builder.save(builder.emit(ops.Gelu(sum)), "y")
    return builder.function()


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_tiles_of_all_heights_share_an_epilogue_if_sums_wait_anyway(lanes: int) -> None:
    backend = CpuBackend(Target.host(lanes))
    program = build_program(lower_for(_long_sums(), backend), backend)
    (layer,) = program.work
    text = generate_kernel(layer, backend.target).text
    assert text.count("tile_dot(") > 2
    assert 1 <= text.count("gelu(") <= 2  # few rows have loops of their own


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("depth", [96, 44])
def test_sums_that_wait_are_right_for_all_heights(depth: int) -> None:
    sets = [{"n": n} for n in (1, 3, 5, 11, 97, 200)]
    check_sizes(_long_sums(depth), sets, target=SMALL_CORE, threads=2, tolerance=1e-6)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize("hint", [1, 5, 97, 512])
def test_rows_may_be_open_with_any_hint(hint: int) -> None:
    sets = [{"n": n} for n in (1, 2, 5, 6, 7, 12, 13, 31, 128, 509)]
    check_sizes(_dense_layers((Symbol("n", hint, 1, 512).size,)), sets, tolerance=1e-6)


def _product_of(left: ElementKind, right: ElementKind) -> Function:
    rng = np.random.default_rng(1)
    builder = Builder("product")
    rows = (Symbol("batch", 2, 1, 8).size, Symbol("length", 16, 1, 512).size)
    x = builder.input("x", TensorType(left, (*rows, INNER)))
    weights = rng.integers(-3, 4, (INNER, DEPTH)) + (0 if right.is_signed else 3)
    w = builder.constant("w", weights.astype(right.dtype))
    builder.save(builder.emit(ops.MatMul(x, w)), "y")
    return builder.function()


def _product_of_codes(kind: ElementKind) -> Function:
    """A product with weights of which 32 neighbours share a scale."""
    rng = np.random.default_rng(1)
    builder = Builder("product_of_codes")
    rows = (Symbol("batch", 2, 1, 8).size, Symbol("length", 16, 1, 512).size)
    x = builder.input("x", TensorType(ElementKind.FLOAT32, (*rows, 64)))
    w = builder.constant("w", rng.integers(0, 2, (64, DEPTH)).astype(kind.dtype))
    scale = builder.constant("s", rng.random((2, DEPTH), np.float32) + 0.1)
    builder.save(builder.emit(ops.DequantizingMatMul(x, w, scale, None, block=32)), "y")
    return builder.function()


ROWS = [{"batch": 1, "length": 1}, {"batch": 3, "length": 11}, {"batch": 1, "length": 257}]
BYTES = (ElementKind.INT8, ElementKind.UINT8)
KINDS = [
    *((ElementKind(name), ElementKind(name)) for name in "float16 bfloat16 float64 int32".split()),
    *((left, right) for left in BYTES for right in BYTES),
]


@pytest.mark.jit
@pytest.mark.parametrize("function", [_product_of(*BYTES), _product_of_codes(ElementKind.INT4)])
def test_rows_of_products_of_integers_may_be_open(function: Function) -> None:
    check_sizes(function, ROWS[1:2], target=SMALL_CORE, tolerance=1e-6)


@pytest.mark.jit
@pytest.mark.slow
@pytest.mark.parametrize(
    "function",
    [
        *(_product_of(*kinds) for kinds in KINDS),
        *(_product_of_codes(ElementKind(name)) for name in "int8 uint8 int4 uint4".split()),
    ],
)
def test_rows_of_all_kinds_may_be_open(function: Function) -> None:
    check_sizes(function, ROWS, threads=2, tolerance=5e-3)
