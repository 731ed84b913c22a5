"""Kernels of convolutions over packed filters."""

from __future__ import annotations

from glow_nb.kernels.operators.packed_instructions import PackedConvolutionInst
from glow_nb.kernels.products.convolution_plan import ProductNest, choose_convolution_block
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_loops import generate_product
from glow_nb.kernels.products.register_tiles import Epilogue
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Buffer, pixel_stride
from glow_nb.llir.traits import KernelTraits
from glow_nb.types import ElementKind

__all__ = ["ConvolutionShape", "choose_convolution_block", "generate_convolution"]


def generate_convolution(
    shape: ConvolutionShape,
    kind: ElementKind,
    block: int,
    target: Target,
    epilogue: Epilogue | None = None,
    dest_stride: int | None = None,
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias, *epilogue operands)`` of a convolution.

    Input ``[N, *spatial, C]``, filter ``[group, panels, *kernel, C / group, block]``, bias
    ``[group * panels * block]``, dest ``[N, *out, depth]``, where
    ``panels = ceil(depth / group / block)``.

    Args:
        shape: Sizes of the convolution.
        kind: Element kind of all operands.
        block: Output channels of one panel, a multiple of the lanes;
            see :func:`choose_convolution_block`.
        target: The processor.
        epilogue: What to do with each vector of results before it is stored.
        dest_stride: Elements of dest from pixel to pixel; the depth if not given.

    Raises:
        UnsupportedError: There are no kernels for *kind*.
    """
    nest = ProductNest(shape.simplified(), kind, block, dest_stride=dest_stride)
    taps = " x ".join(map(str, shape.kernel))
    sizes = " x ".join(map(str, (shape.batch, *shape.input, shape.channels)))
    title = (
        f"convolution {taps} of {kind.value}<{sizes}> to {shape.depth} channels, stride "
        f"{shape.stride}, pads {shape.pads}, dilation {shape.dilation}, group {shape.group}"
    )
    return generate_product(
        nest,
        target,
        family="convolution",
        names=("input", "filter", "bias"),
        title=title,
        epilogue=epilogue,
    )


@kernel_for(
    PackedConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest",)),
)
def packed_convolution_source(
    instruction: PackedConvolutionInst,
    target: Target,
    epilogue: Epilogue | None = None,
    dest: Buffer | None = None,
) -> KernelSource:
    """Return the kernel of an instruction whose stack ends in *epilogue* and writes *dest*."""
    dest = dest or instruction.dest
    stride = None if dest.is_contiguous else pixel_stride(dest)
    shape = ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.depth,
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=instruction.group,
    )
    kind = instruction.input.type.kind
    return generate_convolution(shape, kind, instruction.block, target, epilogue, stride)
