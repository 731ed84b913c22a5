"""Convolutions that read an image: long sums are added up in short chains, in the same tile."""

from __future__ import annotations

import itertools

import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.cpu_kernels import generate_kernel
from glow_nb.kernels.products import product_plan
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.inner_blocks import IMAGE_CHAIN
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import plan_loops
from glow_nb.kernels.target import LANE_COUNTS, Target
from tests.unit.kernels.products.test_convolution import check, conv, convolution_of
from tests.unit.kernels.products.test_product_loops import order_of, small_caches

FLOAT32 = ElementKind.FLOAT32
LAYERS = {
    "7 x 7": conv(1, 3, 24, (19, 23), (7, 7), stride=2, pads=3),
    "7 x 7, a low image": conv(2, 3, 9, (3, 31), (7, 7), pads=3),
    "11 x 11": conv(1, 3, 17, (21, 20), (11, 11), stride=4, pads=2),
    "9 x 5 of four channels": conv(1, 4, 8, (14, 13), (9, 5), pads=2),
    "three dimensions": conv(1, 1, 8, (9, 7, 8), (5, 5, 5), pads=2),
}
"""Sums that are longer than a chain, over images that are padded more than they are high, too."""

TARGETS = [Target.host, lambda lanes: small_caches(lanes, 2048, 8192)]


@pytest.mark.jit
@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(number, name, marks=pytest.mark.slow if number in (0, 3) else ())
        for number, name in enumerate(LAYERS)
    ],
)
def test_sums_in_chains_are_the_same(number: int, name: str) -> None:
    """The slow run also has a higher image, and one of four channels."""
    for lanes, target_of in itertools.islice(
        itertools.product(LANE_COUNTS, TARGETS), number, 99, 3
    ):
        check(LAYERS[name], target_of(lanes), threads=1 + number % 3)


def sums_of(shape: ConvolutionShape) -> tuple[int, int | None]:
    """Return the inner blocks of the sum of *shape*, and how many rows of taps are in a chain."""
    nest = ProductNest.packed(shape, ProductKinds.of(FLOAT32), 16)
    sum = plan_loops(nest, Target.host(8)).sum
    return sum.blocks, sum.chain


def test_chains_are_as_many_rows_of_taps_as_may_be() -> None:
    assert sums_of(LAYERS["7 x 7"]) == (1, IMAGE_CHAIN // 21)
    assert sums_of(LAYERS["11 x 11"]) == (1, IMAGE_CHAIN // 33)
    assert sums_of(conv(1, 3, 64, (224, 224), (3, 3), pads=1)) == (1, None), "short sums"
    assert sums_of(conv(1, 8, 64, (56, 56), (5, 5), pads=2)) == (1, None), "no image"
    integers = ProductNest.packed(LAYERS["7 x 7"], ProductKinds.of(ElementKind.INT32), 16)
    assert plan_loops(integers, Target.host(8)).sum.chain is None, "exact in any order"


@pytest.mark.parametrize("panels_inside", [False, True])
@pytest.mark.parametrize(
    "shape",
    [
        *LAYERS.values(),
        conv(1, 3, 64, (900,), (80,)),
        conv(1, 3, 64, (30, 90), (5, 40)),
        conv(1, 3, 64, (20, 20, 20), (7, 7, 7), pads=3),
    ],
    ids=str,
)
def test_no_chain_is_too_long(
    shape: ConvolutionShape, panels_inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_plan, "traffic_cycles", order_of(panels_inside))
    nest = ProductNest.packed(shape, ProductKinds.of(FLOAT32), 16)
    for target in (Target.host(8), small_caches(8, 2048, 8192)):
        plan = plan_loops(nest, target)
        if plan.sum.chain is None:
            assert plan.sum.block_products <= IMAGE_CHAIN
        else:
            row = plan.sum.block_products // plan.sum.inner[0].count
            assert plan.sum.chain * row <= IMAGE_CHAIN
            assert not plan.panels_inside


def test_a_chain_begins_with_zero() -> None:
    text = generate_kernel(convolution_of(LAYERS["7 x 7"], FLOAT32, 16), Target.host(8)).text
    assert "for chain_a0 in range(2):" in text
    assert "whole_a0 = add(whole_a0, t_a0)" in text
    assert "for part in" not in text, "no sums wait in scratch"
