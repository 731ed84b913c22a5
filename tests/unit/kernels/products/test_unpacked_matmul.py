"""Kernels of products over operands that lie as they came, against the operator's meaning."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_nb.base.errors import UnsupportedError, VerifyError
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir import ops
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.machine.rows import ZEN3, ZEN4
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products import product_plan, unpacked_matmul
from glow_nb.kernels.products.caches import LONGEST_CHAIN
from glow_nb.kernels.products.in_place import in_place_nest
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.matrix_layout import MatrixLayout
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.product_plan import plan_loops
from glow_nb.kernels.products.row_products import reads_left_once, tile_of
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.llir.instructions.derived import instruction_for
from glow_nb.llir.program import Buffer, Register, View
from glow_nb.llir.stack import StackInst
from tests.in_turn import each_with_one_width, in_turn, marked
from tests.unit.kernels.cases import check, instruction_of, run
from tests.unit.kernels.products.test_product_loops import order_of
from tests.unit.kernels.running import RunningKernel

FLOAT32 = ElementKind.FLOAT32
Shape = tuple[int, ...]
Case = tuple[Shape, Shape, Shape, Shape]
"""Shapes and orders of both operands."""

TRANSPOSED: dict[str, Case] = {
    "one row": ((1, 100), (77, 100), (0, 1), (1, 0)),
    "few rows": ((5, 33), (9, 33), (0, 1), (1, 0)),
    "one column": ((6, 20), (1, 20), (0, 1), (1, 0)),
    "one product": ((3, 1), (4, 1), (0, 1), (1, 0)),
    "many rows": ((21, 40), (11, 40), (0, 1), (1, 0)),
    "many rows, an odd sum": ((21, 37), (70, 37), (0, 1), (1, 0)),
    "batch": ((3, 2, 18), (3, 7, 18), (0, 1, 2), (0, 2, 1)),
    "shared matrix": ((3, 2, 18), (7, 18), (0, 1, 2), (1, 0)),
    "shared matrix, heads": ((2, 5, 3, 18), (7, 18), (0, 2, 1, 3), (1, 0)),
    "heads": ((2, 3, 4, 18), (2, 7, 4, 18), (0, 2, 1, 3), (0, 2, 3, 1)),
    "no rows": ((0, 5), (4, 5), (0, 1), (1, 0)),
    "no columns": ((3, 5), (0, 5), (0, 1), (1, 0)),
    "empty sum": ((3, 0), (5, 0), (0, 1), (1, 0)),
}
"""Rows times rows: the last axis of both operands is that of the sum."""


ROW_MAJOR: dict[str, Case] = {
    "one row": ((1, 100), (100, 77), (0, 1), (0, 1)),
    "few rows": ((5, 33), (33, 19), (0, 1), (0, 1)),
    "one column": ((6, 20), (20, 1), (0, 1), (0, 1)),
    "many rows": ((41, 40), (40, 53), (0, 1), (0, 1)),
    "many rows, whole panels": ((41, 70), (70, 64), (0, 1), (0, 1)),
    "left transposed": ((40, 21), (40, 37), (1, 0), (0, 1)),
    "batch": ((3, 2, 18), (3, 18, 7), (0, 1, 2), (0, 1, 2)),
    "batch of one": ((1, 9, 18), (1, 18, 70), (0, 1, 2), (0, 1, 2)),
    "shared matrix": ((3, 2, 18), (18, 40), (0, 1, 2), (0, 1)),
    "heads": ((1, 3, 4, 18), (1, 18, 4, 20), (0, 2, 1, 3), (0, 2, 1, 3)),
    "no rows": ((0, 5), (5, 4), (0, 1), (0, 1)),
    "no columns": ((3, 5), (5, 0), (0, 1), (0, 1)),
    "empty sum": ((3, 0), (0, 5), (0, 1), (0, 1)),
}
"""The columns of the right matrix are neighbours."""


def with_small_caches(lanes: int) -> Target:
    """Return a target on which sums are cut into blocks, and few rows sweep the right matrix."""
    return replace(Target.host(lanes), l1_bytes=2048, l2_bytes=4096, l3_bytes=65536)


CACHES = (Target.host, with_small_caches)

WIDE_TARGET = Target(
    "x86_64-unknown-linux-gnu", "generic", "+avx,+avx2,+fma,+avx512f,+avx512vl", 16
)


def product_of(
    case: Case, kind: ElementKind = FLOAT32, *, has_bias: bool = False
) -> UnpackedMatMulInst:
    lhs, rhs, lhs_order, rhs_order = case
    shapes = [lhs, rhs, *([(rhs[rhs_order[-1]],)] if has_bias else [])]
    types = [TensorType(kind, shape) for shape in shapes]
    made = instruction_of(UnpackedMatMulInst, types, lhs_order=lhs_order, rhs_order=rhs_order)
    assert isinstance(made, UnpackedMatMulInst)
    return made


def whole_numbers(*shapes: Shape, kind: ElementKind = FLOAT32) -> list[Array]:
    """Return operands whose sums are exact in every order."""
    random = np.random.default_rng(0)
    least = -2 if kind.is_signed else 0
    return [random.integers(least, 3, shape).astype(kind.dtype) for shape in shapes]


def check_case(name: str, case: Case, target_of: Callable[[int], Target]) -> None:
    """Compare the kernel of *case* with its meaning; the *name* decides on lanes and bias."""
    target = target_of(LANE_COUNTS[len(name) % len(LANE_COUNTS)])
    instruction = product_of(case, has_bias=len(name) % 2 == 0)
    operands = [instruction.lhs, instruction.rhs, instruction.bias]
    arrays = whole_numbers(*(b.type.shape for b in operands if b is not None))
    check(instruction, target, operands=arrays, ulp=0)


@pytest.mark.jit
@pytest.mark.parametrize(
    "name",
    marked(
        TRANSPOSED, slow=["few rows", "heads", "many rows", "one product", "one column", "batch"]
    ),
)
def test_rows_times_rows(name: str) -> None:
    """The slow run also has single products, batches, and heads that both operands have."""
    check_case(name, TRANSPOSED[name], Target.host)


def test_threads_share_right_rows_unless_there_are_many_tiles_of_left_rows() -> None:
    for target in map(Target.of, (ZEN3, ZEN4)):
        for rows, depth, is_left_read_once in ((14, 13, False), (100, 99, False), (300, 9, True)):
            shape = MatMulShape(1, rows, 64, depth)
            assert reads_left_once(shape, *tile_of(rows, target), target) == is_left_read_once


@pytest.mark.jit
@pytest.mark.parametrize(("columns", "has_bias"), [(7, True), (8, False), (1, True)])
def test_many_rows_times_few_are_read_once(
    columns: int, has_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads share the tiles of left rows, and each is multiplied by all right rows."""
    monkeypatch.setattr(unpacked_matmul, "multiplies_rows", lambda *_: True)
    case = (2, 100, 18), (2, columns, 18), (0, 1, 2), (0, 2, 1)
    instruction = product_of(case, has_bias=has_bias)
    text = generate_kernel(instruction, Target.of(ZEN3)).text
    assert text.index("for tile in range(max(tile_begin, 0)") < text.index("channel = ")
    target = replace(Target.host(8), l2_bytes=512 << 10)
    operands = [instruction.lhs, instruction.rhs, instruction.bias]
    arrays = whole_numbers(*(b.type.shape for b in operands if b is not None))
    check(instruction, target, operands=arrays, ulp=0)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "target_of"),
    in_turn(
        [name for name in TRANSPOSED if "heads" not in name],
        CACHES,
        slow=["one row", "many rows, an odd sum"],
    ),
)
def test_a_transposed_matrix_is_transposed_while_it_is_copied(
    name: str, target_of: Callable[[int], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow run also has one row, and many of an odd sum, which other kinds have below."""
    monkeypatch.setattr(unpacked_matmul, "multiplies_rows", lambda *_: False)
    check_case(name, TRANSPOSED[name], target_of)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "panels_inside"),
    in_turn(
        [ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.INT32],
        [False, True],
        only=[ElementKind.FLOAT16],
    ),
)
def test_other_kinds_are_transposed(
    kind: ElementKind, panels_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow run also has float64, a second kind of floats, and integers."""
    monkeypatch.setattr(unpacked_matmul, "multiplies_rows", lambda *_: False)
    monkeypatch.setattr(product_plan, "traffic_cycles", order_of(panels_inside))
    target = with_small_caches(LANE_COUNTS[len(kind.value) % len(LANE_COUNTS)])
    instruction = product_of(TRANSPOSED["many rows, an odd sum"], kind)
    assert "tile_transpose(" in generate_kernel(instruction, target).text
    check(instruction, target, operands=whole_numbers((21, 37), (70, 37), kind=kind), ulp=0)


def test_many_rows_copy_panels_of_a_large_matrix() -> None:
    target, layout = Target.host(8), MatrixLayout((), 2048, 1)
    product = UnpackedProduct(MatMulShape(1, 100, 2048, 2048), layout, layout)
    nest = in_place_nest(product, ProductKinds.of(FLOAT32), target)
    assert nest.right.is_copied
    plan = plan_loops(nest, target)
    assert (
        plan.sum.block_products * nest.block * 4
        <= target.machine.l1_written_share * target.l1_bytes
    )


@settings(max_examples=300)
@given(
    st.integers(1, 3000), st.integers(2, 3000), st.integers(2, 3000), st.sampled_from(LANE_COUNTS)
)
def test_squares_of_a_transposed_matrix_are_transposed_whole(
    rows: int, inner: int, depth: int, lanes: int
) -> None:
    """An inner block of another size would leave rows over that are copied by elements."""
    target = Target.host(lanes)
    layouts = (MatrixLayout((), inner, 1), MatrixLayout((), 1, inner))
    product = UnpackedProduct(MatMulShape(1, rows, inner, depth), *layouts)
    nest = in_place_nest(product, ProductKinds.of(FLOAT32), target)
    plan = plan_loops(nest, target)
    assert nest.right.is_copied
    assert not plan.is_cut or plan.sum.dot % lanes == 0
    assert plan.sum.block_products <= LONGEST_CHAIN
    assert (plan.sum.blocks - 1) * plan.sum.dot < inner <= plan.sum.blocks * plan.sum.dot


@pytest.mark.parametrize(("rows", "is_copied"), [(100, False), (2000, True)])
def test_wide_tiles_read_a_large_matrix_where_it_lies(rows: int, is_copied: bool) -> None:
    layout = MatrixLayout((), 1536, 1)
    product = UnpackedProduct(MatMulShape(1, rows, 1536, 1536), layout, layout)
    nest = in_place_nest(product, ProductKinds.of(FLOAT32), WIDE_TARGET)
    assert nest.block * 4 >= WIDE_TARGET.machine.wide_tile_bytes
    assert nest.right.is_copied == is_copied


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "target_of"),
    in_turn(ROW_MAJOR, CACHES[::-1], slow=["batch of one", "many rows", "one row"]),
)
def test_a_row_major_matrix_is_not_laid_out_before(
    name: str, target_of: Callable[[int], Target]
) -> None:
    """The slow run also has one row and one batch; others have few rows and several batches."""
    check_case(name, ROW_MAJOR[name], target_of)


