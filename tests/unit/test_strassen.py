"""Strassen's algorithm, of one level and of several."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.strassen import (
    LEFT,
    RECOVERY,
    RIGHT,
    SUMS,
    blocks_in,
    blocks_of,
    nested,
    place_of,
    products_of,
    recovered,
    scales,
    side_of,
    whole_of,
)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_its_sums_of_products_are_a_product(levels: int) -> None:
    random, side = np.random.default_rng(levels), side_of(levels)
    x = random.integers(-9, 9, (3 * side, 2 * side))
    w = random.integers(-9, 9, (2 * side, 5 * side))
    left = np.tensordot(nested(LEFT, levels), blocks_of(x, levels), axes=1)
    right = np.tensordot(nested(RIGHT, levels), blocks_of(w, levels), axes=1)
    assert len(left) == len(right) == products_of(levels)
    made = np.tensordot(nested(SUMS, levels), left @ right, axes=1)
    np.testing.assert_array_equal(whole_of(made, levels), x @ w)
    again = np.tensordot(nested(RECOVERY, levels), right, axes=1)
    np.testing.assert_array_equal(whole_of(again, levels), w)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_zeros_are_recovered_as_zeros(levels: int) -> None:
    random, side = np.random.default_rng(levels), side_of(levels)
    w = random.standard_normal((16 * side, 16 * side)).astype(np.float32)
    w[random.random(w.shape) < 0.5] = 0
    sums = np.empty((products_of(levels), 16, 16), np.float32)
    for number, signs in enumerate(nested(RIGHT, levels)):
        for block, (sign, each) in enumerate(zip(signs, blocks_of(w, levels), strict=True)):
            sums[number] = (sums[number] if block else 0) + np.float32(sign) * each
    found = whole_of(recovered(sums, levels), levels)
    np.testing.assert_array_equal(found == 0, w == 0)
    np.testing.assert_allclose(found, w, rtol=0, atol=1e-5)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_every_block_has_a_place_of_its_own(levels: int) -> None:
    side = side_of(levels)
    places = [place_of(block, levels) for block in range(blocks_in(levels))]
    assert sorted(places) == [(row, column) for row in range(side) for column in range(side)]


def test_the_levels_nest() -> None:
    assert [place_of(block, 2) for block in range(6)] == [
        *((0, 0), (0, 1), (1, 0), (1, 1)),  # the upper left quarter
        *((0, 2), (0, 3)),
    ]


def test_sizes_are_made_those_of_the_largest_one() -> None:
    sizes = np.array([[1, 5, 0, np.inf, 1e-40], [6, 1, 3, 2, 1], [3, 9, 0, 1, 0], [1, 1, 1, 1, 1]])
    scale, back = scales(sizes)
    assert scale.tolist() == [
        *([4, 2, 1, 1, 1], [1, 8, 1, 1, 1]),
        *([2, 1, 1, 1, 1], [4, 8, 2, 1, 1]),
    ]
    assert back[:, 2].tolist() == [0, 1, 0, 0.5]
    assert back[:, 4].tolist() == [0, 1, 0, 1]
    assert scales(sizes, 4.0)[0].max() == 4
