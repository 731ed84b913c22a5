"""Where the matrices of a batch lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import Nest


@dataclass(frozen=True)
class MatrixLayout:
    """Distances in elements between the parts of a batch of matrices.

    Attributes:
        batch: (count, distance) of the loops over matrices, from the outside in.
        row: From row to row.
        column: From column to column.
    """

    batch: tuple[tuple[int, int], ...]
    row: int
    column: int

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> MatrixLayout:
        """Return that of a tensor whose axes in *order* are ``[batch..., rows, columns]``."""
        *axes, row, column = order
        sizes = tuple(shape[axis] for axis in axes)
        nest = Nest(sizes, (tuple(strides[axis] for axis in axes),)).collapsed()
        batch = tuple(zip(nest.sizes, nest.strides[0], strict=True))
        return cls(batch, strides[row], strides[column])

    @property
    def is_even(self) -> bool:
        """Return whether the matrices lie at equal distances."""
        return len(self.batch) < 2

    @property
    def distance(self) -> int:
        """Elements from matrix to matrix; they must lie at equal distances."""
        assert self.is_even, f"{self} has no single distance"
        return next((distance for count, distance in self.batch if count not in (0, 1)), 0)

    def start(self, number: str) -> str:
        """Return where matrix *number* begins, a name or an expression in brackets."""
        counts = [count for count, _ in self.batch]
        terms = []
        for axis, (count, distance) in enumerate(self.batch):
            if count == 1:
                continue
            below = prod(counts[axis + 1 :])
            index = number if below == 1 else f"({number} // {below})"
            terms.append(times(f"({index} % {count})" if axis else index, distance))
        return plus(*terms)
