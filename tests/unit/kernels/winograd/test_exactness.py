"""For which weights convolutions of bytes are exact by tiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import Array, ElementKind
from glow_nb.hlir.ops.families import widest
from glow_nb.kernels.winograd.exactness import exact_tiles, result_bounds

INT8, UINT8 = ElementKind.INT8, ElementKind.UINT8
TILES = [(2, 2), (2, 4), (4, 4)]


def weights_of(channels: int, number: int, kind: type[np.integer] = np.int8) -> Array:
    """Return a filter of equal weights."""
    return np.full((2, 3, 3, channels), number, kind)


@pytest.mark.parametrize(
    ("channels", "number", "kind", "tiles"),
    [
        (114, 128, UINT8, TILES),
        (115, 128, UINT8, TILES[:2]),
        (456, -128, UINT8, TILES[:2]),
        (457, -128, UINT8, TILES[:1]),
        (1827, -128, UINT8, TILES[:1]),
        (1828, -128, UINT8, []),
        (227, 128, INT8, TILES),  # -128 * 128
        (228, 128, INT8, TILES[:2]),
    ],
)
def test_as_many_channels_of_the_largest_bytes_are_exact(
    channels: int, number: int, kind: ElementKind, tiles: list[tuple[int, int]]
) -> None:
    assert list(exact_tiles(weights_of(channels, number, np.int16), kind, TILES)) == tiles


def test_weights_that_grow_beyond_16_bits_are_not_exact() -> None:
    assert list(exact_tiles(weights_of(1, 227, np.int16), UINT8, TILES)) == TILES
    assert list(exact_tiles(weights_of(1, 228, np.int16), UINT8, TILES)) == TILES[:2]
    alternating = weights_of(1, 300, np.int16)
    alternating[:, 1::2] *= -1
    alternating[..., 1::2, :] *= -1  # some sums of taps cancel out, others do not
    assert list(exact_tiles(alternating, UINT8, TILES)) == TILES[:2]
    corner = weights_of(1, 0, np.int16)
    corner[:, 0, 0] = 900  # 36 times that fits, 144 times does not, but it meets no such factor
    assert list(exact_tiles(corner, UINT8, TILES)) == TILES


def test_filters_without_weights_are_exact() -> None:
    assert list(exact_tiles(np.zeros((0, 3, 3, 4), np.int8), UINT8, TILES)) == TILES


@given(
    st.sampled_from([INT8, UINT8]), st.sampled_from(["int8", "uint8", "int16"]), st.integers(0, 99)
)
def test_bounds_are_reached_and_not_passed(kind: ElementKind, name: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    limits = np.iinfo(name)
    weights = random.integers(limits.min, limits.max, (3, 3, 3, 5), name, endpoint=True)
    low, high = kind.limits
    wide = widest(weights)
    largest = np.where(wide > 0, high, low)
    smallest = np.where(wide > 0, low, high)
    least, greatest = result_bounds(weights, kind)
    assert greatest == max(0, (wide * largest).sum(axis=(1, 2, 3)).max())
    assert least == min(0, (wide * smallest).sum(axis=(1, 2, 3)).min())
