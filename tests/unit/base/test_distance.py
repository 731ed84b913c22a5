"""The one measure of how far results are apart."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from glow_nb.base.distance import decibels, distance, largest_distance, relative_error
from glow_nb.base.types import Array


def test_it_is_relative_to_the_largest_number_expected() -> None:
    expected = np.array([1.0, -4.0], np.float32)
    assert distance(expected, expected) == 0
    assert distance(expected, np.array([2.0, -4.0], np.float32)) == 0.25
    assert distance(expected, np.array([1.0, -6.0], np.float32)) == 0.5
    assert distance(np.zeros(2), np.array([0.0, 0.5])) == 0.5
    assert distance(np.zeros(0), np.zeros(0)) == 0


def test_small_numbers_count_as_a_least_one() -> None:
    expected, found = np.array([0.5]), np.array([0.25])
    assert distance(expected, found) == 0.5
    assert distance(expected, found, least=1.0) == 0.25
    assert distance(4 * expected, 4 * found, least=1.0) == 0.5


def test_nan_equals_nan_and_nothing_else() -> None:
    odd = np.array([np.nan, np.inf, 1.0])
    assert distance(odd, odd) == 0
    assert distance(odd, np.array([0.0, np.inf, 1.0])) == np.inf
    assert distance(odd, np.array([np.nan, -np.inf, 1.0])) == np.inf
    assert distance(np.ones(1), np.array([np.nan])) == np.inf
    assert distance(np.zeros(2), np.zeros(3)) == np.inf


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float16, ml_dtypes.bfloat16])
def test_every_kind_is_measured(dtype: type) -> None:
    assert distance(np.array([1], dtype), np.array([0], dtype)) == 1


def test_each_array_is_measured_by_its_own_largest_number() -> None:
    expected: list[Array] = [np.array([1.0, -4.0], np.float32), np.array([2], np.int64)]
    assert largest_distance(expected, [expected[0], np.array([3])]) == 0.5
    assert largest_distance([], []) == 0
    assert largest_distance(expected, expected[:1]) == np.inf


def test_relative_errors_are_of_all_floats_together() -> None:
    expected: list[Array] = [np.array([3.0, 4.0], np.float32), np.array([0.0]), np.array([7])]
    found: list[Array] = [np.array([3.0, 4.0], np.float64), np.array([1.0]), np.array([9])]
    assert relative_error(expected, found) == 0.2
    assert relative_error(expected, expected) == 0
    assert relative_error(expected[2:], found[2:]) == pytest.approx(2 / 7)
    assert relative_error(expected[1:2], found[1:2]) == np.inf
    assert relative_error(expected, found[:2]) == np.inf
    odd = np.array([np.nan, np.inf, 1.0])
    assert relative_error([odd], [odd]) == 0
    assert relative_error([odd], [np.array([np.nan, 2.0, 1.0])]) == np.inf


def test_decibels_are_of_the_numbers_that_differ() -> None:
    expected = np.array([1.0, np.inf, np.nan, -np.inf, 3.0])
    assert decibels(expected, expected) == np.inf
    assert decibels(expected, expected + np.array([0, 0, 0, 0, 1])) == pytest.approx(10)
    for number in (np.inf, np.nan):
        assert decibels(expected, np.array([number, np.inf, np.nan, -np.inf, 3.0])) == -np.inf
