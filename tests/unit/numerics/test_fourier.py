"""Roots of unity, radices, and lengths for convolutions."""

from math import prod

import numpy as np
import pytest

from glow_nb.numerics.fourier import chirp, radices_of, roots_of_unity, smooth_length, split


@pytest.mark.parametrize("length", [1, 2, 3, 8, 17, 96, 1000])
def test_roots_are_as_near_as_float64_has_them(length: int) -> None:
    numbers = np.arange(-length, 2 * length)
    roots = roots_of_unity(numbers, length)
    expected = np.exp(-2j * np.pi * (numbers % length) / length)
    np.testing.assert_allclose(roots, expected, atol=8e-16)
    mirrored = roots_of_unity(-numbers, length)
    np.testing.assert_allclose(mirrored, roots.conj(), atol=2e-16)


def test_eighths_of_a_turn_are_exact() -> None:
    half = np.sqrt(0.5)
    expected = [1, half - half * 1j, -1j, -half - half * 1j, -1, -half + half * 1j, 1j]
    np.testing.assert_allclose(roots_of_unity(np.arange(7), 8), expected, rtol=1.2e-16)


@pytest.mark.parametrize("has_eight", [False, True])
def test_radices_multiply_to_the_length(has_eight: bool) -> None:
    for length in range(1, 400):
        radices = radices_of(length, has_eight=has_eight)
        has_large = any(length % p == 0 for p in range(17, length + 1) if is_prime(p))
        assert (radices is None) == has_large
        assert radices is None or prod(radices) == length


def is_prime(number: int) -> bool:
    return all(number % p for p in range(2, int(number**0.5) + 1))


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_lengths_of_convolutions_are_smooth_and_of_whole_vectors(lanes: int) -> None:
    for least in (1, 100, 257, 2041, 70000):
        length = smooth_length(least, lanes, has_eight=True)
        pair = split(length, lanes, has_eight=True, is_even=True)
        assert pair is not None
        assert prod(pair) == length
        assert least <= length < 2 * max(least, lanes * lanes) + 1
        assert not any(side % lanes for side in pair)


def test_a_chirp_turns_by_the_squares_of_its_numbers() -> None:
    numbers = np.arange(37.0)
    np.testing.assert_allclose(chirp(37), np.exp(-1j * np.pi * numbers**2 / 37), atol=1e-13)
