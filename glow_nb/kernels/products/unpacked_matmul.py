"""Kernels of matrix products over operands that lie as they came."""

from __future__ import annotations

from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products.row_products import generate_row_products
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
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
    return generate_row_products(product, instruction.lhs.type.kind, target, fusion)
