"""Kernels of convolutions over packed filters."""

from __future__ import annotations

from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst
from glow_nb.kernels.operators.paired import PairedConvolutionInst
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops
from glow_nb.kernels.products.operand_copies import nest_of_plan, plan_panels, writer_of
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.product_nest import LeftLayout, ProductKinds, ProductNest, run_of
from glow_nb.kernels.products.product_plan import DIRECT
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits


def plan_convolution(instruction: PackedConvolutionInst, target: Target, fusion: Fusion) -> Plan:
    """Plan a convolution of a filter in panels, and its epilogue."""
    nest = _nest_of(instruction, fusion)
    return plan_panels(nest, target, fusion)


@head_kernel_for(
    PackedConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
    planner=plan_convolution,
)
def packed_convolution_source(
    instruction: PackedConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias)`` of a convolution and its epilogue.

    Raises:
        UnsupportedError: There are no kernels for this kind of elements.
    """
    plan = plan_of(instruction, DIRECT)
    nest = nest_of_plan(_nest_of(instruction, fusion), plan)
    loops = Loops.from_plan(nest, plan, lanes_of(nest.kinds.total, target))
    title = shape_of(instruction).description(nest.kinds.left)
    return generate_product(
        nest, loops, fusion, family="convolution", title=title, writes=writer_of(nest)
    )


def shape_of(instruction: PackedConvolutionInst) -> ConvolutionShape:
    """Return the sizes of *instruction*."""
    return ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.depth,
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=instruction.group,
    )


def _nest_of(instruction: PackedConvolutionInst, fusion: Fusion) -> ProductNest:
    dot = dot_named_by(instruction.plan)
    kinds = ProductKinds.of(instruction.input.type.kind, instruction.filter.type.kind, dot)
    return convolution_nest(instruction, shape_of(instruction), kinds, fusion)


def convolution_nest(
    instruction: PackedConvolutionInst | PairedConvolutionInst,
    shape: ConvolutionShape,
    kinds: ProductKinds,
    fusion: Fusion,
) -> ProductNest:
    """Return the nest of *instruction*, of that *shape*."""
    run, shape = run_of(shape, kinds.factors), shape.simplified()
    left = LeftLayout.by_pixels(shape, elements_between_pixels(fusion.input))
    return ProductNest.packed(
        shape, kinds, instruction.block, left=left, run=run, outside=instruction.pad_value
    )
