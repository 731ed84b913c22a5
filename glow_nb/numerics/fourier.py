"""Fast Fourier transforms as mathematics: exact roots of unity, and how lengths are cut up.

A transform of length ``A * B`` is one of ``A`` along the columns of an ``A x B`` matrix, a
multiplication by roots of unity, a transposition, and one of ``B`` along the columns of the result.
Each of them is a sequence of passes of small radices. A length with a large prime factor becomes a
convolution with a chirp, a transform of a longer, smooth length (Bluestein's algorithm).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from glow_nb.base.types import Array

PRIMES = (2, 3, 5, 7, 11, 13)
"""The prime radices that passes are written for."""

_PASS_OPERATIONS = 8.0
"""Loads, stores and products with roots that an element takes in a pass, whatever its radix."""
_TWIST_OPERATIONS = 14.0
"""Operations of an element on its way from the first to the second transform."""
_BUTTERFLY_OPERATIONS = {2: 2.0, 4: 4.0, 8: 6.5}
"""Operations of an element in a butterfly; odd radices take about as many as their size."""


def roots_of_unity(numbers: Array, length: int) -> Array:
    """Return ``exp(-2 pi i k / length)`` for each k of *numbers*, as complex128.

    Angles are brought into an eighth of a turn in integers, so that no root is off by more than its
    own rounding.
    """
    quarter, rest = np.divmod(4 * (np.asarray(numbers, np.int64) % length), length)
    is_beyond = 2 * rest > length
    angle = np.where(is_beyond, length - rest, rest) * (np.pi / (2 * length))
    near, far = np.cos(angle), np.sin(angle)
    cosine, sine = np.where(is_beyond, far, near), np.where(is_beyond, near, far)
    found = np.choose(quarter, [cosine, -sine, -cosine, sine]) + 0j
    found.imag = np.choose(quarter, [-sine, -cosine, sine, cosine])
    return found


@cache
def radices_of(length: int, *, has_eight: bool) -> tuple[int, ...] | None:
    """Return radices whose product is *length*; None if it has a prime factor above 13."""
    found: list[int] = []
    for radix in (*reversed(PRIMES), *((8, 4) if has_eight else (4,))):
        if radix == 2:
            continue
        while length % radix == 0 and (radix, length) != (8, 16):  # which is 4 * 4
            found.append(radix)
            length //= radix
    if length % 2 == 0:
        found.append(2)
        length //= 2
    return tuple(found) if length == 1 else None


def _pass_operations(radix: int) -> float:
    return _PASS_OPERATIONS + _BUTTERFLY_OPERATIONS.get(radix, radix + 2.0)


@cache
def split(length: int, lanes: int, *, has_eight: bool, is_even: bool) -> tuple[int, int] | None:
    """Return the ``A`` and ``B`` of the least work for vectors of *lanes*; None if there are none.

    With *is_even*, both are to be multiples of *lanes*.
    """
    found = [
        (a, length // a)
        for a in range(1, length + 1)
        if length % a == 0 and not (is_even and (a % lanes or length // a % lanes))
    ]
    works = {(a, b): work(a, b, lanes, has_eight=has_eight) for a, b in found}
    known = [pair for pair in found if works[pair] < np.inf]
    return min(known, key=lambda pair: works[pair], default=None)


def work(rows: int, columns: int, lanes: int, *, has_eight: bool) -> float:
    """Return the operations on vectors of a transform of ``rows * columns``, about."""
    total = 0.0
    for size, other in ((rows, columns), (columns, rows)):
        radices = radices_of(size, has_eight=has_eight)
        if radices is None:
            return float(np.inf)
        total += size * -(-other // lanes) * sum(map(_pass_operations, radices))
    return total + _TWIST_OPERATIONS * -(-rows // lanes) * -(-columns // lanes) * lanes


@cache
def smooth_length(least: int, lanes: int, *, has_eight: bool) -> int:
    """Return the length of the least work that is not below *least*, in whole vectors."""
    step = lanes * lanes
    found: dict[int, float] = {}
    limit = 2 * max(least, step)
    for odd in (1, 3, 5, 7, 9, 15):
        length = step * odd
        while length < least:
            length *= 2
        if length <= max(limit, step):
            pair = split(length, lanes, has_eight=has_eight, is_even=True)
            if pair is not None:
                found[length] = work(pair[0], pair[1], lanes, has_eight=has_eight)
    return min(found, key=lambda length: (found[length], length))


def chirp(length: int) -> Array:
    """Return ``exp(-pi i k ** 2 / length)`` for each k below *length*."""
    numbers = np.arange(length, dtype=np.int64)
    return roots_of_unity(numbers * numbers % (2 * length), 2 * length)
