"""Kernels of matrix products over operands that lie as they came."""

from __future__ import annotations

from dataclasses import astuple

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.size import Size, symbols_in
from glow_nb.kernels.operators.unpacked import UnpackedMatMulInst
from glow_nb.kernels.products.blocking import MAX_VECTORS, lanes_of
from glow_nb.kernels.products.in_place import in_place_nest, is_transposed, nest_in_place
from glow_nb.kernels.products.loops import Loops
from glow_nb.kernels.products.open_extents import example_product
from glow_nb.kernels.products.operand_cost import can_multiply_rows, multiplies_rows
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.product_plan import plan_nest
from glow_nb.kernels.products.row_products import ROWS, generate_row_products, plan_row_products
from glow_nb.kernels.products.sweep_plan import SWEEP, SweepPlan, suits_sweep
from glow_nb.kernels.products.swept_product import generate_swept_product
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.products.written_panels import CopiedPanels
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits

IN_PLACE, COPIED = "in_place", "copied_panels"
"""The algorithms of the nest of loops: tiles read the right matrix where it lies, or copies."""


def plan_unpacked(instruction: UnpackedMatMulInst, target: Target, fusion: Fusion) -> Plan:
    """Choose how to read the right matrix of a product, and plan the loops and the epilogue.

    Raises:
        UnsupportedError: There is no kernel for these kinds or orders.
    """
    product, kinds = _product_of(instruction)
    open_shape = bool(symbols_in(astuple(product.shape)))
    example = example_product(product) if open_shape else product
    takes_rows = not symbols_in((product.shape.rows, product.shape.inner))
    if takes_rows and multiplies_rows(example, kinds, target):
        return plan_row_products(example, kinds, target)
    if not _has_loops(product):
        raise UnsupportedError(
            f"{instruction!r}: no kernel for operands in the orders {instruction.lhs_order} and "
            f"{instruction.rhs_order} of {instruction.lhs.type} and {instruction.rhs.type}; "
            "transpose them before"
        )
    if not open_shape and suits_sweep(product, kinds, target):
        return SweepPlan.of(product, kinds, target).as_plan()
    nest = in_place_nest(example, kinds, target)
    is_copied = nest.right.is_copied or isinstance(product.shape.depth, Size)
    nest = nest_in_place(product, kinds, nest.block, is_copied=is_copied)
    algorithm = COPIED if is_copied else IN_PLACE
    return plan_nest(nest, target, fusion, algorithm=algorithm).updated(block=nest.block)


@head_kernel_for(
    UnpackedMatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs", "rhs")),
    planner=plan_unpacked,
    sees_open_sizes=True,
)
def unpacked_mat_mul_source(
    instruction: UnpackedMatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs[, bias])`` of a matrix product and its epilogue."""
    product, kinds = _product_of(instruction)
    plan = plan_of(instruction, ROWS, SWEEP, IN_PLACE, COPIED)
    lanes = lanes_of(kinds.total, target)
    if plan.algorithm == ROWS:
        _check_rows(plan, product, lanes)
        return generate_row_products(product, kinds, plan, fusion)
    if not _has_loops(product):
        raise plan.unfit("these operands do not lie at equal distances")
    if plan.algorithm == SWEEP:
        sweep = SweepPlan.from_plan(plan, product, lanes)
        return generate_swept_product(product, kinds, sweep, fusion)
    is_copied, shape = plan.algorithm == COPIED, product.shape
    block = plan.number("block", most=MAX_VECTORS * lanes)
    if not is_copied and (is_transposed(product) or isinstance(shape.depth, Size)):
        raise plan.unfit("a right matrix is copied that is transposed, or of open width")
    nest = nest_in_place(product, kinds, block, is_copied=is_copied)
    how = "copied panel by panel" if is_copied else "as they lie"
    return generate_product(
        nest,
        Loops.from_plan(nest, plan, lanes),
        fusion,
        family="mat_mul",
        title=f"product of {kinds.left.value}<{shape.batch} x {shape.rows} x {shape.inner}> and "
        f"{shape.depth} columns {how}",
        writes=CopiedPanels if is_copied else None,
    )


def _has_loops(product: UnpackedProduct) -> bool:
    """Return whether matrices lie at equal distances, the right ones with rows or columns dense."""
    shape, right = product.shape, product.right
    # the distance along an axis of one element, in a window, is any number
    is_narrow = not {0, 1}.isdisjoint((shape.depth, shape.inner))
    is_dense = is_narrow or 1 in {right.row, right.column}
    return is_dense and product.left.is_even and right.is_even


def _check_rows(plan: Plan, product: UnpackedProduct, most_lanes: int) -> None:
    """Raise UnsupportedError unless rows of *product* meet, in vectors as *plan* says."""
    lanes, columns = plan.number("lanes"), plan.number("columns")
    if most_lanes % lanes or lanes % columns or not can_multiply_rows(product):
        raise plan.unfit(f"vectors of {most_lanes} lanes do not run along these operands so")


def _product_of(instruction: UnpackedMatMulInst) -> tuple[UnpackedProduct, ProductKinds]:
    kinds = ProductKinds.of(instruction.lhs.type.kind, instruction.rhs.type.kind)
    return UnpackedProduct.of(instruction), kinds
