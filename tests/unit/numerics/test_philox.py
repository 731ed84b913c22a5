"""The counter-based generator, against the numbers that its authors publish."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.numerics.philox import philox, random_words

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
KNOWN = [
    ((0,) * 6, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 6, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
"""Counter and key, and the words that they give: Random123's ``kat_vectors``, philox4x32 10."""


@pytest.mark.parametrize(("given", "words"), KNOWN)
def test_known_answers(given: tuple[int, ...], words: tuple[int, ...]) -> None:
    counter = np.array(given[:4], np.uint64)
    np.testing.assert_array_equal(philox(counter, (given[4], given[5])), words)


def test_an_element_is_a_word_of_the_counter_of_its_block() -> None:
    seed, run, stream = -(2**40) + 3, 2**33 + 7, 2**32 - 1
    found = random_words(np.array([seed, run]), stream, (3, 7))
    key = seed % 2**32, seed % 2**64 >> 32
    for element in range(21):
        words = philox(np.array([element // 4, 0, stream, 7], np.uint64), key)
        assert found.reshape(-1)[element] == words[element % 4]


def test_every_part_of_the_source_changes_all_numbers() -> None:
    first = random_words(np.array([1, 2]), 3, (1000,))
    for seed, run, stream in ((2, 2, 3), (1 + 2**32, 2, 3), (1, 3, 3), (1, 2, 4)):
        other = random_words(np.array([seed, run]), stream, (1000,))
        assert (first != other).mean() > 0.99


def test_the_size_of_a_tensor_changes_no_number() -> None:
    large = random_words(np.array([1, 2]), 0, (1000,))
    for size in (0, 1, 2, 3, 5, 998):
        np.testing.assert_array_equal(random_words(np.array([1, 2]), 0, (size,)), large[:size])
