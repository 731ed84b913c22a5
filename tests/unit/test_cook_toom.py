"""Short convolutions are convolutions, and their matrices have the form that kernels rely on."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.cook_toom import POINT_PAIRS, is_known, short_convolution

SIZES = [(n - r + 1, r) for n in POINT_PAIRS for r in range(2, n) if n - r + 1 > 1]


@pytest.mark.parametrize(("outputs", "taps"), [(1, 1), *SIZES])
def test_products_of_transforms_make_a_convolution(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    random = np.random.default_rng(outputs * 10 + taps)
    d, g = random.normal(size=each.size), random.normal(size=taps)
    found = each.output @ ((each.filter @ g) * (each.input @ d))
    np.testing.assert_allclose(found, np.correlate(d, g), rtol=1e-11, atol=1e-11)


def test_textbook_matrices_of_two_outputs() -> None:
    each = short_convolution(2, 3)
    np.testing.assert_array_equal(each.output, [[1, 1, 1, 0], [0, 1, -1, 1]])
    np.testing.assert_array_equal(each.filter * [[-1], [1], [1], [1]], [
        [1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]
    ])  # fmt: skip


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_pairs_differ_in_the_signs_of_every_second_element(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    for first in range(1, each.size - 1, 2):
        for rows in (each.input, each.output.T):
            plus, minus = rows[first], rows[first + 1]
            np.testing.assert_array_equal(np.abs(plus), np.abs(minus))
            assert (np.sign(plus * minus) != 0).any()


def test_sizes_without_points_are_unknown() -> None:
    assert is_known(4, 3)
    assert not is_known(3, 3)
    assert not is_known(0, 4)
