"""Products in matrix registers, by AMX's instructions and where there are none."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.cpu import integer_products
from glow_nb.backends.cpu.algorithms import Candidate
from glow_nb.backends.cpu.backend import CpuBackend
from glow_nb.backends.cpu.options import CpuOptions
from glow_nb.base.dot_instruction import (
    DOTS,
    MATRIX_REGISTERS,
    DotInstruction,
    dot_named_by,
)
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.size import Symbol
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.evaluate import evaluate
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.with_sizes import with_sizes
from glow_nb.kernels import registry
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.rows import SAPPHIRE_RAPIDS
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.target import Target
from tests.in_turn import marked_rows
from tests.matrix_targets import (
    EMULATED,
    INSTRUCTIONS,
    emulated_and,
    without_matrix_registers,
)
from tests.open_programs import compiled
from tests.unit.kernels.open_cases import open_size
from tests.unit.kernels.products.test_groups_of_factors import INT8, matrices


def first_that_fits(left: ElementKind, right: ElementKind, target: Target) -> DotInstruction | None:
    """Return what multiplies such elements, whether or not *target* has it."""
    rows = (dot for dot in DOTS.values() if dot.is_matrix)
    return next((dot for dot in rows if dot.multiplies(left, right)), None)


@pytest.fixture(params=[EMULATED, pytest.param(INSTRUCTIONS, marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    """Return this processor, which multiplies in matrix registers.

    The default run has instructions only where a test asks for them.
    """
    host = Target.host()
    if request.param == INSTRUCTIONS and MATRIX_REGISTERS not in host.instruction_sets:
        pytest.skip("this processor has no matrix registers, or may not use them")
    monkeypatch.setattr(integer_products, "matrix_dot_for", first_that_fits)
    return host if request.param == INSTRUCTIONS else without_matrix_registers(host)


@dataclass(frozen=True)
class Case:
    """A convolution of bytes: sizes, and what follows it."""

    input: tuple[int, ...]
    depth: int
    kernel: int = 1
    stride: int = 1
    pad: int = 0
    dilation: int = 1
    group: int = 1
    left: str = "uint8"
    right: str = "int8"
    then: str = ""


CASES = {
    "one register": Case((1, 4, 4, 64), 16),
    "two parts, two panels": Case((1, 5, 5, 64), 32, left="int8"),
    "tiles of two heights": Case((1, 7, 7, 20), 100, then="relu"),
    "padded lines": Case((2, 9, 19, 32), 40, 3, pad=1, left="int8", right="uint8"),
    "lines in place": Case((1, 7, 37, 64), 48, 3, then="residual"),
    "short lines": Case((2, 9, 7, 64), 40, 3, pad=1, then="residual"),
    "short lines that wait": Case((1, 13, 11, 512), 90, 3, pad=1, then="relu"),
    "strides": Case((1, 15, 15, 64), 33, 3, 2, 1, then="bytes"),
    "dilated": Case((1, 12, 12, 16), 70, 3, pad=2, dilation=2, right="uint8"),
    "groups of channels": Case((1, 8, 8, 256), 100, 3, pad=1, group=2),
    "groups in a cache line": Case((1, 8, 8, 64), 24, 3, pad=1, group=2),
    "runs of an image": Case((2, 19, 21, 3), 24, 7, 2, 3, then="relu"),
    "runs of few channels": Case((1, 9, 17, 16), 40, 3, pad=1, left="int8"),
    "runs without pads": Case((1, 8, 24, 5), 33, 5, then="bytes"),
    "sums that wait": Case((1, 6, 35, 512), 40, 3, pad=1, then="relu"),
    "sums that wait in place": Case((2, 17, 1, 4096), 24, then="gelu"),
}


def convolution(case: Case) -> Function:
    b = glow_nb.Builder("layer")
    sizes = " x ".join(map(str, case.input))
    x = b.input("x", f"{case.left}<{sizes}>")
    shape = (case.depth, case.kernel, case.kernel, case.input[-1] // case.group)
    weights = b.constant("w", numbers(case.right, shape, 1))
    bias = b.constant("b", np.arange(case.depth, dtype=np.int32) * 100)
    window: Any = {
        "kernel": (case.kernel,) * 2,
        "stride": (case.stride,) * 2,
        "pads": (case.pad,) * 4,
        "dilation": (case.dilation,) * 2,
    }
    y = b.emit(ops.Convolution(x, weights, bias, case.group, **window))
    b.save(followed(b, y, case.then), "y")
    return b.function()


def followed(b: glow_nb.Builder, y: Value, then: str) -> Value:
    """Emit what follows a product."""
    if not then:
        return y
    if then == "residual":
        other = b.input("other", str(y.type))
        return b.emit(ops.Add(y, other))
    wide = b.emit(ops.ConvertTo(y, ElementKind.FLOAT32))
    if then == "relu":
        return b.emit(ops.Relu(wide))
    scaled = b.emit(
        ops.Mul(wide, b.constant("s", np.full((1,) * wide.type.rank, 1e-5, np.float32)))
    )
    if then == "gelu":
        return b.emit(ops.Gelu(scaled))
    return b.emit(ops.ConvertTo(b.emit(ops.Clip(scaled, -100.0, 100.0)), ElementKind.INT8))


def numbers(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    low, high = ElementKind(kind).limits
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(kind)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "threads", "target"),
    marked_rows(
        itertools.product(CASES, (1, 2), (EMULATED, INSTRUCTIONS)),
        only=[
            (name, 1 + number % 2, way)
            for number, name in enumerate(CASES)
            for way in (EMULATED, INSTRUCTIONS)[: 1 + (number % 5 == 1)]
        ],
    ),
    indirect=["target"],
)
def test_convolutions_of_bytes(name: str, threads: int, target: Target) -> None:
    function = convolution(CASES[name])
    check(function, target, threads)


def in_matrix_registers(_: str, candidates: Sequence[Candidate]) -> Candidate:
    """Choose a plan whose sums are in matrix registers."""
    return next(each for each in candidates if dot_named_by(each.plan).is_matrix)


def check(function: Function, target: Target, threads: int) -> None:
    """Compare with the oracle."""
    backend = CpuBackend(target, CpuOptions(plan=in_matrix_registers), threads=threads)
    net = glow_nb.compile(function, backend=backend, threads=threads)
    assert any("tile_dot_tdp" in kernel.source for kernel in net.kernels)
    feeds = {
        value.name: numbers(value.type.kind.value, value.type.shape, seed)
        for seed, value in enumerate(function.inputs)
    }
    found, wanted = net.run(feeds)["y"], evaluate(function, feeds)["y"]
    if found.dtype == np.float32:
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("channels", "target"), emulated_and([3, 8, 40, 200], [8, 40]), indirect=["target"]
)
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_convolutions_of_bfloat16(channels: int, bad: float, target: Target) -> None:
    """What is not finite goes to the sums that read it, and to no others."""
    kind, rng = ElementKind.BFLOAT16.dtype, np.random.default_rng(channels)
    b = glow_nb.Builder("layer")
    x = b.input("x", f"bfloat16<1 x 6 x 18 x {channels}>")
    weights = b.constant("w", rng.standard_normal((40, 3, 3, channels)).astype(kind))
    bias = b.constant("b", np.ones(40, np.float32))
    window: Any = {"kernel": (3, 3), "stride": (1, 1), "pads": (1, 0, 1, 0), "dilation": (1, 1)}
    b.save(b.emit(ops.Convolution(x, weights, bias, wide=True, **window)), "y")
    backend = CpuBackend(target, CpuOptions(plan=in_matrix_registers), threads=2)
    net = glow_nb.compile(b.function(), backend=backend, threads=2)
    feed = rng.standard_normal(x.type.shape).astype(kind)
    feed[0, 2, 9, channels - 1] = bad
    found, wanted = net.run({"x": feed})["y"], evaluate(b.function(), {"x": feed})["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.jit
@pytest.mark.parametrize(("depth", "target"), emulated_and([10, 24, 40], [24]), indirect=["target"])
def test_open_rows_in_parts(depth: int, target: Target) -> None:
    """Tiles of one panel have three parts below each other, those of two panels two."""
    b = glow_nb.Builder("layer")
    x = b.input("x", TensorType(ElementKind.INT8, (Symbol("rows", 40, 1, 512).size, 64)))
    weights = b.constant("w", numbers("int8", (64, depth), 1))
    b.save(b.emit(ops.MatMul(x, weights)), "y")
    options = CpuOptions(plan=in_matrix_registers)
    executable = compiled(b.function(), target=target, options=options)
    for rows in (1, 15, 16, 17, 28, 31, 32, 33, 48, 49, 97):
        static = with_sizes(b.function(), {"rows": rows})
        feed = numbers("int8", (rows, 64), rows)
        (found,) = executable.run([feed])
        np.testing.assert_array_equal(found, evaluate(static, {"x": feed})["y"])


@pytest.mark.parametrize(
    ("rows", "depth", "is_copied"), [(128, 768, True), (128, 64, False), (5000, 300, False)]
)
def test_rows_that_are_read_often_are_copied_to_planes(
    rows: int, depth: int, is_copied: bool
) -> None:
    """The plan says so, and so does the text of the kernel."""
    target = Target.of(SAPPHIRE_RAPIDS)
    product = planned(matrices(INT8, INT8, 4, (rows, 256, depth), 64), target)
    assert product.plan is not None
    assert product.plan.is_set("planes") == is_copied
    text = generate_kernel(product, target).text
    assert ("copied to planes" in text) == is_copied
    other = replace(product, plan=product.plan.updated(planes=None if is_copied else True))
    assert ("copied to planes" in generate_kernel(other, target).text) != is_copied


def test_vectors_read_no_planes() -> None:
    plan = Plan.of("direct", dot="tile_dot_fours", rows=4, inner=16, units=1, planes=True)
    product = replace(matrices(INT8, INT8, 4, (32, 64, 16), 16), plan=plan)
    with pytest.raises(UnsupportedError, match="tile_dot_fours reads no planes"):
        generate_kernel(product, Target.host(16))


def test_few_open_rows_are_read_where_they_lie() -> None:
    target = Target.of(SAPPHIRE_RAPIDS)
    rows = open_size("rows", 128, 1)
    product = planned(matrices(INT8, INT8, 4, (rows, 4096, 4096), 64), target)
    assert product.plan is not None
    assert product.plan.is_set("planes")
    assert product.plan.has("few_rows")
    assert generate_kernel(product, target).text.count("copy(rows, ") == 1


def planned(product: PackedMatMulInst, target: Target) -> PackedMatMulInst:
    """Return *product* with a plan for matrix registers."""
    made = registry.planned(
        replace(product, plan=Plan.of("direct", dot="tile_dot_tdpbssd")), target
    )
    assert isinstance(made, PackedMatMulInst)
    return made
