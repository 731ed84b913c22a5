"""Kernels of depthwise convolutions and of those with few channels in a group: their plans.

A tile is some neighbouring pixels of one output line by up to two vectors of channels, which
:mod:`.depthwise_writer` writes.
"""

from __future__ import annotations

from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.operators.packed_instructions import (
    DepthwiseConvolutionInst,
    GroupedConvolutionInst,
)
from glow_nb.kernels.products.blocking import lanes_for, lanes_of, registers_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.depthwise_writer import DepthwiseWriter
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.llir.traits import KernelTraits

MIN_PIXELS, MAX_PIXELS, MIN_SUMS = 4, 12, 6
MOST_CHAINED_PRODUCTS = 64
"""Products of a grouped convolution that are summed up one after the other."""

DEPTHWISE = "depthwise"
"""The algorithm whose lanes are channels: each is convolved by itself, or with few others."""

DepthwiseInst = DepthwiseConvolutionInst | GroupedConvolutionInst


def plan_depthwise(instruction: DepthwiseInst, target: Target, fusion: Fusion) -> Plan:
    """Plan the tiles of a convolution, and how many panels of channels are taken at once."""
    shape, kinds = _shape_of(instruction).simplified(keeps_lines=True), _kinds_of(instruction)
    lanes = lanes_of(kinds.total, target)
    vectors, pixels = tile_size(shape, lanes, registers_of(target))
    plan = Plan.of(DEPTHWISE, vectors=vectors, rows=pixels)
    writer = DepthwiseWriter(shape, kinds, plan, lanes, fusion.named_by_field())
    return plan.updated(rows=writer.cut.rows, panels=writer.chunk_in(target.machine.l1_bytes // 2))


@head_kernel_for(
    DepthwiseConvolutionInst,
    GroupedConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
    planner=plan_depthwise,
)
def depthwise_convolution_source(
    instruction: DepthwiseInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias)`` of a convolution and its epilogue.

    Raises:
        UnsupportedError: There are no kernels for this kind of elements.
    """
    family = "grouped" if isinstance(instruction, GroupedConvolutionInst) else "depthwise"
    shape, kinds = _shape_of(instruction), _kinds_of(instruction)
    plan = plan_of(instruction, DEPTHWISE)
    fusion, lanes = fusion.named_by_field(), lanes_of(kinds.total, target)
    writer = DepthwiseWriter(shape.simplified(keeps_lines=True), kinds, plan, lanes, fusion)
    text = writer.write(f"{family} {shape.description(kinds.left)}")
    scratch_bytes = writer.scratch_elements * kinds.left.size_bytes
    return KernelSource(family, text, fusion.kinds, scratch_bytes)


def _shape_of(instruction: DepthwiseInst) -> ConvolutionShape:
    is_grouped = isinstance(instruction, GroupedConvolutionInst)
    size = instruction.filter.type.shape[-2] if is_grouped else 1
    return ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.bias.type.size,
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=instruction.input.type.shape[-1] // size,
    )


def _kinds_of(instruction: DepthwiseInst) -> ProductKinds:
    return ProductKinds.of(instruction.input.type.kind, instruction.filter.type.kind)


def suits_lanes(shape: ConvolutionShape, kind: ElementKind, lanes: int) -> bool:
    """Return whether whole groups of several channels share a vector, for *lanes* of ``float32``.

    The sums are single chains of at most ``MOST_CHAINED_PRODUCTS`` products.
    """
    size = shape.channels_per_group
    is_square = 1 < size == shape.depth_per_group
    wide = lanes_for(kind, lanes)
    return is_square and size < wide and wide % size == 0 and shape.steps <= MOST_CHAINED_PRODUCTS


def tile_size(shape: ConvolutionShape, lanes: int, registers: int) -> tuple[int, int]:
    """Return vectors and most pixels of a tile, so that a line of the window fits the registers.

    Two vectors are better than one, since they are what lies in one line of the cache. Where too
    few pixels would be left, since sums that are few wait for each other, the weights are operands
    in memory.
    """
    if shape.channels_per_group == 1:
        for vectors in range(min(2, -(-shape.depth // lanes)), 0, -1):
            pixels = (registers - 2) // vectors - shape.kernel[-1]
            if pixels >= MIN_PIXELS and pixels * vectors >= MIN_SUMS:
                return vectors, min(pixels, MAX_PIXELS)
    return 1, min(max(registers - 6, MIN_PIXELS), MAX_PIXELS)
