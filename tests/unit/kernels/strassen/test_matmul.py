"""Kernels of Strassen's algorithm against the meaning of their operator, and against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.distance import distance
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Placeholder
from glow_nb.kernels.bilinear.plan import plan_bilinear
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators import StrassenMatMul, StrassenScales, StrassenWeights
from glow_nb.kernels.operators.strassen_instructions import StrassenMatMulInst
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.stacks.generate_stack import generate_stack
from glow_nb.kernels.strassen.cost import strassen_cycles
from glow_nb.kernels.strassen.matmul import generate_strassen
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from tests.in_turn import in_turn
from tests.unit.kernels.column_windows import ColumnWindows
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

AddInst = instruction_for(ops.Add)
TanhInst = instruction_for(ops.Tanh)

FLOAT32 = ElementKind.FLOAT32


def instruction_of(
    nest: StrassenNest, *, has_bias: bool = True, dest: Buffer | None = None
) -> StrassenMatMulInst:
    """Return the instruction of *nest*, which writes *dest*."""

    def buffer(name: str, *sizes: int) -> Buffer:
        return Buffer(name, TensorType(FLOAT32, sizes))

    columns = nest.panels * nest.block
    return StrassenMatMulInst(
        dest or buffer("dest", nest.rows, nest.depth),
        buffer("lhs", nest.rows, nest.inner),
        buffer("rhs", nest.panels, nest.elements, nest.inner // nest.side, nest.block),
        buffer("scales", nest.side * columns),
        buffer("bias", nest.side * columns) if has_bias else None,
        depth=nest.depth,
        block=nest.block,
    )


def random_operands(nest: StrassenNest) -> tuple[Array, Array, Array]:
    """Return the left and the right matrix, and a bias."""
    random = np.random.default_rng(nest.rows)
    lhs = random.standard_normal((nest.rows, nest.inner), np.float32)
    rhs = random.standard_normal((nest.inner, nest.depth), np.float32)
    return lhs, rhs, random.standard_normal(nest.depth, np.float32)


def laid_out(nest: StrassenNest, rhs: Array, bias: Array | None) -> list[Array]:
    """Return the right matrix, its scales, and the bias as kernels take them."""
    matrix = Placeholder("rhs", TensorType.of(rhs))
    nodes = (each(matrix, nest.block) for each in (StrassenWeights, StrassenScales))
    made = [node.evaluate(rhs) for node in nodes]
    if bias is not None:
        parts = bias.reshape(nest.side, nest.depth // nest.side)
        padding = nest.panels * nest.block - parts.shape[1]
        made.append(np.pad(parts, ((0, 0), (0, padding))).reshape(-1))
    return made


def run(
    nest: StrassenNest,
    target: Target,
    operands: tuple[Array, Array, Array | None],
    threads: int = 1,
    block_tiles: int = 0,
) -> Array:
    """Return what a kernel makes of *operands*, and check that it is what the operator means."""
    lhs, rhs, bias = operands
    instruction = instruction_of(nest, has_bias=bias is not None)
    plan = plan_bilinear(nest, target, block_tiles)
    fusion = Fusion.of(instruction)
    kernel = RunningKernel(generate_strassen(nest, plan, fusion), target)
    dest, whole = guarded((nest.rows, nest.depth), FLOAT32)
    arrays = [lhs, *laid_out(nest, rhs, bias)]
    kernel(dest, *arrays, threads=threads)
    assert guards_are_intact(whole)
    node = instruction.as_node()
    assert isinstance(node, StrassenMatMul)
    meant = node.evaluate(*arrays, *([None] * (bias is None)))
    np.testing.assert_array_equal(np.isfinite(dest), np.isfinite(meant))
    is_finite = np.isfinite(meant)
    assert distance(meant[is_finite], dest[is_finite], least=1.0) <= 5e-6
    return dest


SIZES = {
    "even": (12, 64, 96),
    "one row": (1, 64, 32),
    "odd rows": (13, 96, 64),
    "a tail": (7, 64, 2 * 37),
    "fewer columns than lanes": (6, 64, 6),
    "sums of no whole vectors": (5, 70, 64),
    "several inner blocks": (4, 2000, 32),
    "many rows": (101, 64, 34),
}
SHOWN = ("odd rows", "fewer columns than lanes", "several inner blocks")
"""Sizes for the default run; tests below have tails and many rows."""


@pytest.mark.jit
@pytest.mark.parametrize(("name", "lanes"), in_turn(SIZES, LANE_COUNTS, only=SHOWN))
def test_products_are_those_of_numpy(name: str, lanes: int) -> None:
    rows, inner, depth = SIZES[name]
    nest = StrassenNest(rows, inner, depth, FLOAT32, lanes * (1 + len(name) % 3))
    lhs, rhs, bias = random_operands(nest)
    threads = 1 + len(name) % 4
    found = run(nest, Target.host(lanes), (lhs, rhs, bias), threads, block_tiles=len(name) % 5)
    exact = lhs.astype(float) @ rhs.astype(float) + bias
    assert distance(exact, found, least=1.0) <= 2e-5


@pytest.mark.jit
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_threads_share_all_of_it(threads: int) -> None:
    nest = StrassenNest(67, 64, 132, FLOAT32, 16)
    lhs, rhs, _ = random_operands(nest)
    found = run(nest, Target.host(8), (lhs, rhs, None), threads)
    assert distance(lhs.astype(float) @ rhs, found, least=1.0) <= 2e-5


@pytest.mark.jit
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, 3e38])
def test_numbers_that_are_not_finite_stay_in_their_rows(bad: float) -> None:
    nest = StrassenNest(9, 64, 40, FLOAT32, 8)
    lhs, rhs, bias = random_operands(nest)
    clean = run(nest, Target.host(8), (lhs, rhs, bias))
    for row in (0, 3, 8):
        spoilt = lhs.copy()
        spoilt[row, 5] = bad
        found = run(nest, Target.host(8), (spoilt, rhs, bias))
        others = np.arange(9) != row
        assert np.isfinite(found[others]).all()
        assert distance(clean[others], found[others], least=1.0) <= 5e-6
        with np.errstate(all="ignore"):
            direct = spoilt[row] @ rhs
        np.testing.assert_array_equal(np.isfinite(found[row]), np.isfinite(direct))
        np.testing.assert_array_equal(np.isnan(found[row]), np.isnan(direct))


@pytest.mark.jit
def test_infinity_times_zero_is_not_a_number_and_other_products_keep_their_signs() -> None:
    nest = StrassenNest(16, 64, 64, FLOAT32, 8)
    lhs, rhs, _ = random_operands(nest)
    random = np.random.default_rng(0)
    rhs[random.random(rhs.shape) < 0.5] = 0
    lhs[np.arange(16), random.integers(0, 64, 16)] = np.inf
    found = run(nest, Target.host(8), (lhs, rhs, None))
    with np.errstate(all="ignore"):
        direct = lhs.astype(float) @ rhs
    np.testing.assert_array_equal(found, direct.astype(np.float32))


@pytest.mark.jit
@pytest.mark.parametrize("ratio", [1e-36, 1e-20, 1e-8, 1e-4, 1e4, 1e8, 1e20, 1e30])
def test_errors_are_those_of_each_row_and_column(ratio: float) -> None:
    nest = StrassenNest(24, 256, 64, FLOAT32, 16)
    lhs, rhs, _ = random_operands(nest)
    lhs[1::2] *= np.float32(ratio)
    rhs[:, ::3] *= np.float32(np.clip(1 / ratio, 1e-8, 1e8))
    found = run(nest, Target.host(8), (lhs, rhs, None))
    exact = lhs.astype(float) @ rhs.astype(float)
    sizes = np.outer(np.linalg.norm(lhs.astype(float), axis=1), np.linalg.norm(rhs, axis=0))
    assert np.max(np.abs(found - exact) / sizes) <= 1e-6


@pytest.mark.jit
def test_results_of_rows_and_columns_of_zeros_are_zero() -> None:
    nest = StrassenNest(8, 64, 32, FLOAT32, 16)
    lhs, rhs, _ = random_operands(nest)
    lhs[0], lhs[3], rhs[:, 1], rhs[:, 20] = 0, 0, 0, 0
    lhs[5], rhs[:, 9] = 1e-42, 1e-42
    found = run(nest, Target.host(8), (lhs, rhs, None))
    rows, columns = [0, 3, 5], [1, 9, 20]
    assert not found[rows].any()
    assert not found[:, columns].any()
    assert np.delete(np.delete(found, rows, 0), columns, 1).all()


@pytest.mark.jit
@pytest.mark.parametrize(
    ("activation", "rows"),
    [
        pytest.param(None, 10, marks=pytest.mark.slow),
        pytest.param(None, 11, marks=pytest.mark.slow),
        pytest.param(TanhInst, 10, marks=pytest.mark.slow),
        (TanhInst, 11),
    ],
)
def test_an_epilogue_is_applied_where_results_are_stored(
    rows: int, activation: type | None
) -> None:
    """The default run has an activation of odd rows; the slow run has all."""
    nest, target = StrassenNest(rows, 64, 36, FLOAT32, 16), Target.host(8)
    type = TensorType(FLOAT32, (rows, 36))
    operand, dest = Buffer("operand", type), Buffer("dest", type)
    made, sum = Register("made", type), Register("sum", type)
    head = replace(instruction_of(nest), dest=made)
    body = [head, AddInst(sum if activation else dest, made, operand)]
    if activation:
        body.append(activation(dest, sum))
    stack = StackInst.of(body)
    lhs, rhs, bias = random_operands(nest)
    added = np.random.default_rng(9).standard_normal((rows, 36), np.float32)
    found, whole = guarded((rows, 36), FLOAT32)
    arrays = {
        **dict(zip(kernel_operands(head)[1:], [lhs, *laid_out(nest, rhs, bias)], strict=True)),
        operand: added,
        dest: found,
    }
    kernel = RunningKernel(generate_stack(stack, target), target)
    kernel(*(arrays[each] for each in kernel_operands(stack)), threads=2)
    wanted = lhs.astype(float) @ rhs + bias + added
    if activation:
        wanted = np.tanh(wanted)
    assert guards_are_intact(whole)
    assert distance(wanted, found, least=1.0) <= 2e-5


@pytest.mark.jit
@pytest.mark.parametrize(
    ("rows", "lanes"),
    [
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((9, 4), (12, 8), (7, 16))),
        (300, 8),
    ],
)
def test_each_operand_has_its_own_distance_of_rows(rows: int, lanes: int) -> None:
    depth = 2 * (lanes + 3)
    nest, target = StrassenNest(rows, 64, depth, FLOAT32, lanes), Target.host(lanes)
    sizes = {"dest": (nest.depth, 3, 2), "lhs": (64, 5, 8), "operand": (nest.depth, 0, 9)}
    windows = ColumnWindows(rows, sizes)
    dest, lhs, operand = (windows.views[name] for name in sizes)
    made = Register("made", dest.type)
    head = replace(instruction_of(nest), dest=made, lhs=lhs)
    stack = StackInst.of([head, AddInst(dest, made, operand)])
    _, rhs, bias = random_operands(nest)
    wanted = windows.numbers("lhs").astype(float) @ rhs + bias + windows.numbers("operand")
    given = dict(zip(("rhs", "scales", "bias"), laid_out(nest, rhs, bias), strict=True))
    given |= windows.operands()
    kernel = RunningKernel(generate_stack(stack, target), target)
    kernel(*(given[each.name] for each in kernel_operands(stack)), threads=2)
    assert distance(wanted, windows.numbers("dest"), least=1.0) <= 2e-5
    windows.check_nothing_else_was_written("dest")


@pytest.mark.jit
@pytest.mark.parametrize(("rows", "inner", "depth"), [(0, 64, 32), (5, 64, 0)])
def test_nothing_is_computed_of_nothing(rows: int, inner: int, depth: int) -> None:
    nest = StrassenNest(rows, inner, depth, FLOAT32, 16)
    assert run(nest, Target.host(8), random_operands(nest), threads=2).size == 0


@pytest.mark.jit
def test_scales_may_be_the_bias_as_well() -> None:
    """A compiler that finds equal constants makes one of them."""
    nest, target = StrassenNest(6, 64, 32, FLOAT32, 16), Target.host(8)
    type = TensorType(FLOAT32, (6, 32))
    made, dest = Register("made", type), Buffer("dest", type)
    head = instruction_of(nest)
    head = replace(head, dest=made, bias=head.scales)
    stack = StackInst.of([head, instruction_for(ops.Relu)(dest, made)])
    lhs, rhs = random_operands(nest)[0], np.full((64, 32), 0.5, np.float32)
    arrays = [lhs, *laid_out(nest, rhs, None)]
    assert (arrays[2] == 1).all()
    found, whole = guarded((6, 32), FLOAT32)
    RunningKernel(generate_stack(stack, target), target)(found, *arrays)
    wanted = np.maximum(lhs.astype(float) @ rhs + 1, 0)
    assert guards_are_intact(whole)
    assert distance(wanted, found, least=1.0) <= 5e-6


@pytest.mark.parametrize("sizes", [(0, 64, 32), (5, 64, 0), (5, 0, 32), (1, 2, 2)])
def test_what_has_no_kernel_is_estimated_as_well(sizes: tuple[int, int, int]) -> None:
    cycles = strassen_cycles(StrassenNest(*sizes, FLOAT32, 16), Target.host(8), 2)
    assert 0 <= cycles < 1e4


def test_short_sums_are_refused() -> None:
    nest = StrassenNest(4, 14, 32, FLOAT32, 16)
    with pytest.raises(UnsupportedError, match="sums of 14 products .* takes 16 or more"):
        generate_kernel(instruction_of(nest), Target.host(8))
