"""Kernels of matrix products over packed matrices."""

from __future__ import annotations

from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.kernels.operators.packed_instructions import PackedMatMulInst
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.operand_copies import nest_of_plan, plan_panels, writer_of
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.product_nest import LeftLayout, ProductKinds, ProductNest
from glow_nb.kernels.products.product_plan import DIRECT, few_rows
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits


def plan_mat_mul(instruction: PackedMatMulInst, target: Target, fusion: Fusion) -> Plan:
    """Plan a product with a matrix in panels, and its epilogue."""
    nest = _nest_of(instruction, fusion)
    plan = plan_panels(nest, target, fusion)
    few = few_rows(nest, target, in_any_case=plan.is_set("widened"))
    return plan if few is None else plan.updated(**few.as_few())


@head_kernel_for(
    PackedMatMulInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "lhs")),
    planner=plan_mat_mul,
    sees_open_sizes=True,
)
def packed_mat_mul_source(
    instruction: PackedMatMulInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, lhs, rhs[, bias])`` of a matrix product and its epilogue.

    Raises:
        UnsupportedError: There are no kernels for this kind of elements.
    """
    plan, shape = plan_of(instruction, DIRECT), _shape_of(instruction)
    nest = nest_of_plan(_nest_of(instruction, fusion), plan)
    loops = Loops.from_plan(nest, plan, lanes_of(nest.kinds.total, target))
    sizes = f"{shape.batch} x {shape.rows} x {shape.inner}"
    title = f"product of {nest.kinds.left.value}<{sizes}> and {shape.depth} columns"
    few = Loops.few_from_plan(nest.by_vectors(), plan, loops.lanes)
    return generate_product(
        nest, loops, fusion, family="mat_mul", title=title, writes=writer_of(nest), few=few
    )


def _shape_of(instruction: PackedMatMulInst) -> MatMulShape:
    is_batched = len(instruction.rhs.type.shape) > len(("panels", "inner", "block"))
    return MatMulShape.of(instruction.lhs.type.shape, instruction.depth, is_batched=is_batched)


def _nest_of(instruction: PackedMatMulInst, fusion: Fusion) -> ProductNest:
    shape, dot = _shape_of(instruction), dot_named_by(instruction.plan)
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
    return ProductNest.packed(
        line,
        ProductKinds.of(instruction.lhs.type.kind, instruction.rhs.type.kind, dot),
        instruction.block,
        filter_per_image=shape.batch not in (0, 1),
        left=LeftLayout.by_pixels(line, elements_between_pixels(fusion.input)),
    )
