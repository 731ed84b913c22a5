"""Plans of Winograd kernels for sizes and caches, and the convolutions that they suit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glow_nb.base.types import ElementKind
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.convolution import generate_winograd
from glow_nb.kernels.winograd.cost import winograd_cycles
from glow_nb.kernels.winograd.nest import WinogradNest, plan_winograd, suits_winograd
from tests.targets import SMALL_CORE
from tests.unit.kernels.products.test_convolution import conv
from tests.unit.kernels.winograd.test_convolution import FLOAT32, convolution_of


@pytest.mark.parametrize(
    ("size", "channels", "is_near"),
    [(7, 512, True), (14, 256, True), (28, 128, False), (56, 64, False), (28, 512, False)],
)
def test_weights_are_transformed_for_a_near_cache_where_sums_are_near(
    size: int, channels: int, *, is_near: bool
) -> None:
    shape = conv(1, channels, channels, (size, size), (3, 3), pads=1)
    nest = WinogradNest(shape, (4, 4), ElementKind.UINT8, 16)
    plan = plan_winograd(nest, SMALL_CORE)
    made = plan.dot * nest.transformed_at_once * 2 * 16 * ElementKind.INT16.size_bytes
    assert made <= (48 << 10 if is_near else 256 << 10)
    assert (plan.dot < plan.groups) == is_near


@pytest.mark.parametrize(
    ("size", "channels", "depth", "pixels", "factors"),
    [
        (224, 64, 64, True, False),
        (56, 256, 256, True, True),
        (28, 512, 512, False, True),
        (14, 64, 64, False, False),
    ],
)
def test_what_no_near_cache_holds_is_fetched_ahead(
    size: int, channels: int, depth: int, *, pixels: bool, factors: bool
) -> None:
    target = replace(Target.host(8), l1_bytes=32 << 10, l2_bytes=512 << 10, l3_bytes=32 << 20)
    shape = conv(1, channels, depth, (size, size), (3, 3), pads=(1, 1, 1, 1))
    nest = WinogradNest(shape, (4, 4), FLOAT32, 16)
    plan = plan_winograd(nest, target)
    assert (plan.fetches_pixels, plan.factors_ahead > 0) == (pixels, factors)
    text = generate_winograd(nest, plan, Fusion.of(convolution_of(nest))).text
    fetched = [f"tile_prefetch({name}" in text for name in ("source", "dest", "factors")]
    assert fetched == [pixels, pixels, factors]


def test_tiles_of_one_output_have_an_estimate() -> None:
    """Nobody chooses them, but a program may have them."""
    nest = WinogradNest(conv(2, 3, 3, (1, 3), (1, 1)), (1, 1), FLOAT32, 8)
    assert winograd_cycles(nest, SMALL_CORE, 1) > 0


def test_what_winograd_is_for() -> None:
    shape = conv(1, 8, 8, (9, 9), (3, 3), pads=1)
    assert suits_winograd(shape, (4, 4))
    assert not suits_winograd(shape, (5, 5))
    strided = replace(shape, stride=(2, 2))
    assert suits_winograd(strided, (4, 4))
    assert not suits_winograd(strided, (4, 4), whole=True)
    assert suits_winograd(replace(shape, dilation=(2, 3)), (4, 4))
    assert not suits_winograd(replace(strided, dilation=(2, 1)), (4, 4))
    for change in ({"stride": (4, 4)}, {"channels": 0}, {"kernel": (1, 1)}):
        assert not suits_winograd(replace(shape, **change), (4, 4))
    volume = conv(1, 8, 8, (5, 5, 5), (3, 3, 3))
    assert suits_winograd(volume, (1, 4, 4))
    assert not suits_winograd(conv(1, 8, 8, (9, 9), (5, 5)), (4, 4), whole=True)
    for tile in ((4, 4, 4), (2, 1, 1), (1, 1, 1)):
        assert not suits_winograd(volume, tile)
    assert suits_winograd(conv(1, 8, 8, (5, 5, 5), (3, 1, 1)), (4, 1, 1))
    assert not suits_winograd(conv(1, 8, 8, (5, 5, 5), (3, 1, 1)), (4, 4, 4))
    assert not suits_winograd(conv(1, 8, 8, (5, 5, 5), (3, 1, 1), pads=1), (4, 1, 1))
