"""Sizes of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class MatMulShape:
    """``result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]``.

    Attributes:
        batch: Products; 1 if the rows of all of them share one right matrix.
        rows: Rows of each left matrix (m).
        inner: Length of the sums (k).
        depth: Columns of each right matrix (n).
    """

    batch: int
    rows: int
    inner: int
    depth: int

    @classmethod
    def of(cls, lhs: Sequence[int], depth: int, *, is_batched: bool) -> MatMulShape:
        """Return the product of a *lhs* ``[*batch, rows, inner]``.

        Args:
            lhs: Shape of the left matrices.
            depth: Columns of the right matrix.
            is_batched: Each left matrix has a right matrix of its own.
        """
        *batch, rows, inner = lhs
        count = prod(batch)
        return cls(count, rows, inner, depth) if is_batched else cls(1, count * rows, inner, depth)
