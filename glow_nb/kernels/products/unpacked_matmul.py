"""Kernels of matrix products over operands that lie as they came."""

from __future__ import annotations

from glow_nb.errors import UnsupportedError
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products.in_place import in_place_nest
from glow_nb.kernels.products.operand_cost import multiplies_rows
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.row_products import generate_row_products
from glow_nb.kernels.products.sweep_plan import suits_sweep
from glow_nb.kernels.products.swept_product import generate_swept_product
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.products.written_panels import CopiedPanels
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits


@head_kernel_for(
    UnpackedMatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs", "rhs")),
)
def unpacked_mat_mul_source(
    instruction: UnpackedMatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs[, bias])`` of a matrix product and its epilogue.

    Raises:
        UnsupportedError: There is no kernel for these kinds or orders.
    """
    product = UnpackedProduct.of(instruction)
    kinds = ProductKinds.of(instruction.lhs.type.kind, instruction.rhs.type.kind)
    shape, right = product.shape, product.right
    if multiplies_rows(product, kinds, target):
        return generate_row_products(product, kinds, target, fusion)
    # the distance along an axis of one element, in a window, is any number
    is_dense = min(shape.depth, shape.inner) < 2 or 1 in {right.row, right.column}
    if not (is_dense and product.left.is_even and right.is_even):
        raise UnsupportedError(
            f"{instruction!r}: no kernel for operands in the orders {instruction.lhs_order} and "
            f"{instruction.rhs_order} of {instruction.lhs.type} and {instruction.rhs.type}; "
            "transpose them before"
        )
    if suits_sweep(product, kinds, target):
        return generate_swept_product(product, kinds, target, fusion)
    nest = in_place_nest(product, kinds, target)
    how = "copied panel by panel" if nest.right.is_copied else "as they lie"
    return generate_product(
        nest,
        target,
        fusion,
        family="mat_mul",
        title=f"product of {kinds.left.value}<{shape.batch} x {shape.rows} x {shape.inner}> and "
        f"{shape.depth} columns {how}",
        writes=CopiedPanels if nest.right.is_copied else None,
    )
