"""Kernels of convolutions over packed filters."""

from __future__ import annotations

from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst
from glow_nb.kernels.operators.paired import PairedConvolutionInst
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import dot_form
from glow_nb.kernels.products.product_loops import ProductWriter, generate_product
from glow_nb.kernels.products.product_nest import LeftLayout, ProductKinds, ProductNest, run_of
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits


@head_kernel_for(
    PackedConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
)
def packed_convolution_source(
    instruction: PackedConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias)`` of a convolution and its epilogue.

    Raises:
        UnsupportedError: There are no kernels for this kind of elements.
    """
    operands = (instruction.input.type.kind, instruction.filter.type.kind)
    kinds = ProductKinds.of(*operands, dot_form(*operands, instruction.factors, target))
    shape = ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.depth,
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=instruction.group,
    )
    return generate_convolution(instruction, shape, kinds, target, fusion)


def generate_convolution(
    instruction: PackedConvolutionInst | PairedConvolutionInst,
    shape: ConvolutionShape,
    kinds: ProductKinds,
    target: Target,
    fusion: Fusion,
    *,
    writes: type[ProductWriter] | None = None,
) -> KernelSource:
    """Return the kernel of *instruction*, of that *shape*, with loops as *writes* writes them."""
    title, run = shape.description(kinds.left), run_of(shape, kinds.factors)
    shape = shape.simplified()
    left = LeftLayout.by_pixels(shape, elements_between_pixels(fusion.input))
    nest = ProductNest.packed(
        shape, kinds, instruction.block, left=left, run=run, outside=instruction.outside
    )
    return generate_product(nest, target, fusion, family="convolution", title=title, writes=writes)
