"""Strassen's algorithm: a product of matrices of 2 x 2 blocks by 7 products of blocks, not 8.

It is to matrix products what Winograd's algorithm is to convolutions: fewer multiply-adds than the
sums have, for some additions. Strassen, "Gaussian elimination is not optimal", Numerische
Mathematik 13, 1969::

    m0 = (x00 + x11) (w00 + w11)    m4 = (x00 + x01) w11              y00 = m0 + m3 - m4 + m6
    m1 = (x10 + x11) w00            m5 = (x10 - x00) (w00 + w01)      y01 = m2 + m4
    m2 = x00 (w01 - w11)            m6 = (x01 - x11) (w10 + w11)      y10 = m1 + m3
    m3 = x11 (w10 - w00)                                              y11 = m0 - m1 + m2 + m5

Two rows of x and two columns of w meet in a sum. So that its rounding errors are those of each row
and column by itself, the second row, and the second column, is multiplied before by the power of
two that makes its largest number about as large as that of the first one, and the results are
divided by it. (Ballard, Benson, Druinsky, Lipshitz and Schwartz, "Improving the numerical stability
of fast matrix multiplication", SIAM Journal on Matrix Analysis and Applications 37, 2016, call this
outside scaling.) Results of rows and columns of zeros, and of numbers below the least normal one
of ``float32``, are zero.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from glow_nb.types import Array

SIDE, BLOCKS, BLOCK_PRODUCTS = 2, 4, 7
"""Blocks in a row or column of a matrix, all blocks, row after row, and the products of blocks."""

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

LEAST_SCALE, LARGEST_SCALE = 2.0**-30, 2.0**90
"""Second rows are multiplied by no less and no more; other pairs of rows are multiplied by all
weights directly. By less, products of the second row might be too small for ``float32``."""

LARGEST_COLUMN_SCALE = 2.0**30
"""Columns whose sizes differ more are not made alike, but nearer; networks with such a matrix do
not use the algorithm for it."""

EXPONENT_BITS = 0x7F800000
"""Of a ``float32``: with these alone, a number is a power of two."""

LEAST_SIZE = 2.0**-126
"""The least normal number of ``float32``: rows and columns of smaller ones count as zeros."""


def scales(first: Array, second: Array, largest: float = np.inf) -> tuple[Array, Array]:
    """Return how to make the second of two rows, or columns, about as large as the first one.

    *first* and *second* are the sizes of their largest numbers. The result is a power of two to
    multiply the second one by, no more than *largest* and no less than its reciprocal, and what the
    results of both, ``[2, ...]``, are multiplied by then.
    """
    sizes = np.stack([first, second]).astype(np.float64)
    is_zero = sizes < LEAST_SIZE
    is_plain = (np.isfinite(sizes) & ~is_zero).all(axis=0)
    powers = 2.0 ** np.where(is_plain, np.frexp(sizes)[1], 0)
    scale = np.clip(powers[0] / powers[1], 1 / largest, largest)
    return scale, np.where(is_zero, 0.0, np.stack([np.ones_like(scale), 1 / scale]))


def terms(signs: Iterable[int]) -> list[tuple[int, bool]]:
    """Return the numbers of the terms of a sum, and which are subtracted: positive ones first."""
    used = [(number, sign < 0) for number, sign in enumerate(signs) if sign]
    return sorted(used, key=lambda term: term[1])


def blocks_of(matrix: Array) -> Array:
    """Return the blocks of a matrix ``[2 r, 2 c]`` as ``[4, r, c]``."""
    rows, columns = matrix.shape
    blocks = matrix.reshape(SIDE, rows // SIDE, SIDE, columns // SIDE).swapaxes(1, 2)
    return blocks.reshape(BLOCKS, rows // SIDE, columns // SIDE)
