"""Kernels of Winograd convolutions: fewer products for more additions (see ``cook_toom``)."""

from __future__ import annotations

from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.register_tiles import Epilogue, result_pointers
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.guard import GuardedWriter
from glow_nb.kernels.winograd.plan import WinogradNest, WinogradPlan, plan_winograd
from glow_nb.kernels.winograd.writer import WinogradWriter
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.program import Buffer, pixel_stride
from glow_nb.llir.traits import KernelTraits


def generate_winograd(
    nest: WinogradNest,
    target: Target,
    epilogue: Epilogue | None = None,
    plan: WinogradPlan | None = None,
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias, *epilogue operands)`` of a convolution.

    Input ``[N, *spatial, C]``, filter ``[group, panels, *n, C / group, block]``, transformed, bias
    ``[group * panels * block]``, dest ``[N, *out, depth]``, where
    ``panels = ceil(depth / group / block)``.

    Args:
        nest: What to compute.
        target: The processor.
        epilogue: What to do with each vector of results before it is stored.
        plan: How to cut it up, if not by :func:`plan_winograd`.
    """
    form = GuardedWriter if nest.guarded else WinogradWriter
    writer = form(nest.plane, plan or plan_winograd(nest, target), epilogue)
    extra = [kind for _, kind in epilogue.operands] if epilogue else []
    results = [kind for _, kind in result_pointers(epilogue, nest.kind)]
    kinds = (*results, *[nest.kind] * 3, *extra)
    text = writer.write(_title(nest))
    return KernelSource("winograd", text, kinds, writer.scratch.size * nest.kind.size_bytes)


def _title(nest: WinogradNest) -> str:
    shape = nest.shape
    taps, tile = (" x ".join(map(str, sizes)) for sizes in (shape.kernel, nest.tile))
    sizes = " x ".join(map(str, (shape.batch, *shape.input, shape.channels)))
    return (
        f"convolution {taps} by tiles of {tile} of {nest.kind.value}<{sizes}> to {shape.depth} "
        f"channels, pads {shape.pads}, group {shape.group}"
    )


@kernel_for(WinogradConvolutionInst, traits=KernelTraits(fuses_epilogue=True, strided=("dest",)))
def winograd_convolution_source(
    instruction: WinogradConvolutionInst,
    target: Target,
    epilogue: Epilogue | None = None,
    dest: Buffer | None = None,
) -> KernelSource:
    """Return the kernel of an instruction whose stack ends in *epilogue* and writes *dest*."""
    dest = dest or instruction.dest
    shape = ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.depth,
        instruction.kernel,
        instruction.pads,
        group=instruction.group,
    )
    nest = WinogradNest(
        shape,
        instruction.tile,
        instruction.input.type.kind,
        instruction.block,
        None if dest.is_contiguous else pixel_stride(dest),
        instruction.guarded,
    )
    return generate_winograd(nest, target, epilogue)