@pytest.mark.jit
@pytest.mark.parametrize(
    "kind",
    marked(
        [ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.INT32], slow=[ElementKind.FLOAT64]
    ),
)
def test_other_kinds_are_read_in_place(kind: ElementKind) -> None:
    """The slow run also has float64, a second kind of floats."""
    instruction = product_of(ROW_MAJOR["few rows"], kind, has_bias=True)
    arrays = whole_numbers((5, 33), (33, 19), (19,), kind=kind)
    check(instruction, with_small_caches(8), operands=arrays, ulp=0)


def test_orders_that_no_kernel_reads_are_refused() -> None:
    instruction = product_of(((2, 3, 4, 5), (2, 5, 3, 6), (0, 1, 2, 3), (0, 2, 1, 3)))
    with pytest.raises(UnsupportedError, match="transpose them before"):
        generate_kernel(instruction, Target.host(8))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("kind", "lanes"),
    each_with_one_width(
        [ElementKind.FLOAT64, ElementKind.FLOAT16, ElementKind.BFLOAT16, ElementKind.INT32]
    ),
)
def test_other_kinds_share_the_generator(kind: ElementKind, lanes: int) -> None:
    instruction = product_of(TRANSPOSED["few rows"], kind, has_bias=True)
    arrays = whole_numbers((5, 33), (9, 33), (9,), kind=kind)
    check(instruction, Target.host(lanes), operands=arrays, ulp=0)


