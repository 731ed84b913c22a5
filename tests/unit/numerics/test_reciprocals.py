"""Quotients by reciprocals in two parts, against exact arithmetic."""

import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glow_nb.base.types import Array
from glow_nb.numerics.reciprocals import AT_ONCE, reciprocals

MOST = 256
AWKWARD = np.float32(0.01281738467514515)
"""A product of it and the middle of two floats beside a half is next to a float."""


def rounded(number: Fraction) -> np.float32:
    """Return *number* in float32, rounded once."""
    near = np.float32(float(number))  # rounded twice: a neighbour may be nearer
    around = (np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf)))
    distance = {x: abs(Fraction(float(x)) - number) for x in around}
    least = min(distance.values())
    tied = [x for x in around if distance[x] == least]
    return next((x for x in tied if x.view(np.int32) % 2 == 0), tied[0])


def fused(x: np.float32, high: np.float32, low: np.float32) -> np.float32:
    """Return ``fma(x, high, x * low)``."""
    return rounded(Fraction(float(x)) * Fraction(float(high)) + Fraction(float(x * low)))


def beside_halves(divisor: np.float32, counts: range) -> Array:
    """Return numbers whose quotients by *divisor* are halves, or nearly so."""
    numbers = [(np.arange(counts.start, counts.stop, counts.step) + 0.5).astype(np.float32)]
    numbers[0] *= divisor
    for side in (-np.inf, np.inf):
        near = numbers[0]
        for _ in range(3):
            near = np.nextafter(near, np.float32(side))
            numbers.append(near)
    return np.concatenate(numbers)


@pytest.mark.parametrize("divisor", [0.0386410690844059, 0.1, 3.0, 2.0**-40, 1.0, 1.0 / 255])
def test_the_same_whole_number_as_a_division(divisor: float) -> None:
    scale = np.float32(divisor)
    parts = reciprocals(scale.reshape(1), MOST)
    assert parts is not None
    high, low = (part[0] for part in parts)
    for x in beside_halves(scale, range(-MOST, MOST, 7)):
        assert np.rint(fused(x, high, low)) == np.rint(x / scale), x


@given(st.floats(2.0**-30, 2.0**30, width=32), st.integers(-MOST, MOST))
def test_any_divisor(divisor: float, whole: int) -> None:
    scale = np.float32(divisor)
    parts = reciprocals(scale.reshape(1), MOST)
    if parts is None:
        return
    high, low = (part[0] for part in parts)
    for x in beside_halves(scale, range(whole, whole + 1)):
        assert np.rint(fused(x, high, low)) == np.rint(x / scale)


def test_divisors_of_which_a_quotient_could_differ_are_refused() -> None:
    assert reciprocals(np.array([0.5, AWKWARD], np.float32), MOST) is None


def test_divisors_of_several_pieces() -> None:
    right = np.linspace(0.5, 0.501, 2 * AT_ONCE, dtype=np.float32)
    right = right[[reciprocals(each.reshape(1), MOST) is not None for each in right]]
    assert reciprocals(right, MOST) is not None
    assert reciprocals(np.append(AWKWARD, right), MOST) is None
    assert reciprocals(np.append(right, AWKWARD * 256), MOST) is None, "the largest, checked last"


def test_many_divisors_take_little_memory() -> None:
    tracemalloc.start()
    try:
        assert reciprocals(np.linspace(1, 2, 50_000, dtype=np.float32), MOST) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("divisor", [2.0**-80, 2.0**80, 1e-45])
def test_products_that_could_be_denormal_are_refused(divisor: float) -> None:
    assert reciprocals(np.array([divisor], np.float32), MOST) is None


@pytest.mark.parametrize("divisor", [0.25, 0.3])
def test_what_is_not_finite_stays_so(divisor: float) -> None:
    parts = reciprocals(np.array([divisor], np.float32), MOST)
    assert parts is not None
    high, low = (part[0] for part in parts)
    with np.errstate(invalid="ignore"):
        for x in (np.float32(np.inf), np.float32(-np.inf), np.float32(np.nan)):
            np.testing.assert_equal(x * high + x * low, x / np.float32(divisor))
