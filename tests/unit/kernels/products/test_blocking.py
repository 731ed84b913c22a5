"""The choice of tiles and panels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.kernels.machine.rows import ZEN3
from glow_nb.kernels.products.blocking import (
    Columns,
    Cut,
    narrowest_block,
    rank_blocks,
    row_limit,
    step_cycles,
)
from glow_nb.kernels.target import LANE_COUNTS, Target

COUNTS = st.integers(1, 5000)
AVX2, AVX512 = "+avx,+avx2,+fma", "+avx,+avx2,+fma,+avx512f,+avx512vl"


def processor(lanes: int, features: str = AVX2) -> Target:
    return Target("x86_64-unknown-linux-gnu", "x86-64", features, lanes)


@given(pixels=COUNTS, limit=st.integers(1, 28))
def test_tiles_cover_a_line_exactly(pixels: int, limit: int) -> None:
    cut = Cut.balanced(pixels, limit)
    covered = [rows for begin, end, rows in cut.runs for _ in range(begin, end)]
    assert sum(covered) == pixels
    assert len(covered) == cut.tiles == -(-pixels // limit)
    assert max(covered) <= limit
    assert max(covered) - min(covered) <= 1
    starts = [eval(cut.start("tile"), {"tile": tile, "min": min}) for tile in range(cut.tiles)]
    assert starts == [sum(covered[:tile]) for tile in range(cut.tiles)]


@given(depth=COUNTS, vectors=st.integers(1, 12), lanes=st.sampled_from(LANE_COUNTS))
def test_panels_cover_all_columns(depth: int, vectors: int, lanes: int) -> None:
    columns = Columns(depth, vectors * lanes, lanes)
    assert columns.full * columns.block + columns.tail == depth
    assert columns.panels == columns.full + (columns.tail > 0)
    assert (columns.tail_vectors - 1) * lanes < columns.tail <= columns.tail_vectors * lanes or (
        columns.tail == columns.tail_vectors == 0
    )


def test_panels_are_made_of_whole_vectors() -> None:
    with pytest.raises(UnsupportedError, match="panels of 12 columns: no kernel .* 8 lanes; pack"):
        Columns(24, 12, 8)


def test_dense_panels_end_within_a_vector() -> None:
    columns = Columns(24, 12, 8, is_dense=True)
    assert (columns.vectors, columns.width, columns.panels, columns.tail) == (2, 16, 2, 0)


@pytest.mark.parametrize(
    ("depth", "block", "narrow"), [(68, 80, 68), (136, 80, 72), (34, 48, 34), (64, 32, 32)]
)
def test_the_narrowest_panels_need_no_more_vectors(depth: int, block: int, narrow: int) -> None:
    assert narrowest_block(depth, block, 16) == narrow


@given(depth=COUNTS, vectors=st.integers(1, 12), lanes=st.sampled_from(LANE_COUNTS))
def test_narrow_panels_take_as_many_vectors_and_less_memory(
    depth: int, vectors: int, lanes: int
) -> None:
    wide = Columns(depth, vectors * lanes, lanes)
    narrow = Columns(depth, narrowest_block(depth, wide.block, lanes), lanes, is_dense=True)
    assert narrow.panels == wide.panels
    assert narrow.block <= wide.block
    taken = [each.full * each.vectors + each.tail_vectors for each in (narrow, wide)]
    assert taken[0] <= taken[1]


@given(depth=COUNTS, lanes=st.sampled_from(LANE_COUNTS), pixels=st.integers(0, 400))
def test_panel_is_some_vectors_and_not_wider_than_needed(
    depth: int, lanes: int, pixels: int
) -> None:
    block = rank_blocks(depth, processor(lanes), pixels=pixels)[0]
    assert block % lanes == 0
    assert 0 < block < depth + lanes


@pytest.mark.parametrize(
    ("depth", "pixels", "block"),
    [
        (64, 1000, 32),  # 3 x 4 vectors: 12 accumulators and no tail
        (96, 7, 24),  # 7 pixels as 4 and 3 by 3 vectors, rather than as 4 and 3 by 2
        (20, 1000, 24),  # one panel: three vectors are cheaper than four
        (8, 1000, 8),
        (1, 1, 8),
    ],
)
def test_panel_keeps_the_multipliers_busy(depth: int, pixels: int, block: int) -> None:
    assert rank_blocks(depth, processor(8), pixels=pixels, steps=64)[0] == block


def test_wide_elements_have_fewer_lanes() -> None:
    assert rank_blocks(100, processor(8), kind=ElementKind.FLOAT64)[0] % 4 == 0
    assert rank_blocks(3, processor(8), kind=ElementKind.FLOAT64)[0] == 4
    assert rank_blocks(3, processor(8), kind=ElementKind.INT8)[0] == 8


@pytest.mark.parametrize("depth", [64, 128, 480])
def test_panels_are_chosen_for_the_registers_of_the_processor(depth: int) -> None:
    few, many = (rank_blocks(depth, processor(8, f), pixels=1000, steps=64) for f in (AVX2, AVX512))
    assert many[0] < few[0]  # tiles of more rows load weights less often


@pytest.mark.parametrize(
    ("vectors", "registers", "rows"), [(1, 16, 14), (2, 16, 6), (3, 16, 4), (4, 16, 3), (2, 32, 14)]
)
def test_tile_fits_the_registers(vectors: int, registers: int, rows: int) -> None:
    assert row_limit(vectors, registers) == rows


def test_full_tiles_are_the_cheapest_per_product() -> None:
    costs = {
        (rows, vectors): step_cycles(rows, vectors, 0, Target.of(ZEN3)) / (rows * vectors)
        for vectors in (1, 2, 3, 4)
        for rows in range(1, row_limit(vectors, 16) + 1)
    }
    assert min(costs.values()) == costs[6, 2] == costs[4, 3] == costs[3, 4]
