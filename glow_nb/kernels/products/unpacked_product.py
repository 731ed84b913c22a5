"""A matrix product of operands that lie as they came."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.types import TensorType
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.matrix_layout import MatrixLayout
from glow_nb.llir.program import Buffer
from glow_nb.llir.windows import pixel_stride

Order = tuple[int, ...]


@dataclass(frozen=True)
class UnpackedProduct:
    """A product of matrices as they lie.

    Attributes:
        shape: Sizes.
        left: Where the left matrices lie.
        right: Where the right matrices lie.
    """

    shape: MatMulShape
    left: MatrixLayout
    right: MatrixLayout

    @classmethod
    def of(cls, instruction: UnpackedMatMulInst) -> UnpackedProduct:
        """Return what *instruction* computes."""
        orders = (instruction.lhs_order, instruction.rhs_order)
        return cls._of_buffers(instruction.lhs, instruction.rhs, *orders)

    @classmethod
    def of_types(
        cls, lhs: TensorType, rhs: TensorType, lhs_order: Order, rhs_order: Order
    ) -> UnpackedProduct:
        """Return the product of operands without gaps, whose axes are taken in these orders."""
        buffers = (Buffer("lhs", lhs), Buffer("rhs", rhs))
        return cls._of_buffers(*buffers, lhs_order, rhs_order)

    @classmethod
    def _of_buffers(
        cls, lhs: Buffer, rhs: Buffer, lhs_order: Order, rhs_order: Order
    ) -> UnpackedProduct:
        """Left matrices that share the right one are as one if their rows follow one another."""
        sizes = [lhs.type.shape[axis] for axis in lhs_order]
        depth = rhs.type.shape[rhs_order[-1]]
        left = MatrixLayout.of(lhs.type.shape, lhs.strides, lhs_order)
        right = MatrixLayout.of(rhs.type.shape, rhs.strides, rhs_order)
        shape = MatMulShape.of(sizes, depth, is_batched=True)
        if rhs.type.rank == 2:
            is_in_order = lhs_order == tuple(range(lhs.type.rank))
            step = pixel_stride(lhs) if is_in_order else None
            if step is not None:
                left = MatrixLayout((), step, 1)
                shape = MatMulShape.of(sizes, depth, is_batched=False)
            right = MatrixLayout(((shape.batch, 0),), right.row, right.column)
        return cls(shape, left, right)