@pytest.mark.jit
def test_operands_and_result_may_be_windows_with_gaps() -> None:
    plain = product_of(TRANSPOSED["few rows"])
    bases = [Buffer(name, TensorType(FLOAT32, (9, 50))) for name in ("dest", "lhs", "rhs")]
    dest, lhs, rhs = (
        View(base.name, buffer.type, base, steps=(50, 1))
        for base, buffer in zip(bases, (plain.dest, plain.lhs, plain.rhs), strict=True)
    )
    windowed = UnpackedMatMulInst(dest, lhs, rhs, None, lhs_order=(0, 1), rhs_order=(1, 0))
    left, right = whole_numbers((9, 50), (9, 50))
    result = np.full((9, 50), 7, np.float32)
    target = Target.host()
    RunningKernel(generate_kernel(windowed, target), target)(result, left, right)
    wanted = np.full((9, 50), 7, np.float32)
    wanted[:5, :9] = left[:5, :33] @ right[:, :33].T
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.jit
@pytest.mark.parametrize(("lhs", "order"), [((6, 20), (0, 1)), ((6, 1), (1, 0))])
def test_the_only_column_may_have_gaps(lhs: Shape, order: Shape) -> None:
    plain = product_of((lhs, (20, 1), (0, 1), order))
    base = Buffer("rhs", TensorType(FLOAT32, (20, 2)))
    rhs = View("window", plain.rhs.type, base, steps=(2, 2))
    windowed = UnpackedMatMulInst(
        plain.dest, plain.lhs, rhs, None, lhs_order=(0, 1), rhs_order=order
    )
    left, right = whole_numbers(lhs, (20, 2))
    result, target = np.zeros(plain.dest.type.shape, np.float32), Target.host()
    RunningKernel(generate_kernel(windowed, target), target)(result, left, right)
    np.testing.assert_array_equal(result, left @ right[:, :1].transpose(order))


