"""How the operands of a matrix product lie before a transpose, which a kernel can read through."""

from __future__ import annotations

from glow_nb.base.size import symbols_in
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import FullyConnected, MatMul, Transpose
from glow_nb.kernels.products.matrix_layout import MatrixLayout
from glow_nb.llir.strides import contiguous_strides

Operand = tuple[Value, tuple[int, ...]]
"""A value, and the order in which a kernel takes its axes."""


def _as_it_lies(matrix: Value, *, evenly: bool = True, by_rows: bool = True) -> Operand:
    """Return the value and the order of its axes that a kernel reads as *matrix*.

    The value is what is transposed, if its last axis becomes that of rows or columns, and *matrix*
    itself otherwise. If *evenly*, matrices whose rows are contiguous must lie at equal distances;
    those whose columns are must, too, unless the product may be one *by_rows*.
    """
    rank = matrix.type.rank
    if isinstance(matrix, Transpose) and matrix.predicate is None:
        shape, order = matrix.input.type.shape, matrix.permutation
        layout = MatrixLayout.of(shape, contiguous_strides(shape), order)
        fits = layout.is_even or not evenly
        fits_columns = layout.is_even or by_rows
        if (order[-2] == rank - 1 and fits_columns) or (order[-1] == rank - 1 and fits):
            return matrix.input, order
    return matrix, tuple(range(rank))


def operands_as_they_lie(node: MatMul | FullyConnected) -> tuple[Operand, Operand]:
    """Return the operands of *node* that a kernel reads, with the orders of their axes."""
    left, right = node.factors
    by_rows = not symbols_in(left.type.shape[-2:])  # which takes numbers of rows and steps alone
    rhs, rhs_order = _as_it_lies(right, by_rows=by_rows)
    has_rows = rhs_order[-1] == rhs.type.rank - 1
    lhs, lhs_order = _as_it_lies(left, evenly=has_rows or not by_rows)
    if lhs_order[-1] != left.type.rank - 1:  # the sums do not run along the last axis
        lhs, lhs_order = left, tuple(range(left.type.rank))
    return (lhs, lhs_order), (rhs, rhs_order)
