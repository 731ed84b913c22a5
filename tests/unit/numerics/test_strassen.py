"""Strassen's algorithm."""

from __future__ import annotations

import numpy as np

from glow_nb.numerics.strassen import (
    LEFT,
    PRODUCTS,
    RECOVERY,
    RIGHT,
    SIDE,
    SUMS,
    blocks_of,
    recovered,
    scales,
    whole_of,
)


def test_its_sums_of_products_are_a_product() -> None:
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (3 * SIDE, 2 * SIDE))
    w = random.integers(-9, 9, (2 * SIDE, 5 * SIDE))
    left = np.tensordot(LEFT, blocks_of(x), axes=1)
    right = np.tensordot(RIGHT, blocks_of(w), axes=1)
    assert len(left) == len(right) == PRODUCTS
    made = np.tensordot(SUMS, left @ right, axes=1)
    np.testing.assert_array_equal(whole_of(made), x @ w)
    again = np.tensordot(RECOVERY, right, axes=1)
    np.testing.assert_array_equal(whole_of(again), w)


def test_zeros_are_recovered_as_zeros() -> None:
    random = np.random.default_rng(0)
    w = random.standard_normal((16 * SIDE, 16 * SIDE)).astype(np.float32)
    w[random.random(w.shape) < 0.5] = 0
    sums = np.empty((PRODUCTS, 16, 16), np.float32)
    for number, signs in enumerate(RIGHT):
        for block, (sign, each) in enumerate(zip(signs, blocks_of(w), strict=True)):
            sums[number] = (sums[number] if block else 0) + np.float32(sign) * each
    found = whole_of(recovered(sums))
    np.testing.assert_array_equal(found == 0, w == 0)
    np.testing.assert_allclose(found, w, rtol=0, atol=1e-5)


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
