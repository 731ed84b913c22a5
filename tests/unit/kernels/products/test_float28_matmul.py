"""Kernels of products with floats of 28 bits against the meaning of their operator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.distance import distance
from glow_nb.errors import UnsupportedError
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Placeholder
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.float28 import (
    Float28MatMul,
    Float28MatMulInst,
    Float28Words,
)
from glow_nb.kernels.products.float28_matmul import LARGEST_TILE, STEPS
from glow_nb.kernels.stacks.generate_stack import generate_stack
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register, kernel_operands
from glow_nb.llir.stack import StackInst
from glow_nb.types import Array, ElementKind, TensorType
from tests.in_turn import in_turn
from tests.unit.kernels.column_windows import ColumnWindows
from tests.unit.kernels.operators.test_float28 import matrix_of, outliers_of
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

AddInst = instruction_for(ops.Add)
TanhInst = instruction_for(ops.Tanh)

FLOAT32 = ElementKind.FLOAT32
RANDOM = np.random.default_rng(0)


def packed(matrix: Array, block: int) -> list[Array]:
    """Return the constant operands of a kernel: words, least exponent, places and outliers."""
    outliers = outliers_of(matrix, block)
    node = Float28Words(Placeholder("w", TensorType.of(matrix)), block, outliers.least)
    least = np.array([outliers.least], np.int32)
    return [node.evaluate(matrix), least, outliers.places, outliers.numbers]


def instruction_of(
    rows: int, matrix: Array, block: int, *, has_bias: bool = True
) -> tuple[Float28MatMulInst, list[Array]]:
    """Return the instruction that multiplies *rows* rows, and its constant operands."""
    inner, depth = matrix.shape
    constants = packed(matrix, block)
    if has_bias:
        bias = RANDOM.standard_normal((1, depth), np.float32)[0]
        constants.append(np.pad(bias, (0, len(constants[0]) * block - depth)))
    buffers = [Buffer(f"c{number}", TensorType.of(a)) for number, a in enumerate(constants)]
    rhs, least, places, outliers = buffers[:4]
    instruction = Float28MatMulInst(
        Buffer("dest", TensorType(FLOAT32, (rows, depth))),
        Buffer("lhs", TensorType(FLOAT32, (rows, inner))),
        rhs,
        least,
        places,
        outliers,
        buffers[4] if has_bias else None,
        depth=depth,
        block=block,
    )
    return instruction, constants


def run(lhs: Array, matrix: Array, block: int, *, has_bias: bool = True, threads: int = 1) -> Array:
    """Return what a kernel makes of *lhs*, and check that it is what the operator means."""
    instruction, constants = instruction_of(len(lhs), matrix, block, has_bias=has_bias)
    target = Target.host()
    kernel = RunningKernel(generate_kernel(instruction, target), target)
    dest, whole = guarded((len(lhs), matrix.shape[1]), FLOAT32)
    kernel(dest, lhs, *constants, threads=threads)
    assert guards_are_intact(whole)
    node = instruction.as_node()
    assert isinstance(node, Float28MatMul)
    with np.errstate(all="ignore"):
        meant = node.evaluate(lhs, *constants, *([] if has_bias else [None]))
    for kind in (np.isnan, np.isposinf, np.isneginf):
        np.testing.assert_array_equal(kind(dest), kind(meant))
    is_finite = np.isfinite(meant)
    assert distance(meant[is_finite], dest[is_finite], least=1.0) <= 5e-6
    return dest


SIZES = {
    "one row": (1, 64, 70),
    "two rows": (2, 48, 33),
    "rows that are left over": (1, 45, 64),
    "fewer than eight": (2, 5, 21),
    "several chains": (1, 1000, 20),
    "several blocks of steps": (1, 16, 2 * STEPS * 64 + 5),
    "one column": (2, 24, 1),
    "many rows": (LARGEST_TILE, 40, 40),
}


def with_specials_in_turn() -> list[object]:
    """Return each size with and without special numbers: in the default run, with one of both."""
    cases: list[object] = []
    for specials in (0, 3):
        for case in in_turn(SIZES, LANE_COUNTS, slow=["one row", "two rows"]):
            name, block = case.values
            is_quick = list(SIZES).index(name) % 2 == (specials == 0)
            marks = case.marks if is_quick else pytest.mark.slow
            cases.append(pytest.param(specials, name, block, marks=marks))
    return cases


@pytest.mark.jit
@pytest.mark.parametrize(("specials", "name", "block"), with_specials_in_turn())
def test_products_are_what_the_operator_means(name: str, block: int, specials: int) -> None:
    """The slow run also has one and two rows with many columns; others have one and two rows."""
    rows, inner, depth = SIZES[name]
    lhs = RANDOM.standard_normal((rows, inner), np.float32)
    matrix = matrix_of(inner, depth, specials)
    threads, has_bias = 1 + len(name) % 3, len(name) % 2 == 0
    found = run(lhs, matrix, block, has_bias=has_bias, threads=threads)
    if not has_bias and not specials:
        assert distance(lhs.astype(float) @ matrix, found, least=1e-3) <= 2e-5


@pytest.mark.jit
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
def test_numbers_that_are_not_finite_do_not_meet_the_zeros_of_outliers(bad: float) -> None:
    """The product of an infinity with such a zero is NaN, with the outlier it is an infinity."""
    matrix = matrix_of(21, 40)
    matrix[3], matrix[4, ::2] = 0, -1e9
    for row in (3, 4, 5, 20):
        lhs = RANDOM.standard_normal((2, 21), np.float32)
        lhs[1, row] = bad
        run(lhs, matrix, 8)


@pytest.mark.jit
def test_a_product_with_an_outlier_is_exact() -> None:
    matrix = matrix_of(32, 40)
    matrix[5, 3], matrix[6, 4], matrix[7, 39], matrix[8], matrix[9] = (
        3e-20,
        12345.678,
        -0.0,
        0,
        1e-9,
    )
    for row in range(32):
        lhs = np.zeros((2, 32), np.float32)
        lhs[:, row] = 1, 1e20
        found = run(lhs, matrix, 16, has_bias=False)
        np.testing.assert_array_equal(found, lhs[:, row, np.newaxis] * matrix[row])


@pytest.mark.jit
@pytest.mark.parametrize(("rows", "block"), [pytest.param(1, 16, marks=pytest.mark.slow), (2, 4)])
def test_each_operand_has_its_own_distance_of_rows(rows: int, block: int) -> None:
    """The slow run also has one row, which has no distance to another."""
    matrix, target = matrix_of(29, 2 * block + 3, 2), Target.host()
    depth = matrix.shape[1]
    head, constants = instruction_of(rows, matrix, block)
    sizes = {"dest": (depth, 3, 2), "lhs": (29, 5, 8), "operand": (depth, 0, 9)}
    windows = ColumnWindows(rows, sizes)
    dest, lhs, operand = (windows.views[name] for name in sizes)
    made, total = Register("made", dest.type), Register("total", dest.type)
    head = replace(head, dest=made, lhs=lhs)
    stack = StackInst.of([head, AddInst(total, made, operand), TanhInst(dest, total)])
    with np.errstate(all="ignore"):
        product = windows.numbers("lhs").astype(float) @ matrix + constants[4][:depth]
        wanted = np.tanh(product + windows.numbers("operand"))
    given = {f"c{number}": array for number, array in enumerate(constants)} | windows.operands()
    kernel = RunningKernel(generate_stack(stack, target), target)
    kernel(*(given[each.name] for each in kernel_operands(stack)), threads=2)
    np.testing.assert_allclose(windows.numbers("dest"), wanted, atol=2e-5)
    windows.check_nothing_else_was_written("dest")


@pytest.mark.jit
@pytest.mark.parametrize("bad", [0, np.inf])
def test_wrong_places_are_not_read(bad: float) -> None:
    matrix = matrix_of(17, 9, 40)
    instruction, (words, least, places, outliers, bias) = instruction_of(1, matrix, 8)
    most = places.shape[1]
    assert most > 1
    kernel = RunningKernel(generate_kernel(instruction, Target.host()), Target.host())
    lhs, node = np.ones((1, 17), np.float32), instruction.as_node()
    lhs[0, 3] = bad
    assert isinstance(node, Float28MatMul)
    for given in ([2**31 - 1, -(2**31)], [5, 5, 6], [7, 3], [-5, 1], [16 * 8, 2]):
        places[:] = (given * most)[:most]
        dest, whole = guarded((1, 9), FLOAT32)
        kernel(dest, lhs, words, least, places, outliers, bias)
        assert guards_are_intact(whole)
        meant = node.evaluate(lhs, words, least, places, outliers, bias)
        np.testing.assert_allclose(dest, meant, rtol=1e-6, atol=1e-6)


@pytest.mark.jit
@pytest.mark.parametrize(("rows", "inner", "depth"), [(0, 16, 8), (2, 16, 0), (2, 0, 8)])
def test_nothing_is_computed_of_nothing(rows: int, inner: int, depth: int) -> None:
    lhs = np.ones((rows, inner), np.float32)
    assert run(lhs, matrix_of(inner, depth), 4, threads=2).shape == (rows, depth)


def test_other_panels_and_many_rows_are_refused() -> None:
    instruction, _ = instruction_of(1, matrix_of(16, 9), 12)
    with pytest.raises(UnsupportedError, match="panels of 12 columns"):
        generate_kernel(instruction, Target.host())
    instruction, _ = instruction_of(9, matrix_of(16, 9), 8)
    with pytest.raises(
        UnsupportedError, match=f"{LARGEST_TILE + 1} left rows.* at most {LARGEST_TILE}"
    ):
        generate_kernel(instruction, Target.host())
