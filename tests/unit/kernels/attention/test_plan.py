"""How attention is cut up for caches of all sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.types import ElementKind
from glow_nb.kernels.attention.plan import (
    MOST_CHAINED_KEYS,
    AttentionPlan,
    plan_attention,
)
from glow_nb.kernels.attention.shape import AttentionShape, Place
from glow_nb.kernels.products.blocking import registers_of, row_limit
from glow_nb.kernels.products.caches import level_2_bytes
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.system.host_caches import KIBIBYTE

PACKED = [(1500, 1500, 64), (197, 197, 64), (128, 128, 32), (8, 4096, 128)]
FEW = [(1, 8192, 64), (3, 5000, 80)]
FILLED_UP = (1, 8192, 70)
"""Values that are copied, as they are not whole vectors."""


def shape_of(rows: int, keys: int, depth: int) -> AttentionShape:
    """Return an attention of 12 heads, all of whose tensors are by tokens."""
    place = Place(12 * depth * keys, depth, 12 * depth)
    return AttentionShape(
        batch=1,
        groups=12,
        share=1,
        queries=rows,
        keys=keys,
        depth=depth,
        width=depth,
        kind=ElementKind.FLOAT32,
        result=ElementKind.FLOAT32,
        mask=None,
        offset=None,
        dest=place,
        query=place,
        key=place,
        value=place,
    )


@pytest.mark.parametrize("l2", [256, 512, 1024, 2048])
@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("sizes", [*PACKED, FILLED_UP])
def test_a_block_of_keys_and_a_chunk_of_rows_stay_in_their_share(
    sizes: tuple[int, int, int], lanes: int, l2: int
) -> None:
    target = replace(Target.host(lanes), l2_bytes=l2 * KIBIBYTE)
    shape = shape_of(*sizes)
    plan = plan_attention(shape, target)
    depth, width = plan.depth, plan.width
    elements = plan.block_keys * (depth + width) + plan.chunk_rows * plan.score_stride
    slack = plan.panel_keys * (depth + width + plan.chunk_rows)  # blocks are whole panels
    margin = plan.chunk_rows * (plan.score_stride - plan.block_keys)
    assert 4 * (elements - slack - margin) <= level_2_bytes(target)
    assert plan.block_keys <= MOST_CHAINED_KEYS
    waiting = plan.block_rows * (depth + width + 2 * plan.lanes)
    assert 4 * waiting <= target.machine.l3_share * target.machine.l3_bytes
    assert plan.block_rows < target.machine.attention_block_rows + plan.chunk_rows


def test_rows_wait_in_a_small_last_cache_too_and_blocks_of_them_are_balanced() -> None:
    small = replace(Target.host(), l3_bytes=2048 * KIBIBYTE)
    plan = plan_attention(shape_of(1500, 1500, 64), small)
    row_bytes = 4 * (plan.depth + plan.width + 2 * plan.lanes)
    assert plan.block_rows * row_bytes <= small.machine.l3_share * small.l3_bytes
    blocks = -(-1500 // plan.block_rows)
    assert blocks * plan.block_rows - 1500 < blocks * plan.chunk_rows


@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("sizes", PACKED + FEW)
def test_parts_divide_each_other_and_tiles_fit_the_registers(
    sizes: tuple[int, int, int], lanes: int
) -> None:
    target = Target.host(lanes)
    plan = plan_attention(shape_of(*sizes), target)
    assert plan.chunk_rows % plan.rows == 0
    assert plan.chunk_rows % plan.softmax_rows == 0
    assert plan.block_rows % plan.chunk_rows == 0
    assert plan.block_keys % plan.panel_keys == 0
    for vectors in (plan.score_vectors, plan.sum_vectors):
        assert plan.rows <= row_limit(vectors, registers_of(target))


@pytest.mark.parametrize("l1", [32, 48])
@pytest.mark.parametrize("sizes", FEW)
def test_few_queries_read_keys_and_values_where_they_lie(
    sizes: tuple[int, int, int], l1: int
) -> None:
    target = replace(Target.host(), l1_bytes=l1 * KIBIBYTE)
    plan = plan_attention(shape_of(*sizes), target)
    assert not plan.packs_keys
    assert not plan.packs_values
    assert 4 * plan.chunk_rows * plan.block_keys <= target.machine.l1_scores_share * target.l1_bytes
    assert plan.scratch_bytes < target.l1_bytes


def test_scratch_grows_with_the_rows_and_not_with_their_square() -> None:
    short, long = (
        plan_attention(shape_of(n, n, 64), Target.host()).scratch_bytes for n in (4096, 16384)
    )
    assert long < 1.5 * short


def test_parts_of_the_scratch_begin_at_cache_lines() -> None:
    plan = plan_attention(shape_of(13, 37, 13), Target.host(4))
    assert all(offset % 64 == 0 for offset in plan.offsets.values())
    ends = [
        plan.offsets[name] + kind.size_bytes * size for name, (size, kind) in plan.regions.items()
    ]
    begins = [*list(plan.offsets.values())[1:], plan.scratch_bytes]
    assert all(end <= begin for end, begin in zip(ends, begins, strict=True))


@pytest.mark.parametrize("sizes", [*PACKED, FILLED_UP, *FEW])
def test_loops_are_made_of_the_plan_that_is_printed(sizes: tuple[int, int, int]) -> None:
    shape, target = shape_of(*sizes), Target.host(8)
    loops = plan_attention(shape, target)
    assert AttentionPlan.from_plan(loops.as_plan(), shape, target) == loops


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chunk_rows": 47}, "chunk_rows = 47 must be a multiple of"),
        ({"block_keys": 3}, "block_keys = 3 must be a multiple of"),
        ({"sum_vectors": None}, "'sum_vectors' must be a whole number"),
    ],
)
def test_blocks_that_do_not_divide_each_other_are_refused(wrong: Any, message: str) -> None:
    shape, target = shape_of(128, 128, 32), Target.host(8)
    plan = plan_attention(shape, target).as_plan().updated(**wrong)
    with pytest.raises(UnsupportedError, match=message):
        AttentionPlan.from_plan(plan, shape, target)
