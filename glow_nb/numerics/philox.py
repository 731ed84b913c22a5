"""The counter-based generator Philox 4x32-10, in NumPy: what random numbers mean.

Philox (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a
counter of four words of 32 bits, under a key of two, into four random words. Nothing is kept from
number to number, so that any thread makes any part of a tensor, with vectors of any width, and gets
the same bits.

- A generator is a tensor ``int64<2>``: the seed, whose 64 bits are the key, and the number of the
  run, of which the low 32 bits count.
- Element i of a tensor, in row-major order, is word ``i % 4`` of the counter
  ``(i // 4 % 2**32, i // 4 >> 32, stream, run)``.
"""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from glow_nb.base.types import Array, ElementKind, TensorType

GENERATOR = TensorType(ElementKind.INT64, (2,))
"""The type of a generator: seed and number of the run."""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORDS = 4
"""Random words that one counter gives."""
LOW_WORD = 0xFFFF_FFFF

Words = npt.NDArray[np.uint32]
_HALF, _MASK = np.uint64(32), np.uint64(LOW_WORD)


def philox(counter: npt.NDArray[np.uint64], key: tuple[int, int]) -> Words:
    """Return the random words of counters: both are arrays ``[4, ...]`` of words of 32 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1 = (second >> _HALF) ^ c1 ^ np.uint64(k0), second & _MASK
        c2, c3 = (first >> _HALF) ^ c3 ^ np.uint64(k1), first & _MASK
        k0, k1 = (k0 + KEY_STEPS[0]) & LOW_WORD, (k1 + KEY_STEPS[1]) & LOW_WORD
    return np.stack((c0, c1, c2, c3)).astype(np.uint32)


def random_words(generator: Array, stream: int, shape: tuple[int, ...]) -> Words:
    """Return the random word of each element of a tensor of *shape*."""
    seed, run = (int(number) % 2**64 for number in generator)
    block = np.arange(-(-prod(shape) // WORDS), dtype=np.uint64)
    others = (np.full_like(block, stream), np.full_like(block, run & LOW_WORD))
    counter = np.stack((block & _MASK, block >> _HALF, *others))
    words = philox(counter, (seed & LOW_WORD, seed >> 32))
    return words.T.reshape(-1)[: prod(shape)].reshape(shape)
