"""Plans of products keep their working sets within their shares of the caches."""

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glow_nb.base.types import ElementKind
from glow_nb.kernels.bilinear import plan as bilinear
from glow_nb.kernels.products.blocking import rank_blocks
from glow_nb.kernels.products.caches import (
    LONGEST_CHAIN,
    level_1_bytes,
    level_2_bytes,
    rows_side_by_side,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import block_bytes, plan_loops
from glow_nb.kernels.target import LANE_COUNTS, Target
from glow_nb.kernels.winograd.nest import WinogradNest, plan_winograd, suits_winograd

FLOAT32 = ElementKind.FLOAT32
KIBIBYTE = 1024


def square(
    size: int, channels: int, depth: int, taps: int = 3, stride: int = 1
) -> ConvolutionShape:
    pads = (taps // 2,) * 4
    two = (taps, taps), (stride, stride)
    return ConvolutionShape(1, channels, depth, (size, size), *two, pads, (1, 1))


def product(rows: int, inner: int, depth: int) -> ConvolutionShape:
    return ConvolutionShape(1, inner, depth, (rows,), (1,), (1,), (0, 0), (1,))


LAYERS = [
    *(square(224 >> number, 64 << number, 64 << number) for number in range(4)),
    *(square(56 >> number, 64 << number, 64 << number, stride=2) for number in range(4)),
    *(square(56 >> number, 256 << number, 64 << number, taps=1) for number in range(4)),
    *(square(56 >> number, 256 << number, 512 << number, 1, stride=2) for number in range(3)),
    square(14, 512, 512),
    square(224, 3, 64, taps=7, stride=2),
    square(224, 3, 96, taps=11, stride=4),
    square(27, 48, 128, taps=5),
    square(14, 128, 32),
    product(1, 9216, 4096),
    product(1, 4096, 1024),
    product(8, 3072, 768),
    product(77, 1280, 1280),
    product(128, 768, 3072),
    product(128, 3072, 768),
    product(1500, 512, 512),
    product(1500, 2048, 512),
    product(4096, 4096, 4096),
]

targets = st.builds(
    Target,
    st.just("x86_64-unknown-linux-gnu"),
    st.just("generic"),
    st.sampled_from(["+avx,+avx2,+fma", "+avx,+avx2,+fma,+avx512f,+avx512vl"]),
    st.sampled_from(LANE_COUNTS),
    st.sampled_from([32 * KIBIBYTE, 48 * KIBIBYTE]),
    st.sampled_from([size * KIBIBYTE for size in (256, 512, 1024, 2048)]),
)

shapes = st.one_of(
    st.sampled_from(LAYERS),
    st.builds(product, *(st.integers(1, 5000) for _ in range(3))),
    st.builds(
        square,
        st.integers(3, 120),
        st.integers(1, 700),
        st.integers(1, 700),
        st.sampled_from([1, 3, 5]),
        st.integers(1, 2),
    ),
)


@settings(max_examples=300)
@given(shapes, targets, st.integers(1, 3))
def test_inner_blocks_stay_in_their_caches(
    shape: ConvolutionShape, target: Target, batch: int
) -> None:
    """A block is one line of an image at least, and a single panel reads whole rows once."""
    shape = replace(shape, batch=batch).simplified()
    for block in rank_blocks(
        shape.depth, target, pixels=shape.output[-1], steps=shape.steps, kind=FLOAT32
    )[:3]:
        nest = ProductNest.packed(shape, ProductKinds.of(FLOAT32), block)
        plan = plan_loops(nest, target)
        assert plan.sum.block_products * block * 4 <= level_1_bytes(target)
        is_least = plan.block_units == 1 and (shape.rank > 1 or plan.columns.panels == 1)
        assert is_least or block_bytes(nest, plan) <= level_2_bytes(target)


WIDE = Target(
    "x86_64-unknown-linux-gnu",
    "generic",
    "+avx,+avx2,+fma,+avx512f,+avx512vl",
    16,
    l2_bytes=256 * KIBIBYTE,
)


@settings(max_examples=200)
@given(shapes, targets)
@example(square(9, 1, 65, taps=5, stride=2), WIDE)  # four rows of 121 elements x 80 columns
def test_winograd_stays_in_its_caches(shape: ConvolutionShape, target: Target) -> None:
    if shape.rank != 2 or not suits_winograd(shape, (4, 4)):
        return
    block = rank_blocks(shape.depth, target, pixels=64, steps=shape.channels, kind=FLOAT32)[0]
    nest = WinogradNest(shape, (4, 4), FLOAT32, block)
    plan = plan_winograd(nest, target)
    assert plan.dot * block * 4 <= level_1_bytes(target)
    assert bilinear.block_bytes(nest, plan.kinds, plan.block_tiles) <= level_2_bytes(target)


@pytest.mark.parametrize("lanes", LANE_COUNTS)
@pytest.mark.parametrize("inner", [1024, 4096, 4156])
def test_few_rows_read_a_large_panel_in_streams(inner: int, lanes: int) -> None:
    """Streams are no multiple of 4096 bytes apart, and cover the sum together with the rest."""
    nest = ProductNest.packed(product(1, inner, 4096), ProductKinds.of(FLOAT32), 64)
    target = Target.host(lanes)
    plan, set_bytes = plan_loops(nest, target), target.machine.l1_set_bytes
    assert plan.sum.streams == target.machine.panel_streams
    for number in range(1, plan.sum.streams):
        apart = number * plan.sum.whole_dot * nest.right.row * 4 % set_bytes
        assert 64 * 4 <= apart <= set_bytes - 64 * 4
    assert plan.sum.streams * plan.sum.whole_dot + plan.sum.rest == inner
    assert plan.sum.block_products + plan.sum.rest <= LONGEST_CHAIN
    assert plan.sum.block_products >= 96  # what is left over makes no inner block short


@pytest.mark.parametrize(
    ("distance", "rows"), [(4096, 8), (8192, 8), (2048, 16), (1024, 32), (4096 + 64, 32), (4, 32)]
)
def test_rows_of_one_place_are_no_more_than_its_ways(distance: int, rows: int) -> None:
    target = replace(WIDE, l1_bytes=32 * KIBIBYTE)
    assert rows_side_by_side(distance, target) == rows


@given(st.integers(1, 20_000), targets)
def test_each_row_of_a_tile_keeps_its_line(distance: int, target: Target) -> None:
    rows = rows_side_by_side(distance, target)
    lines = {row * distance // 64 for row in range(rows)}
    places = [line % 64 for line in lines]
    ways = target.l1_bytes // target.machine.l1_set_bytes
    assert max(places.count(place) for place in places) <= ways


@pytest.mark.parametrize("inner", [1024, 2048, 1000])
def test_tiles_of_few_columns_keep_their_rows_in_the_first_level(inner: int) -> None:
    nest = ProductNest.packed(product(1024, inner, 16), ProductKinds.of(FLOAT32), 16)
    rows = plan_loops(nest, WIDE).cut.rows
    assert rows == 8 if inner % 1024 == 0 else rows > 16
