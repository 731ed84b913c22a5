"""Sweeps of matrices that come at run time, against the operator's meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products import unpacked_matmul
from glow_nb.kernels.products.in_place import in_place_nest
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.matrix_layout import MatrixLayout
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.sweep_plan import (
    SweepPlan,
    suits_sweep,
    swept_vectors,
)
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register, View
from glow_nb.llir.stack import StackInst
from tests.in_turn import each_with_one_width, in_turn
from tests.targets import SMALL_CORE
from tests.unit.kernels.running import RunningKernel, at_a_forbidden_page

MACHINE = SMALL_CORE.machine
FLOAT32 = ElementKind.FLOAT32
KINDS = ProductKinds.of(FLOAT32)


def product_of(
    rows: int, inner: int, columns: int, *, row: int = 0, kind: ElementKind = FLOAT32
) -> UnpackedMatMulInst:
    """Return a product whose right rows lie *row* elements apart, by default without gaps."""
    row = row or columns
    base = Buffer("base", TensorType(kind, (inner, row)))
    return UnpackedMatMulInst(
        Buffer("dest", TensorType(kind, (rows, columns))),
        Buffer("lhs", TensorType(kind, (rows, inner))),
        View("rhs", TensorType(kind, (inner, columns)), base, steps=(row, 1)),
        None,
        lhs_order=(0, 1),
        rhs_order=(0, 1),
    )


def swept_kernel(instruction: UnpackedMatMulInst | StackInst, lanes: int) -> RunningKernel:
    """Return the kernel of *instruction* that sweeps, whether or not it is the fastest."""
    target = Target.host(lanes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacked_matmul, "suits_sweep", lambda *_: True)
        source = generate_kernel(instruction, target)
    assert source.family == "swept_product"
    return RunningKernel(source, target)


def small_numbers(shape: tuple[int, ...], kind: ElementKind = FLOAT32) -> Array:
    """Return numbers whose sums are exact in every order."""
    return np.random.default_rng(0).integers(0, 3, shape).astype(kind.dtype)


def placed(matrix: Array, row: int, offset: int) -> Iterator[int]:
    """Yield the address of a copy of *matrix*, *offset* elements after the beginning of a line.

    Its rows lie *row* elements apart, and all elements around it are NaN.
    """
    inner, columns = matrix.shape
    memory = np.full(inner * row + 64, np.nan, matrix.dtype)
    first = -memory.ctypes.data % 64 // matrix.itemsize + offset
    for number in range(inner):
        begin = first + number * row
        memory[begin : begin + columns] = matrix[number]
    yield memory[first:].ctypes.data


def call(
    kernel: RunningKernel, dest: Array, lhs: Array, rhs: int, *others: Array, threads: int = 1
) -> None:
    """Call *kernel* with the address of its right matrix, for each thread in turn."""
    pointers = [dest.ctypes.data, lhs.ctypes.data, rhs, *(other.ctypes.data for other in others)]
    scratch = np.full(kernel.source.scratch_bytes + 128, 0xA5, np.uint8)
    start = -scratch.ctypes.data % 64
    for thread in range(threads):
        kernel.call(*pointers, scratch.ctypes.data + start, thread, threads)
    assert (scratch[start + kernel.source.scratch_bytes :] == 0xA5).all(), "wrote past scratch"


SHAPES = [
    (1, 40, 256, 256),
    (1, 37, 240, 256),  # a window: columns after its own
    (2, 40, 272, 272),  # whole vectors, but no whole tiles
    (2, 9, 240, 240),
    (3, 8, 700, 704),
    (19, 20, 260, 272),  # several tiles of left rows
    (1, 41, 255, 255),  # rows begin at every place of a line
    (2, 23, 333, 340),
    (10, 20, 1000, 1024),  # several tiles, and rows of one place in the cache
]
"""Rows, inner, columns and the distance of rows; those without a comment are for the slow run."""


@pytest.mark.jit
@pytest.mark.parametrize(
    ("shape", "lanes"),
    each_with_one_width(SHAPES, only=[SHAPES[1], SHAPES[6]]),
)
def test_a_matrix_may_begin_anywhere(shape: tuple[int, int, int, int], lanes: int) -> None:
    rows, inner, columns, row = shape
    kernel = swept_kernel(product_of(rows, inner, columns, row=row), lanes)
    lhs, rhs = small_numbers((rows, inner)), small_numbers((inner, columns))
    for offset in range(16):
        for threads in (1, 3, 40):
            dest = np.full((rows, columns), 7, np.float32)
            for address in placed(rhs, row, offset):
                call(kernel, dest, lhs, address, threads=threads)
            np.testing.assert_array_equal(dest, lhs @ rhs)


@pytest.mark.jit
@pytest.mark.parametrize(("lanes", "columns"), in_turn(LANE_COUNTS, [256, 250, 255, 260]))
def test_nothing_is_read_behind_the_page_of_a_matrix(lanes: int, columns: int) -> None:
    """Of a window of 250 columns in rows of 256, the last six of its last row are not there."""
    row = 256 if columns == 250 else columns
    kernel = swept_kernel(product_of(1, 40, columns, row=row), lanes)
    lhs, rhs = small_numbers((1, 40)), small_numbers((40, columns))
    memory = at_a_forbidden_page((39 * row + columns) * 4).view(np.float32)
    for number in range(40):
        memory[number * row : number * row + columns] = rhs[number]
    dest = np.zeros((1, columns), np.float32)
    call(kernel, dest, lhs, memory.ctypes.data)
    np.testing.assert_array_equal(dest, lhs @ rhs)


@pytest.mark.jit
def test_no_rows_sweep_nothing() -> None:
    kernel = swept_kernel(product_of(0, 40, 512), 8)
    kernel(np.zeros((0, 512), np.float32), small_numbers((0, 40)), small_numbers((40, 512)))


@pytest.mark.jit
def test_matrices_of_a_batch_may_begin_at_different_places_of_a_line() -> None:
    distance, row, columns = 17 * 256 + 7, 256, 250
    base = Buffer("base", TensorType(FLOAT32, (2, distance)))
    instruction = UnpackedMatMulInst(
        Buffer("dest", TensorType(FLOAT32, (2, 1, columns))),
        Buffer("lhs", TensorType(FLOAT32, (2, 1, 17))),
        View("rhs", TensorType(FLOAT32, (2, 17, columns)), base, steps=(distance, row, 1)),
        None,
        lhs_order=(0, 1, 2),
        rhs_order=(0, 1, 2),
    )
    kernel = swept_kernel(instruction, 16)
    lhs, rhs = small_numbers((2, 1, 17)), small_numbers((2, 17, columns))
    memory = at_a_forbidden_page((distance + 16 * row + columns) * 4).view(np.float32)
    memory[:] = np.nan
    for image in range(2):
        for number in range(17):
            begin = image * distance + number * row
            memory[begin : begin + columns] = rhs[image, number]
    dest = np.zeros((2, 1, columns), np.float32)
    call(kernel, dest, lhs, memory.ctypes.data)
    np.testing.assert_array_equal(dest, lhs @ rhs)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"),
    each_with_one_width(
        [ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.BFLOAT16, ElementKind.INT32],
        slow=[ElementKind.FLOAT64, ElementKind.BFLOAT16],
    ),
)
def test_other_kinds_are_swept(kind: ElementKind, lanes: int) -> None:
    kernel = swept_kernel(product_of(2, 40, 512, kind=kind), lanes)
    lhs, rhs = small_numbers((2, 40), kind), small_numbers((40, 512), kind)
    dest = np.zeros((2, 512), kind.dtype)
    memory = np.zeros(rhs.size + 64, kind.dtype)
    for offset in (0, 1, 5):
        memory[offset : offset + rhs.size] = rhs.reshape(-1)
        call(kernel, dest, lhs, memory[offset:].ctypes.data)
        wanted = lhs.astype(np.float64) @ rhs.astype(np.float64)
        np.testing.assert_array_equal(dest.astype(np.float64), wanted)


@pytest.mark.jit
@pytest.mark.parametrize("columns", [512, 510])
def test_matrices_of_a_batch_and_transposed_rows_are_swept(columns: int) -> None:
    instruction = UnpackedMatMulInst(
        Buffer("dest", TensorType(FLOAT32, (3, 2, columns))),
        Buffer("lhs", TensorType(FLOAT32, (3, 21, 2))),
        Buffer("rhs", TensorType(FLOAT32, (3, 21, columns))),
        Buffer("bias", TensorType(FLOAT32, (columns,))),
        lhs_order=(0, 2, 1),
        rhs_order=(0, 1, 2),
    )
    kernel = swept_kernel(instruction, 8)
    lhs, rhs, bias = (small_numbers(s) for s in ((3, 21, 2), (3, 21, columns), (columns,)))
    dest = np.zeros((3, 2, columns), np.float32)
    kernel(dest, lhs, rhs, bias, threads=2)
    np.testing.assert_array_equal(dest, lhs.transpose(0, 2, 1) @ rhs + bias)


@pytest.mark.jit
def test_an_epilogue_may_write_over_what_it_reads() -> None:
    """Each result is stored once, whatever the place of the matrix."""
    plain = product_of(1, 40, 272)
    made = Register("made", plain.dest.type)
    head = UnpackedMatMulInst(made, plain.lhs, plain.rhs, None, lhs_order=(0, 1), rhs_order=(0, 1))
    add = instruction_for(ops.Add)(plain.dest, made, plain.dest)
    kernel = swept_kernel(StackInst.of([head, add]), 8)
    lhs, rhs, sums = small_numbers((1, 40)), small_numbers((40, 272)), small_numbers((1, 272))
    for offset in range(8):
        dest = sums.copy()
        for address in placed(rhs, 272, offset):
            call(kernel, dest, lhs, address, dest)
        np.testing.assert_array_equal(dest, lhs @ rhs + sums)


def test_few_rows_sweep_a_large_matrix_in_its_order() -> None:
    layout = MatrixLayout((), 4096, 1)
    product = UnpackedProduct(MatMulShape(1, 1, 4096, 4096), layout, layout)
    assert suits_sweep(product, KINDS, Target.host())
    plan = SweepPlan.of(product, KINDS, Target.host())
    assert plan.steps == MACHINE.swept_rows
    assert plan.is_aligned
    odd = replace(product, right=MatrixLayout((), 4097, 1))
    assert not SweepPlan.of(odd, KINDS, Target.host()).is_aligned


@pytest.mark.parametrize(
    ("inner", "depth", "width"),
    [
        (1024, 4096, MACHINE.far_swept_bytes),
        (64, 255, 384),  # near, and as many vectors of 8 as a tile has
        (100_000, 96, 384),  # far, but one tile holds whole rows
    ],
)
def test_few_lines_of_each_row_of_a_far_matrix_are_read_in_turn(
    inner: int, depth: int, width: int
) -> None:
    assert swept_vectors(MatMulShape(1, 1, inner, depth), FLOAT32, SMALL_CORE) * 32 == width


@pytest.mark.parametrize(
    ("lanes", "width"),
    [
        (4, MACHINE.far_swept_bytes),
        (8, MACHINE.far_swept_bytes),
        (16, MACHINE.far_swept_vectors * 64),
    ],
)
def test_wide_vectors_make_wider_tiles_of_a_far_matrix(lanes: int, width: int) -> None:
    target = replace(SMALL_CORE, lanes=lanes)
    vectors = swept_vectors(MatMulShape(1, 1, 1024, 4096), FLOAT32, target)
    assert vectors * lanes * 4 == width


def product_with_rows(rows: int, inner: int, columns: int) -> UnpackedProduct:
    """Return a product of *rows* rows with a whole right matrix, both in the order of rows."""
    left, right = MatrixLayout((), inner, 1), MatrixLayout((), columns, 1)
    return UnpackedProduct(MatMulShape(1, rows, inner, columns), left, right)


def test_fewer_rows_are_read_side_by_side_if_they_have_one_place_in_the_cache() -> None:
    apart, meeting = (
        SweepPlan.of(product_with_rows(8, 512, columns), KINDS, SMALL_CORE)
        for columns in (4000, 4096)
    )
    assert apart.cut.tiles == meeting.cut.tiles > 1
    assert (apart.steps, meeting.steps) == (2 * MACHINE.swept_rows, MACHINE.swept_rows)


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "is_swept", "is_copied"),
    [
        (12, 128, 2048, True, True),
        (12, 128, 2000, False, False),
        (12, 64, 1024, True, True),  # the second-level cache holds the matrix
        (12, 64, 1000, False, False),
        (32, 128, 2048, False, True),  # arithmetic would take too much longer
        (12, 16, 4096, False, True),  # sums would wait too often
    ],
)
def test_rows_of_one_place_in_the_cache_are_swept_or_copied(
    rows: int, inner: int, columns: int, is_swept: bool, is_copied: bool
) -> None:
    product = product_with_rows(rows, inner, columns)
    assert suits_sweep(product, KINDS, SMALL_CORE) == is_swept
    assert in_place_nest(product, KINDS, SMALL_CORE).right.is_copied == is_copied


def test_windows_that_one_tile_covers_are_copied_if_their_rows_have_one_place() -> None:
    near, far = (
        UnpackedProduct(
            MatMulShape(1, 8, 64, 24), MatrixLayout((), 64, 1), MatrixLayout((), row, 1)
        )
        for row in (1000, 1024)
    )
    assert not in_place_nest(near, KINDS, SMALL_CORE).right.is_copied
    assert in_place_nest(far, KINDS, SMALL_CORE).right.is_copied


def test_wide_tiles_read_rows_of_one_place_in_the_cache_where_they_lie() -> None:
    wide = replace(SMALL_CORE, lanes=16, features=f"{SMALL_CORE.features},+avx512f,+avx512vl")
    product = product_with_rows(12, 128, 2048)
    assert not suits_sweep(product, KINDS, wide)
    assert not in_place_nest(product, KINDS, wide).right.is_copied


def test_one_panel_is_not_swept() -> None:
    layout = MatrixLayout((), 64, 1)
    product = UnpackedProduct(MatMulShape(1, 1, 100_000, 64), layout, layout)
    assert not suits_sweep(product, KINDS, Target.of(ROWS["zen3"]))


def test_matrices_that_share_a_small_one_do_not_sweep_it() -> None:
    """Read by each of 64 left matrices, it stays in a cache: only what is there once counts."""
    target = Target.host()
    columns = target.l2_bytes // 4 // 4 // 64  # a quarter of the cache
    layout = MatrixLayout(((64, 64),), 64, 1)
    shared = MatrixLayout(((64, 0),), columns, 1)
    product = UnpackedProduct(MatMulShape(64, 1, 64, columns), layout, shared)
    assert not suits_sweep(product, KINDS, target)
    apart = replace(product, right=MatrixLayout(((64, 64 * columns),), columns, 1))
    assert suits_sweep(apart, KINDS, target)


def test_transposed_matrices_are_not_swept() -> None:
    left, right = MatrixLayout((), 4096, 1), MatrixLayout((), 1, 4096)
    product = UnpackedProduct(MatMulShape(1, 1, 4096, 4096), left, right)
    assert not suits_sweep(product, KINDS, Target.host())


def test_left_rows_that_cannot_be_packed_are_not_swept() -> None:
    right = MatrixLayout((), 4096, 1)
    product = UnpackedProduct(MatMulShape(1, 2, 4096, 4096), MatrixLayout((), 9000, 2), right)
    assert not suits_sweep(product, KINDS, Target.host())
    packable = replace(product, left=MatrixLayout((), 9000, 1))
    assert suits_sweep(packable, KINDS, Target.host())
