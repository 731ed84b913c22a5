"""Floats of 28 bits lose nothing."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.float28 import (
    CODE_MASK,
    EXPONENTS,
    LARGEST_LEAST,
    LAST_PIECES,
    PIECES,
    are_outliers,
    exponents_of,
    least_exponent,
    packed_words,
    unpacked_words,
    words_of,
)

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("least", [1, 2, 100, 127, 200, LARGEST_LEAST])
def test_numbers_come_back_with_every_bit(least: int) -> None:
    numbers = RANDOM.integers(0, 2**32, (50, 8, 16), np.uint32).view(np.float32)
    words = packed_words(numbers, least)
    assert words.shape == (50, 7, 16)
    back = unpacked_words(words, least)
    exponents, fractions = exponents_of(numbers).astype(int), numbers.view(np.uint32) & 0x7F_FFFF
    is_in_range = (exponents >= least) & (exponents < least + EXPONENTS)
    has_code = (is_in_range & ((exponents > least) | (fractions > 0))) | (numbers == 0)
    np.testing.assert_array_equal(are_outliers(numbers, least), ~has_code)
    assert has_code.any()
    wanted = np.where(has_code, numbers, np.copysign(np.float32(0), numbers))
    np.testing.assert_array_equal(back.view(np.uint32), wanted.view(np.uint32))


def test_zero_has_a_code_and_the_smallest_number_of_the_least_exponent_has_none() -> None:
    numbers = np.zeros((8, 5), np.float32)
    numbers[:, 1], numbers[:, 2], numbers[:, 3] = -0.0, 2.0**-27, 2.0**-27 * (1 + 2.0**-23)
    numbers[:, 4] = np.nextafter(2.0**-11, 0, dtype=np.float32)
    assert are_outliers(numbers, 100).tolist() == [[False, False, True, False, False]] * 8
    back = unpacked_words(packed_words(numbers, 100), 100)
    numbers[:, 2] = 0
    np.testing.assert_array_equal(back.view(np.uint32), numbers.view(np.uint32))


def test_the_bits_of_a_code_and_those_of_the_eighth_do_not_overlap() -> None:
    free = ~CODE_MASK & 0xFFFF_FFFF
    pieces = [piece for _, piece in (*PIECES, *LAST_PIECES)]
    assert sum(pieces) == CODE_MASK  # each bit of the eighth code lies in one word
    for down, mask in (*PIECES, *LAST_PIECES):
        assert (mask << down if down > 0 else mask >> -down) & ~free == 0


def test_exponents_are_those_of_numpy() -> None:
    numbers = np.array([0.0, -0.0, 1.0, -1.5, 3e38, np.inf, np.nan, 1e-45], np.float32)
    assert exponents_of(numbers).tolist() == [0, 0, 127, 127, 254, 255, 255, 0]
    strided = RANDOM.standard_normal((6, 8)).astype(np.float32).T[::2]
    wanted = np.frexp(strided)[1] + 126
    np.testing.assert_array_equal(exponents_of(strided), wanted)


def test_most_numbers_have_a_code() -> None:
    counts = np.zeros(256, int)
    counts[[0, 90, 100, 110, 115, 255]] = [50, 3, 5, 7, 9, 50]
    least = least_exponent(counts)
    assert least == 100
    assert least_exponent(np.zeros(256, int)) == 1
    assert 1 <= least_exponent(np.eye(256, dtype=int)[0]) <= LARGEST_LEAST  # zeros have none
    assert least_exponent(np.eye(256, dtype=int)[254]) == LARGEST_LEAST


def test_one_weight_in_8000_of_a_normal_distribution_has_none() -> None:
    numbers = RANDOM.standard_normal(1_000_000).astype(np.float32)
    least = least_exponent(np.bincount(exponents_of(numbers), minlength=256))
    assert 1 / 16000 < are_outliers(numbers, least).mean() < 1 / 4000


def test_rows_that_are_left_over_take_a_word_each() -> None:
    assert [words_of(rows) for rows in (0, 1, 7, 8, 9, 768)] == [0, 1, 7, 7, 8, 672]
