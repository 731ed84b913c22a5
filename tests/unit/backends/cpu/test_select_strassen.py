"""Which matrix products are done by Strassen's algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu.kernel_estimate import estimated_ns
from glow_nb.backends.cpu.select_packed_operators import candidates_of, select_packed_operators
from glow_nb.base.distance import distance
from glow_nb.base.types import Array, ElementKind
from glow_nb.compiler.driver import run_to
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Constant, Function, Value
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul, Relu
from glow_nb.kernels.operators import StrassenMatMul
from glow_nb.kernels.operators.strassen_instructions import StrassenMatMulInst
from glow_nb.kernels.target import Target
from glow_nb.llir.program import Program

TARGET = Target(
    "x86_64-unknown-linux-gnu", "znver3", "+avx,+avx2,+fma", 8, l2_bytes=1 << 20, l3_bytes=1 << 25
)
CALL_NS = TARGET.machine.call_ns
CYCLE_NS = TARGET.machine.fma_per_cycle * TARGET.machine.multiply_add_ns


def product(
    lhs: str, inner: int, depth: int, *, kind: str = "float32", weight: float = 0.5
) -> Function:
    b = Builder()
    weights: Array = np.full((inner, depth), weight, ElementKind(kind).dtype)
    x = b.input("x", f"{kind}<{lhs}>")
    b.save(b.emit(MatMul(x, b.constant("w", weights))), "y")
    return b.function()


def uses_strassen(function: Function, **options: Any) -> int:
    """Return how many products of *function* are done so."""
    made = select_packed_operators(function, target=TARGET, **options)
    return sum(isinstance(node, StrassenMatMul) for node in made)


@pytest.mark.parametrize("lhs", ["128 x 768", "1 x 197 x 768", "2 x 3 x 50 x 768", "1500 x 768"])
@pytest.mark.parametrize("threads", [1, 2])
def test_large_products_are(lhs: str, threads: int) -> None:
    function = product(lhs, 768, 768)
    assert uses_strassen(function, threads=threads) == 1
    assert uses_strassen(function, strassen="off") == 0


@pytest.mark.parametrize(
    ("lhs", "inner", "depth"),
    [
        ("1 x 768", 768, 768),  # weights come from memory once, whatever is computed
        ("4 x 4096", 4096, 4096),
        ("128 x 767", 767, 768),  # odd
        ("128 x 768", 768, 767),
        ("128 x 64", 64, 768),  # adding up would take longer
        ("128 x 768", 768, 64),
    ],
)
def test_others_are_not(lhs: str, inner: int, depth: int) -> None:
    assert uses_strassen(product(lhs, inner, depth)) == 0


def convolution(size: int, channels: int, depth: int, **changes: Any) -> Function:
    """Return a convolution of single pixels, unless *changes* say otherwise."""
    given = {"kernel": 1, "stride": 1, "pad": 0, "group": 1, "weight": 0.5} | changes
    b = Builder()
    taps = (given["kernel"],) * 2
    weights = np.full((depth, *taps, channels // given["group"]), given["weight"], np.float32)
    x = b.input("x", f"float32<2 x {size} x {size} x {channels}>")
    filter, bias = b.constant("w", weights), b.constant("b", np.ones(depth, np.float32))
    stride, pads = (given["stride"],) * 2, (given["pad"],) * 4
    made = Convolution(
        x,
        filter,
        bias,
        kernel=taps,
        stride=stride,
        pads=pads,
        dilation=(1, 1),
        group=given["group"],
    )
    b.save(b.emit(made), "y")
    return b.function()


def test_convolutions_of_single_pixels_with_many_channels_are() -> None:
    function = convolution(14, 512, 512)
    assert uses_strassen(function) == 1
    assert uses_strassen(convolution(14, 256, 1024)) == 1
    assert uses_strassen(function, strassen="off") == 0
    assert uses_strassen(function, winograd="off") == 1


@pytest.mark.parametrize(
    "changes",
    [{"kernel": 3, "pad": 1}, {"stride": 2}, {"pad": 1}, {"group": 2}, {"weight": np.inf}],
)
def test_other_convolutions_are_not(changes: dict[str, Any]) -> None:
    assert uses_strassen(convolution(14, 512, 512, **changes)) == 0
    assert uses_strassen(convolution(14, 128, 512)) == 0
    assert uses_strassen(convolution(14, 512, 128)) == 0


@pytest.mark.jit
def test_such_a_convolution_keeps_its_meaning() -> None:
    random = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", "float32<1 x 9 x 9 x 512>")
    filter = b.constant("w", random.standard_normal((1024, 1, 1, 512), np.float32))
    bias = b.constant("b", random.standard_normal(1024, np.float32))
    made = b.emit(
        Convolution(
            x, filter, bias, kernel=(1, 1), stride=(1, 1), pads=(0,) * 4, dilation=(1, 1), group=1
        )
    )
    b.save(b.emit(Relu(made)), "y")
    net = glow_nb.compile(b.function(), threads=2)
    assert [kernel.family for kernel in net.kernels] == ["strassen"]
    feeds = {"x": random.standard_normal((1, 9, 9, 512), np.float32)}
    wanted = evaluate(b.function(), feeds)["y"]
    assert distance(wanted, net.run(feeds)["y"], least=1.0) <= 1e-4


@pytest.mark.parametrize("kind", ["float16", "float64", "int32"])
def test_other_kinds_are_not(kind: str) -> None:
    assert uses_strassen(product("128 x 768", 768, 768, kind=kind)) == 0


@pytest.mark.parametrize("weight", [np.nan, -np.inf, 1e30])
def test_weights_that_might_overflow_are_not(weight: float) -> None:
    assert uses_strassen(product("128 x 768", 768, 768, weight=weight)) == 0


@pytest.mark.parametrize(("size", "is_used"), [(1e8, True), (1e-8, True), (1e10, False)])
def test_matrices_with_columns_of_too_different_sizes_are_not(size: float, is_used: bool) -> None:
    weights = np.full((768, 768), 0.5, np.float32)
    weights[:, 5] *= np.float32(size)
    b = Builder()
    x = b.input("x", "float32<128 x 768>")
    b.save(b.emit(MatMul(x, b.constant("w", weights))), "y")
    assert uses_strassen(b.function()) == is_used


def test_matrices_of_the_run_are_not() -> None:
    b = Builder()
    x, w = b.input("x", "float32<2000 x 768>"), b.input("w", "float32<768 x 768>")
    b.save(b.emit(MatMul(x, w)), "y")
    assert uses_strassen(b.function()) == 0


def test_more_memory_is_taken_up_to_a_limit() -> None:
    b = Builder()
    x: Value = b.input("x", "float32<128 x 768>")
    for number in range(4):
        w = b.constant(f"w{number}", np.full((768, 768), 0.01, np.float32))
        x = b.emit(MatMul(x, w))
    b.save(x, "y")
    assert uses_strassen(b.function()) == 4
    for growth, count in ((2, 4), (1.75, 4), (1.74, 3), (1 + 2.9 * 3 / 16, 2), (1, 0)):
        assert uses_strassen(b.function(), constant_growth=growth) == count


@pytest.mark.parametrize("sizes", [(1500, 2), (2, 1500)])
def test_products_of_one_matrix_may_differ(sizes: tuple[int, int]) -> None:
    b = Builder()
    w = b.constant("w", np.full((768, 768), 0.01, np.float32))
    for rows in sizes:
        b.save(b.emit(MatMul(b.input(f"x{rows}", f"float32<{rows} x 768>"), w)), f"y{rows}")
    assert uses_strassen(b.function()) == 1


def test_the_fastest_candidate_comes_first() -> None:
    (node,) = (n for n in product("128 x 768", 768, 768) if isinstance(n, MatMul))
    candidates = candidates_of(node, TARGET, "auto", 2)
    assert candidates[0].plan.algorithm == "strassen"
    assert [candidate.plan.algorithm for candidate in candidates].count("strassen") == 2
    assert any(candidate.plan.algorithm == "direct" for candidate in candidates)
    direct = candidates_of(node, TARGET, "auto", strassen="off")
    assert all(candidate.plan.algorithm == "direct" for candidate in direct)


@pytest.mark.parametrize(("rows", "others"), [(128, 0.05), (1500, 0.06)])
def test_its_estimate_is_that_of_its_choice(rows: int, others: float) -> None:
    given = product(f"{rows} x 768", 768, 768)
    (node,) = (node for node in given if isinstance(node, MatMul))
    function = select_packed_operators(given, target=TARGET)
    order = ("fold_constants", "eliminate_dead_nodes", "schedule", "generate", "allocate")
    program = run_to(Program, function, order)
    (instruction,) = (i for i in program.work if isinstance(i, StrassenMatMulInst))
    (candidate,) = (
        candidate
        for candidate in candidates_of(node, TARGET, "auto", 3)
        if (candidate.plan.algorithm, candidate.plan.number("block"))
        == ("strassen", instruction.block)
    )
    more = estimated_ns(instruction, TARGET) - CALL_NS - CYCLE_NS * candidate.cycles
    assert (
        0 <= more < others * CYCLE_NS * candidate.cycles
    )  # what is read and written beside the weights


@pytest.mark.jit
@pytest.mark.parametrize(
    ("rows", "width"),
    [
        pytest.param(64, 512, marks=pytest.mark.slow),
        pytest.param(65, 512, marks=pytest.mark.slow),
        (1023, 512),
    ],
)
def test_a_network_keeps_its_meaning(rows: int, width: int) -> None:
    """Sums of blocks take 7/4 of the memory of a matrix."""
    random = np.random.default_rng(0)
    b = Builder()
    x = b.input("x", f"float32<{rows} x {width}>")
    y: Value = x
    for name, inner, depth in (("w", width, 2 * width), ("v", 2 * width, width)):
        weights = random.standard_normal((inner, depth), np.float32) / np.float32(inner**0.5)
        bias = b.constant(f"{name}_bias", random.standard_normal(depth, np.float32))
        y = b.emit(FullyConnected(y, b.constant(name, weights), bias))
    b.save(y, "y")
    feeds = {"x": random.standard_normal((rows, width), np.float32)}
    net = glow_nb.compile(b.function(), threads=2)
    assert sum(kernel.family == "strassen" for kernel in net.kernels) == 2
    wanted = evaluate(b.function(), feeds)["y"]
    assert distance(wanted, net.run(feeds)["y"], least=1.0) <= 1e-5
    plain = glow_nb.compile(b.function(), threads=2, backend=glow_nb.Cpu(strassen="off"))
    assert net.memory.constant_bytes > 1.7 * plain.memory.constant_bytes


def test_weights_that_were_not_supplied_are_looked_at_only() -> None:
    b = Builder()
    x = b.input("x", "float32<128 x 768>")
    w = Constant("w", b.constant("w", np.zeros((768, 768), np.float32)).type, None)
    b.save(b.emit(MatMul(x, w)), "y")
    made = select_packed_operators(b.function(), target=TARGET)
    assert any(isinstance(node, StrassenMatMul) for node in made)
