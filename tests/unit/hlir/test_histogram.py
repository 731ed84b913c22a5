"""Histograms: the same whatever the order, and exact when they widen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.errors import OptionError
from glow_nb.base.types import Array
from glow_nb.hlir.histogram import Histogram

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
MANY = st.lists(FLOATS, max_size=40)
BINS = st.integers(2, 70)


def array_of(numbers: list[float]) -> Array:
    return np.array(numbers, np.float32)


@given(MANY, MANY, BINS)
def test_merging_is_counting_all_of_them(
    first: list[float], second: list[float], bins: int
) -> None:
    both = Histogram.of(array_of(first + second), bins)
    merged = Histogram.of(array_of(first), bins).merged(Histogram.of(array_of(second), bins))
    assert merged == both
    assert hash(merged) == hash(both)


@given(st.lists(FLOATS, min_size=1, max_size=40), BINS)
def test_every_number_lies_in_its_bin(numbers: list[float], bins: int) -> None:
    found = Histogram.of(array_of(numbers), bins)
    counts, _ = np.histogram(array_of(numbers).astype(np.float64), found.edges)
    counts[-1] -= np.sum(array_of(numbers) == found.edges[-1])  # NumPy closes the last bin
    np.testing.assert_array_equal(found.counts, counts)
    assert found.total == len(numbers)


@given(st.lists(FLOATS, min_size=1, max_size=40), BINS)
def test_a_narrower_width_would_not_do(numbers: list[float], bins: int) -> None:
    found = Histogram.of(array_of(numbers), bins)
    half = found.width / 2
    reach = max(abs(found.minimum), abs(found.maximum))
    needed = found.maximum // half - found.minimum // half + 1
    assert found.width == 2.0**-149 or needed > bins or reach >= 2**24 * half


@given(st.lists(FLOATS, min_size=1, max_size=40))
def test_quantiles_rise_from_the_least_to_the_greatest_number(numbers: list[float]) -> None:
    found = Histogram.of(array_of(numbers), 16)
    places = [found.quantile(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert places == sorted(places)
    assert found.minimum <= places[0]
    assert places[-1] == found.maximum


def test_quantiles_are_those_of_the_numbers() -> None:
    numbers = np.random.default_rng(0).standard_normal(100_000)
    found = Histogram.of(numbers)
    for share in (0.001, 0.1, 0.5, 0.9, 0.999):
        assert abs(found.quantile(share) - np.quantile(numbers, share)) <= 2 * found.width


def test_no_numbers_have_a_histogram() -> None:
    empty = Histogram.empty(8)
    assert Histogram.of(np.empty(0), 8) == empty
    assert empty.merged(empty) == empty
    assert repr(empty) == "<Histogram of no numbers>"
    assert repr(Histogram.of(np.array([1.0, 2.0]))) == "<Histogram of 2 numbers from 1 to 2>"
    assert empty != "a histogram"


def test_numbers_that_are_not_finite_have_none() -> None:
    with pytest.raises(OptionError, match="histogram of 3 numbers: 2 are NaN or infinite"):
        Histogram.of(np.array([1.0, np.nan, np.inf]))
