"""Strassen's algorithm: a product of matrices of 2 x 2 blocks by 7 products of blocks, not 8.

It is to matrix products what Winograd's algorithm is to convolutions: fewer multiply-adds than the
sums have, for some additions. Strassen, "Gaussian elimination is not optimal", Numerische
Mathematik 13, 1969::

    m0 = (x00 + x11) (w00 + w11)    m4 = (x00 + x01) w11              y00 = m0 + m3 - m4 + m6
    m1 = (x10 + x11) w00            m5 = (x10 - x00) (w00 + w01)      y01 = m2 + m4
    m2 = x00 (w01 - w11)            m6 = (x01 - x11) (w10 + w11)      y10 = m1 + m3
    m3 = x11 (w10 - w00)                                              y11 = m0 - m1 + m2 + m5

Blocks are numbered in the order of rows and columns: x00 is block 0, x01 block 1.

Rows of x and columns of w meet in sums. So that its rounding errors are those of each row and
column by itself, rows, and columns, are multiplied before by the powers of two that make their
largest numbers about as large as that of the largest one of those that meet, and the results are
divided by them. (Ballard, Benson, Druinsky, Lipshitz and Schwartz, "Improving the numerical
stability of fast matrix multiplication", SIAM Journal on Matrix Analysis and Applications 37, 2016,
call this outside scaling.) Results of rows and columns of zeros, and of numbers below the least
normal one of ``float32``, are zero.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from glow_nb.base.types import Array

SIDE = 2
"""Blocks in a row or column of a matrix."""

BLOCKS, PRODUCTS = 4, 7
"""Blocks of a matrix, and products of blocks."""

LEFT = np.array(
    [
        [1, 0, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 0],
        [0, 0, 0, 1],
        [1, 1, 0, 0],
        [-1, 0, 1, 0],
        [0, 1, 0, -1],
    ]
)
"""``[product, block]``: what each product takes of the blocks of x."""

RIGHT = np.array(
    [
        [1, 0, 0, 1],
        [1, 0, 0, 0],
        [0, 1, 0, -1],
        [-1, 0, 1, 0],
        [0, 0, 0, 1],
        [1, 1, 0, 0],
        [0, 0, 1, 1],
    ]
)
"""``[product, block]``: what each product takes of the blocks of w."""

SUMS = np.array(
    [
        [1, 0, 0, 1, -1, 0, 1],
        [0, 0, 1, 0, 1, 0, 0],
        [0, 1, 0, 1, 0, 0, 0],
        [1, -1, 1, 0, 0, 1, 0],
    ]
)
"""``[block, product]``: the blocks of y."""

RECOVERY = np.array(
    [
        [0, 1, 0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1, 0, 0],
        [0, 1, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
    ]
)
"""``[block, product]``: the blocks of w, from what the products take of them."""

LEAST_RECOVERED = 2.0**-21
"""A weight that is recovered from sums is zero if it is less than this part of these: it may be a
rounding error."""

LARGEST_SCALE = 2.0**90
"""Rows are multiplied by no more. One that would need more is summed up directly, and so are those
that it meets."""

LARGEST_COLUMN_SCALE = 2.0**30
"""Columns whose sizes differ more are not made alike, but nearer; networks with such a matrix do
not use the algorithm for it."""

EXPONENT_BITS = 0x7F800000
"""The bits of a ``float32`` that hold its exponent: with these alone, it is a power of two."""

LEAST_SIZE = 2.0**-126
"""The least normal number of ``float32``: rows and columns of smaller ones count as zeros."""


def scales(sizes: Array, largest: float = np.inf) -> tuple[Array, Array]:
    """Return how to make the rows, or columns, that meet in sums about as large as the largest one.

    *sizes* ``[side, ...]`` are those of their largest numbers. The results are of the same shape:
    powers of two to multiply the rows by, from one to *largest*, and what the results are
    multiplied by then. Where a number is not finite, nothing is scaled.
    """
    sizes = sizes.astype(np.float64)
    is_zero = sizes < LEAST_SIZE
    is_finite = np.isfinite(sizes).all(axis=0)
    powers = 2.0 ** np.frexp(np.where(is_finite & ~is_zero, sizes, LEAST_SIZE))[1]
    scale = np.where(is_finite & ~is_zero, np.minimum(powers.max(axis=0) / powers, largest), 1.0)
    return scale, np.where(is_zero, 0.0, 1 / scale)


def terms(signs: Iterable[int]) -> list[tuple[int, bool]]:
    """Return the numbers of the terms of a sum, and which are subtracted: positive ones first."""
    used = [(number, sign < 0) for number, sign in enumerate(signs) if sign]
    return sorted(used, key=lambda term: term[1])


def block_views(matrix: Array) -> list[Array]:
    """Return the blocks of a matrix ``[2 * r, 2 * c]``, each ``[r, c]``, without a copy."""
    rows, columns = (size // SIDE for size in matrix.shape)
    cut = matrix.reshape(SIDE, rows, SIDE, columns).swapaxes(1, 2)
    return [block for row in cut for block in row]


def blocks_of(matrix: Array) -> Array:
    """Return the blocks of a matrix ``[2 * r, 2 * c]`` as ``[blocks, r, c]``."""
    return np.stack(block_views(matrix))


def recovered(sums: Array) -> Array:
    """Return the blocks of w, from what the products take of them, ``[products, r, c]``.

    What is less than :data:`LEAST_RECOVERED` of its sums is zero.
    """
    blocks = np.tensordot(RECOVERY, sums, axes=1)
    least = LEAST_RECOVERED * np.tensordot(np.abs(RECOVERY), np.abs(sums), axes=1)
    return np.where(np.abs(blocks) < least, 0.0, blocks)


def whole_of(blocks: Array) -> Array:
    """Return the matrix ``[2 * r, 2 * c]`` of *blocks* ``[blocks, r, c]``."""
    _, rows, columns = blocks.shape
    cut = blocks.reshape(SIDE, SIDE, rows, columns).swapaxes(1, 2)
    return cut.reshape(SIDE * rows, SIDE * columns)
