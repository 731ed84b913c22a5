"""Short convolutions are convolutions, and their matrices have the form that kernels rely on."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.cook_toom import POINT_PAIRS, is_known, short_convolution, tap_noise
from glow_nb.types import ElementKind

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


@pytest.mark.parametrize(("outputs", "taps"), [(1, 1), (4, 1), (6, 1), *SIZES])
def test_taps_are_had_back(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    np.testing.assert_allclose(each.recovery @ each.filter, np.eye(taps), rtol=0, atol=1e-12)
    if each.size > 1:  # the outer taps are exact: each stands alone in one row, but for a sign
        assert (np.count_nonzero(each.recovery, axis=1)[[0, -1]] == 1).all()
        assert (np.abs(each.recovery).max(axis=1)[[0, -1]] == 1).all()


@pytest.mark.parametrize(("outputs", "taps"), SIZES)
def test_errors_of_recovered_taps_stay_below_the_noise(outputs: int, taps: int) -> None:
    each = short_convolution(outputs, taps)
    g = np.random.default_rng(taps).normal(size=(1000, taps, taps))
    u = (each.filter @ g @ each.filter.T).astype(np.float32)
    found = each.recovery.astype(np.float32) @ u @ each.recovery.T.astype(np.float32)
    errors = np.abs(found - g).max(axis=(1, 2)) / np.abs(g).max(axis=(1, 2))
    noise = tap_noise((outputs, outputs), (taps, taps), ElementKind.FLOAT32)
    assert errors.max() < noise < 1e-3


def test_sizes_without_points_are_unknown() -> None:
    assert is_known(4, 3)
    assert not is_known(3, 3)
    assert not is_known(0, 4)
