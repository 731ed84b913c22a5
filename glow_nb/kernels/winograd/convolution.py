"""Kernels of Winograd convolutions: fewer products for more additions (see ``cook_toom``)."""

from __future__ import annotations

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.kernels.bilinear.plan import BilinearPlan
from glow_nb.kernels.operators.winograd_instructions import WinogradConvolutionInst
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.guard import GuardedWriter
from glow_nb.kernels.winograd.nest import WinogradNest, is_flat, plan_winograd
from glow_nb.kernels.winograd.writer import WinogradWriter
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits

WINOGRAD = "winograd"
"""The algorithm of tiles whose inputs and results are transformed."""


def plan_winograd_kernel(
    instruction: WinogradConvolutionInst,
    target: Target,
    fusion: Fusion,
) -> Plan:
    """Plan a convolution by Winograd's algorithm.

    Raises:
        UnsupportedError: Tiles have several outputs in too many dimensions, the first of three
            dimensions is dilated, or there are no channels to sum up.
    """
    nest = _nest_of(instruction)
    if not is_flat(nest.shape, instruction.tile):
        raise UnsupportedError(
            f"{instruction!r}: there is no kernel for tiles of {list(instruction.tile)} outputs of "
            f"{list(instruction.kernel)} taps with dilation {list(instruction.dilation)}; choose "
            "one output and a dilation of 1 along the first dimension"
        )
    if nest.shape.channels == 0:
        raise UnsupportedError(
            f"{instruction!r}: the input {instruction.input.type} has no channels, and there is no "
            "kernel for it in Winograd's form; choose packed_convolution"
        )
    return plan_winograd(nest, target).as_plan(WINOGRAD)


@head_kernel_for(
    WinogradConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, strided=("dest", "input")),
    planner=plan_winograd_kernel,
)
def winograd_convolution_source(
    instruction: WinogradConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias)`` of a convolution and its epilogue."""
    nest = _nest_of(instruction)
    plan = BilinearPlan.from_plan(plan_of(instruction, WINOGRAD), nest.volume, target)
    return generate_winograd(nest, plan, fusion)


def _nest_of(instruction: WinogradConvolutionInst) -> WinogradNest:
    shape = ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.depth,
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=instruction.group,
    )
    return WinogradNest(
        shape,
        instruction.tile,
        instruction.input.type.kind,
        instruction.block,
        instruction.guarded,
        instruction.pad_value,
        instruction.filter.type.kind,
    )


def generate_winograd(nest: WinogradNest, plan: BilinearPlan, fusion: Fusion) -> KernelSource:
    """Return the kernel of *nest*, cut up as *plan* says."""
    fusion = fusion.named_by_field()
    form = GuardedWriter if nest.guarded else WinogradWriter
    writer = form(nest.volume, plan, fusion)
    text = writer.write(_title(nest))
    return KernelSource("winograd", text, fusion.kinds, writer.scratch_bytes)


def _title(nest: WinogradNest) -> str:
    shape = nest.shape
    taps, tile = (" x ".join(map(str, sizes)) for sizes in (shape.kernel, nest.tile))
    sizes = " x ".join(map(str, (shape.batch, *shape.input, shape.channels)))
    return (
        f"convolution {taps} by tiles of {tile} of {nest.kind.value}<{sizes}> to {shape.depth} "
        f"channels, stride {shape.stride}, pads {shape.pads}, dilation {shape.dilation}, group "
        f"{shape.group}"
    )
