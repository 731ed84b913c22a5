"""Numbers of ``float32`` in 28 bits each, without loss, where their exponents are close together.

Weights are distributed so that few of them are much smaller than the largest one: of a normal
distribution, one in 8,000 is smaller than 2^-15 of it. Of numbers whose exponents are among sixteen
that follow one another, four bits tell the exponent in place of eight. The others, the *outliers*,
are kept beside, as they are.

A *code* of 28 bits has its parts where ``float32`` has them: the fraction in bits 0 to 22, the
exponent less the least one in bits 23 to 26, the sign in bit 31. If all but the sign are zero, the
number is zero; what would have this code otherwise, the smallest number of the least exponent, is
an outlier. Bits 27 to 30 are free, and of seven codes they hold the eighth one. So eight numbers
take seven words, and a kernel needs few instructions to read them.
"""

from __future__ import annotations

import numpy as np

from glow_nb.types import Array

TOGETHER, WORDS = 8, 7
"""Numbers that lie together, and the words that they take."""

FRACTION_BITS, CODE_EXPONENT_BITS, SPARE_BIT = 23, 4, 27
EXPONENTS = 1 << CODE_EXPONENT_BITS
"""Exponents that follow one another, of which four bits tell one."""

CODE_MASK = 0x87FF_FFFF
"""The bits of a code in a word."""

MAGNITUDE_MASK = 0x07FF_FFFF
"""The bits of a code without the sign: zero in that of zero."""

SIGN_MASK = 0x8000_0000
INFINITE_EXPONENT = 255
"""Biased exponent of what is not finite."""

LARGEST_LEAST = INFINITE_EXPONENT - EXPONENTS
"""The largest of least exponents: all sixteen are those of finite numbers."""

PIECES = tuple((SPARE_BIT - 4 * word, 0xF << 4 * word) for word in range(WORDS - 1))
"""Of the eighth code, what the free bits of words 0 to 5 hold: how far they are shifted down, and
the bits that they are then. Those of the last word are :data:`LAST_PIECES`."""

LAST_PIECES = ((3, 0x0700_0000), (-1, SIGN_MASK))
"""Of the last word: three bits of the exponent, and the sign, which is shifted up."""


def exponents_of(numbers: Array) -> Array:
    """Return the biased exponents of ``float32`` *numbers*: 0 for zero, 255 for infinity."""
    result = np.empty(numbers.shape, np.uint8)  # which has no room for the sign
    np.right_shift(numbers.view(np.uint32), FRACTION_BITS, out=result, casting="unsafe")
    return result


def least_exponent(counts: Array) -> int:
    """Return the least of the sixteen exponents that most numbers have.

    Args:
        counts: Of numbers, by their biased exponents ``[256]``.
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    covered = before[EXPONENTS:] - before[:-EXPONENTS]  # by the exponents from each one on
    return 1 + int(np.argmax(covered[1 : LARGEST_LEAST + 1]))


def are_outliers(numbers: Array, least: int) -> Array:
    """Return which of ``float32`` *numbers* have no code."""
    found: Array = ~_are_coded(numbers.view(np.uint32), least) & (numbers != 0)
    return found


def _are_coded(bits: Array, least: int) -> Array:
    """Return which numbers have a code by their exponent, and not as zero."""
    above = (bits & np.uint32(0x7FFF_FFFF)) - np.uint32((least << FRACTION_BITS) + 1)
    found: Array = above < (EXPONENTS << FRACTION_BITS) - 1  # what is below wraps around
    return found


def packed_words(numbers: Array, least: int) -> Array:
    """Return ``float32`` *numbers* ``[..., 8, n]`` in words ``[..., 7, n]``, zeros for outliers."""
    bits = numbers.view(np.uint32)
    raised = bits - np.uint32(least << FRACTION_BITS)
    codes = np.where(_are_coded(bits, least), raised, bits & np.uint32(SIGN_MASK))
    words, last = codes[..., :WORDS, :], codes[..., WORDS, :]
    for word, (down, mask) in enumerate(PIECES):
        words[..., word, :] |= (last & np.uint32(mask)) << np.uint32(down)
    for down, mask in LAST_PIECES:
        words[..., WORDS - 1, :] |= _shifted(last & np.uint32(mask), -down)
    return words


def unpacked_words(words: Array, least: int) -> Array:
    """Return the ``float32`` numbers ``[..., 8, n]`` of *words* ``[..., 7, n]``."""
    last = np.zeros_like(words[..., 0, :])
    for word, (down, mask) in enumerate(PIECES):
        last |= (words[..., word, :] >> np.uint32(down)) & np.uint32(mask)
    for down, mask in LAST_PIECES:
        last |= _shifted(words[..., WORDS - 1, :], down) & np.uint32(mask)
    codes = np.concatenate([words & np.uint32(CODE_MASK), last[..., np.newaxis, :]], axis=-2)
    is_zero = codes & np.uint32(MAGNITUDE_MASK) == 0
    bias = np.uint32(least << FRACTION_BITS & 0xFFFF_FFFF)  # of any number, as a kernel adds it
    bits = np.where(is_zero, codes, codes + bias)
    numbers: Array = bits.view(np.float32)
    return numbers


def _shifted(bits: Array, down: int) -> Array:
    """Return *bits* shifted by so many places, up if these are negative."""
    return bits >> np.uint32(down) if down > 0 else bits << np.uint32(-down)


def words_of(rows: int) -> int:
    """Return the words that *rows* numbers take: what is left over of eights takes one each."""
    whole, rest = divmod(rows, TOGETHER)
    return whole * WORDS + rest
