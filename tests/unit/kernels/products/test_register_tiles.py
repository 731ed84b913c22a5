"""Epilogues on the register tiles of products, against NumPy."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import glow_nb
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.evaluate import evaluate
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register
from glow_nb.llir.stack import StackInst
from tests.in_turn import each_with_one_width, marked_rows
from tests.targets import SMALL_CORE
from tests.unit.kernels.products.test_matmul import packed
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

AddInst, GeluInst, HardSwishInst, ReluInst = (
    instruction_for(node) for node in (ops.Add, ops.Gelu, ops.HardSwish, ops.Relu)
)
FLOAT32 = ElementKind.FLOAT32
BLOCK = 32


def gelu_of_sum(
    rows: int, inner: int, depth: int, target: Target, *, is_in_place: bool = False
) -> KernelSource:
    """Return the kernel of ``total = lhs @ rhs + residual`` and ``dest = gelu(total)``.

    With *is_in_place*, the sum is not stored, and the result lies upon the residual.
    """
    type = TensorType(FLOAT32, (rows, depth))
    residual, made = Buffer("residual", type), Register("made", type)
    total = Register("total", type) if is_in_place else Buffer("total", type)
    dest = residual if is_in_place else Buffer("dest", type)
    lhs = Buffer("lhs", TensorType(FLOAT32, (rows, inner)))
    rhs = Buffer("rhs", TensorType(FLOAT32, (-(-depth // BLOCK), inner, BLOCK)))
    head = PackedMatMulInst(made, lhs, rhs, None, depth=depth, block=BLOCK)
    gelu = GeluInst(dest, total, approximate="none")
    return generate_kernel(StackInst.of([head, AddInst(total, made, residual), gelu]), target)


def operands(rows: int, inner: int, depth: int) -> tuple[Array, Array, Array]:
    """Return two matrices of small integers and a residual."""
    random = np.random.default_rng(0)
    lhs = random.integers(-2, 3, (rows, inner)).astype(np.float32)
    rhs = random.integers(-2, 3, (1, inner, depth)).astype(np.float32)
    return lhs, rhs, random.normal(0, 1, (rows, depth)).astype(np.float32)


def gelu(x: Array) -> Array:
    tail = [math.erfc(value) for value in (-x.astype(np.float64) / math.sqrt(2)).flat]
    result: Array = (0.5 * x * np.reshape(tail, x.shape)).astype(np.float32)
    return result


TILES = [(7, 32), (13, 41), (3, 3), (1, 96), (12, 40), (9, 24), (10, 61), (2, 47)]
"""Rows and columns; of few and of many, whole vectors or not, the default run has one each."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("sizes", "lanes"),
    each_with_one_width(TILES, slow=[(7, 32), (13, 41), (12, 40), (10, 61)]),
)
def test_long_epilogue_sees_every_element(sizes: tuple[int, int], lanes: int) -> None:
    rows, depth = sizes
    lhs, rhs, residual = operands(rows, 5, depth)
    kernel = RunningKernel(gelu_of_sum(rows, 5, depth, Target.host(lanes)), Target.host(lanes))
    total, guarded_total = guarded(residual.shape, FLOAT32)
    dest, guarded_dest = guarded(residual.shape, FLOAT32)
    kernel(total, dest, lhs, packed(rhs, BLOCK), residual, threads=2)
    wanted = lhs @ rhs[0] + residual
    np.testing.assert_array_equal(total, wanted)
    np.testing.assert_allclose(dest, gelu(wanted), rtol=1e-6, atol=1e-37)
    assert guards_are_intact(guarded_total)
    assert guards_are_intact(guarded_dest)


@pytest.mark.jit
def test_long_epilogue_writes_over_its_operand() -> None:
    lhs, rhs, residual = operands(13, 5, 41)
    target = Target.host()
    kernel = RunningKernel(gelu_of_sum(13, 5, 41, target, is_in_place=True), target)
    wanted = gelu(lhs @ rhs[0] + residual)
    kernel(residual, lhs, packed(rhs, BLOCK), residual)
    np.testing.assert_allclose(residual, wanted, rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize(
    ("depth", "lanes", "part"),
    [(64, 8, "32, 1, 4, 8"), (64, 16, "32, 2, 2, 16"), (24, 8, "24, 4, 1, 8")],
)
def test_four_vectors_go_through_an_epilogue_together(depth: int, lanes: int, part: str) -> None:
    target = replace(SMALL_CORE, features=f"{SMALL_CORE.features},+avx512f,+avx512vl", lanes=lanes)
    text = gelu_of_sum(48, 5, depth, target).text
    first = re.search(r"load\(kept_\w+, .*\)", text)
    assert first
    assert first[0].endswith(f", {part})")


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "rows", "depth"),
    marked_rows(
        [(kind, *size) for kind in ("float16", "bfloat16") for size in ((5, 1), (33, 48))],
        only=[("float16", 33, 48), ("bfloat16", 5, 1)],
    ),
)
def test_a_narrow_product_is_stored_before_its_long_epilogue(
    kind: str, rows: int, depth: int
) -> None:
    """The product is a result, too: its sums are wider than what is stored."""
    builder = Builder("narrow")
    x, w = (
        builder.input(name, f"{kind}<{size}>")
        for name, size in (("x", f"{rows} x 7"), ("w", f"7 x {depth}"))
    )
    made = builder.emit(ops.MatMul(x, w))
    builder.save(made, "made")
    builder.save(builder.emit(ops.Gelu(made)), "y")
    function = builder.function()
    random = np.random.default_rng(0)
    feeds = {v.name: random.normal(0, 1, v.type.shape).astype(v.type.kind.dtype) for v in (x, w)}
    found, wanted = glow_nb.compile(function).run(feeds), evaluate(function, feeds)
    for name, result in found.items():
        np.testing.assert_allclose(
            result.astype(np.float32), wanted[name].astype(np.float32), rtol=2e-2, atol=2e-2
        )


def test_long_epilogue_is_written_once_for_a_tile() -> None:
    text = gelu_of_sum(12, 5, 64, Target.host(8)).text
    assert text.count("gelu(") == text.count("tile_keep(") > 0


@pytest.mark.parametrize("depth", [24, 64, 96])
def test_loop_of_a_long_epilogue_is_no_deeper_than_that_of_the_sums(depth: int) -> None:
    lines = gelu_of_sum(12, 5, depth, Target.of(ROWS["zen3"])).text.split("\n")
    keeping = next(line for line in lines if "tile_keep(" in line)
    deepest = max(len(line) - len(line.lstrip()) for line in lines if "gelu(" in line)
    assert deepest == keeping.index("kept_") + len("    ")


def test_short_epilogue_stays_in_registers() -> None:
    type = TensorType(FLOAT32, (12, 64))
    lhs = Buffer("lhs", TensorType(FLOAT32, (12, 5)))
    rhs = Buffer("rhs", TensorType(FLOAT32, (2, 5, BLOCK)))
    made, dest = Register("made", type), Buffer("dest", type)
    head = PackedMatMulInst(made, lhs, rhs, None, depth=64, block=BLOCK)
    for last in (ReluInst(dest, made), HardSwishInst(dest, made)):
        text = generate_kernel(StackInst.of([head, last]), Target.host(8)).text
        assert "tile_keep(" not in text
