"""Results that no cache holds: short tiles ask for them ahead, in blocks of few rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glow_nb.base.dot_instruction import SINGLE
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products import product_plan
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops, block_pixels
from glow_nb.kernels.products.operand_cost import suits_in_place
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import plan_loops, tiles_ahead
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target
from tests.in_turn import marked_rows
from tests.targets import SMALL_CORE
from tests.unit.kernels.cases import instruction_of
from tests.unit.kernels.plain_python import run_text
from tests.unit.kernels.products.test_matmul import packed
from tests.unit.kernels.running import RunningKernel, guarded, guards_are_intact

FLOAT32 = ElementKind.FLOAT32
BLOCK, LINE = 16, 16
"""Columns of a panel, and elements of a cache line."""
MACHINE = SMALL_CORE.machine
NEAR_ROWS, COPIED_NEAR_ROWS = MACHINE.tlb_block_rows, MACHINE.tlb_copied_block_rows
MOST_AHEAD = MACHINE.max_prefetch_tiles
NO_CACHE = replace(Target.host(), l2_bytes=1 << 12, l3_bytes=1 << 10)


def planned(
    rows: int, inner: int, columns: int, *, is_copied: bool = False
) -> tuple[int, int, Loops]:
    """Return the rows of a block, by how many tiles its results are asked for ahead, the plan."""
    shape = ConvolutionShape(1, inner, columns, (rows,), (1,), (1,), (0, 0), (1,))
    nest = ProductNest.packed(shape, ProductKinds.of(FLOAT32), BLOCK)
    nest = replace(nest, right=replace(nest.right, is_copied=is_copied))
    plan = plan_loops(nest, SMALL_CORE)
    return block_pixels(shape, plan), tiles_ahead(nest, plan, SMALL_CORE, 4 * rows * columns), plan


def test_blocks_of_short_tiles_have_few_rows() -> None:
    rows, ahead, plan = planned(4096, 8, 1024)
    assert NEAR_ROWS <= rows < NEAR_ROWS + plan.cut.rows
    machine, vectors = SMALL_CORE.machine, plan.cut.rows * plan.columns.vectors
    tile_cycles = 8 * vectors / machine.fma_per_cycle
    latency = machine.dram_latency_cycles
    assert latency - tile_cycles < tile_cycles * ahead <= latency
    assert planned(4096, 1, 1024)[1] == MOST_AHEAD
    rows, _, plan = planned(4096, 8, 1024, is_copied=True)
    assert COPIED_NEAR_ROWS <= rows < COPIED_NEAR_ROWS + plan.cut.rows


def test_blocks_of_the_shortest_tiles_have_few_rows_where_the_last_cache_holds_the_results() -> (
    None
):
    rows, ahead, plan = planned(4096, 4, 256)
    assert NEAR_ROWS <= rows < NEAR_ROWS + plan.cut.rows
    assert ahead == 0


def test_rows_of_pixels_that_are_far_apart_are_not_copied_again_and_again() -> None:
    shape = ConvolutionShape(1, 8, 64, (48000,), (2,), (1,), (512, 0), (512,))
    nest = ProductNest.packed(shape, ProductKinds.of(FLOAT32), BLOCK)
    target = replace(SMALL_CORE, l2_bytes=1 << 24, l3_bytes=1 << 10)
    pixels = block_pixels(shape, plan_loops(nest, target))
    assert 4 * 512 * 8 / 64 <= pixels < 300  # a block copies 512 pixels of the one before


def test_sums_of_integers_are_in_blocks_of_any_size() -> None:
    shape = ConvolutionShape(1, 4, 1024, (4096,), (1,), (1,), (0, 0), (1,))
    kinds = ProductKinds(ElementKind.INT16, ElementKind.INT16, ElementKind.INT32, SINGLE)
    nest = ProductNest.packed(shape, kinds, BLOCK)
    assert block_pixels(shape, plan_loops(nest, SMALL_CORE)) > COPIED_NEAR_ROWS


@pytest.mark.parametrize(("rows", "is_copied_before"), [(40, False), (787, True)])
def test_far_results_have_their_transposed_matrix_copied_before(
    rows: int, is_copied_before: bool
) -> None:
    left, right = (TensorType(FLOAT32, shape) for shape in ((rows, 2), (1024, 2)))
    product = UnpackedProduct.of_types(left, right, (0, 1), (1, 0))
    kinds = ProductKinds.of(FLOAT32, FLOAT32)
    assert suits_in_place(product, kinds, SMALL_CORE) is not is_copied_before


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(4096, 8, 256), (4096, 128, 1024), (4096, 1024, 4096)],
    ids=["results in a cache", "long tiles", "sums in blocks"],
)
def test_other_products_are_as_they_were(
    rows: int, inner: int, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels, ahead, plan = planned(rows, inner, columns)
    assert ahead == 0
    assert pixels > 32 + 6
    monkeypatch.setattr(product_plan, "is_written_far", lambda *_: False)
    assert planned(rows, inner, columns)[2] == plan


def written_and_late(
    rows: int, columns: int, inner: int, thread: int = 0, threads: int = 1
) -> tuple[list[set[int]], set[int]]:
    """Return the lines that each tile writes, in order, and those for which nobody has asked."""
    fetched, late, written = set[int](), set[int](), list[set[int]]()

    def lines(first: int, gap: int, number: int) -> set[int]:
        return {(first + row * gap) // LINE for row in range(number)}

    def fetch(pointer: str, *place: int) -> None:
        if pointer == "dest":
            fetched.update(lines(*place))

    def store(pointer: str, first: int, gap: int, rows_of_tile: int) -> None:
        if pointer == "dest":
            written.append(lines(first, gap, rows_of_tile))
            late.update(written[-1] - fetched)

    shapes = (rows, inner), (columns // BLOCK, inner, BLOCK)
    types = [TensorType(FLOAT32, shape) for shape in shapes]
    instruction = instruction_of(PackedMatMulInst, types, depth=columns, block=BLOCK)
    target = replace(SMALL_CORE, l2_bytes=1 << 16, l3_bytes=1 << 10)
    text = generate_kernel(instruction, target).text
    calls = {
        "tile_prefetch": fetch,
        "tile_store": store,
        "tile_fill": lambda *arguments: arguments[2],  # a tile is its number of rows
        "tile_dot": lambda tile, *_: tile,
    }
    run_text(text, ("dest", "lhs", "rhs", "scratch"), calls, thread, threads)
    if threads == 1:
        assert set.union(*written) == set(range(rows * columns // LINE))
    return written, late


@pytest.mark.parametrize("columns", [32, 80, 800], ids=["blocks", "panels and blocks", "panels"])
def test_tiles_ask_for_what_later_tiles_write(columns: int) -> None:
    """These are tiles of later panels or blocks; nobody has asked for what the first ones write."""
    written, late = written_and_late(600, columns, inner=2)
    assert late == set.union(*written[:MOST_AHEAD])


def test_threads_that_share_panels_ask_for_their_own() -> None:
    rows, columns = 12, 1600  # two tiles: threads share panels
    written, late = written_and_late(rows, columns, 2, thread=1, threads=3)
    panels = columns // BLOCK
    own = range(panels // 3, 2 * panels // 3)
    assert set.union(*written) == {row * panels + panel for row in range(rows) for panel in own}
    assert late == set.union(*written[:MOST_AHEAD])


def test_longer_tiles_ask_for_what_the_next_rows_of_the_panel_write() -> None:
    columns = 80
    _, late = written_and_late(600, columns, inner=64)
    assert late == set(range(6 * columns // LINE))


@pytest.mark.jit
@pytest.mark.parametrize(
    ("rows", "inner", "columns"), marked_rows([(101, 3, 83), (300, 7, 40)], only=[(300, 7, 40)])
)
@pytest.mark.parametrize("threads", [1, 3])
def test_results_are_right_without_caches(
    rows: int, inner: int, columns: int, threads: int
) -> None:
    random = np.random.default_rng(0)
    lhs = random.integers(-3, 4, (rows, inner)).astype(np.float32)
    rhs = random.integers(-3, 4, (inner, columns)).astype(np.float32)
    panels = packed(rhs[None], BLOCK)[0]
    types = [TensorType(FLOAT32, array.shape) for array in (lhs, panels)]
    constant = instruction_of(PackedMatMulInst, types, depth=columns, block=BLOCK)
    types = [TensorType(FLOAT32, array.shape) for array in (lhs, rhs)]
    orders = {"lhs_order": [0, 1], "rhs_order": [0, 1]}
    at_run_time = instruction_of(UnpackedMatMulInst, types, **orders)
    for instruction, right in ((constant, panels), (at_run_time, rhs)):
        kernel = RunningKernel(generate_kernel(instruction, NO_CACHE), NO_CACHE)
        dest, memory = guarded((rows, columns), FLOAT32)
        kernel(dest, lhs, right, threads=threads)
        np.testing.assert_array_equal(dest, lhs @ rhs)
        assert guards_are_intact(memory)
