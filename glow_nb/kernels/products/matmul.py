"""Kernels of matrix products over packed matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import dot_form
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.product_nest import LeftLayout, ProductKinds, ProductNest
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits


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


@head_kernel_for(
    PackedMatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs")),
)
def packed_mat_mul_source(
    instruction: PackedMatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs[, bias])`` of a matrix product and its epilogue.

    Raises:
        UnsupportedError: There are no kernels for this kind of elements.
    """
    is_batched = len(instruction.rhs.type.shape) > len(("panels", "inner", "block"))
    shape = MatMulShape.of(instruction.lhs.type.shape, instruction.depth, is_batched=is_batched)
    operands = (instruction.lhs.type.kind, instruction.rhs.type.kind)
    kinds = ProductKinds.of(*operands, dot_form(*operands, instruction.factors, target))
    line = ConvolutionShape(
        batch=shape.batch,
        channels=shape.inner,
        depth=shape.depth,
        input=(shape.rows,),
        kernel=(1,),
        stride=(1,),
        pads=(0, 0),
        dilation=(1,),
    )
    nest = ProductNest.packed(
        line,
        kinds,
        instruction.block,
        filter_per_image=shape.batch > 1,
        left=LeftLayout.by_pixels(line, elements_between_pixels(fusion.input)),
    )
    sizes = f"{shape.batch} x {shape.rows} x {shape.inner}"
    return generate_product(
        nest,
        target,
        fusion,
        family="mat_mul",
        title=f"product of {kinds.left.value}<{sizes}> and {shape.depth} columns",
    )