@pytest.mark.jit
def test_an_epilogue_is_applied_to_the_sums() -> None:
    plain = product_of(TRANSPOSED["many rows"])
    made = Register("made", plain.dest.type)
    head = UnpackedMatMulInst(made, plain.lhs, plain.rhs, None, lhs_order=(0, 1), rhs_order=(1, 0))
    stack = StackInst.of([head, instruction_for(ops.Relu)(plain.dest, made)])
    left, right = whole_numbers((21, 40), (11, 40))
    (found,) = run(stack, [left, right], Target.host(8))
    np.testing.assert_array_equal(found, np.maximum(left @ right.T, 0))


@pytest.mark.parametrize("machine", [ZEN3, ZEN4])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 13])
def test_tiles_fit_the_registers(rows: int, machine: Machine) -> None:
    target = Target.of(machine)
    cut, columns = tile_of(rows, target)
    assert cut.rows * columns + min(cut.rows, columns) + 1 <= target.vector_registers
    assert cut.large * cut.rows + cut.small * (cut.rows - 1) == rows


def test_matrices_of_heads_are_found_by_their_number() -> None:
    buffer = Buffer("x", TensorType(FLOAT32, (2, 5, 3, 7)))
    layout = MatrixLayout.of(buffer.type.shape, buffer.strides, (0, 2, 1, 3))
    numbers = np.arange(2 * 5 * 3 * 7).reshape(2, 5, 3, 7).transpose(0, 2, 1, 3).reshape(6, 5, 7)
    starts = [eval(layout.start("n"), {"n": n}) for n in range(6)]
    assert starts == [int(matrix[0, 0]) for matrix in numbers]
    assert (layout.row, layout.column) == (21, 1)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (((2, 3), (3, 4), (0, 1), (1, 0)), "operands do not fit.*<2 x 3>.*<4 x 3>"),
        (((2, 3), (3, 4), (0, 0), (0, 1)), "lhs_order .0, 0.*holds each of its axes once"),
        (((5, 2, 3), (4, 3, 2), (0, 1, 2), (0, 1, 2)), "operands do not fit"),
    ],
)
def test_operands_that_do_not_fit_are_refused(case: Case, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        product_of(case)
