"""How a channel-wise convolution of integers is cut up: tiles, lines in scratch, channels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glow_nb.kernels.operators.channel_wise import (
    ChannelWiseConvolution,
    ChannelWiseConvolutionInst,
    tap_groups,
)
from glow_nb.kernels.operators.tap_groups import TapGroups
from glow_nb.kernels.products.blocking import registers_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import dot_form
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

LINE_BYTES = 64
"""Bytes of a line of the cache, of which at least one is copied of a pixel, if it has so many."""


def suits_steps(shape: ConvolutionShape, left: ElementKind, factors: int, target: Target) -> bool:
    """Return whether a convolution of *left* elements has a kernel in groups of *factors*.

    Its channels are convolved by themselves, or in groups of which whole ones are copied at once;
    if a channel has several results, these are copied at once.
    """
    size, results = shape.channels_per_group, shape.depth_per_group
    copied = copied_at_once(factors * left.size_bytes, target)
    fits = size == 1 or size == results
    groups = tap_groups(shape.kernel, shape.stride, shape.dilation, size, factors)
    return fits and copied % results == 0 and shape.rank <= len("yx") and groups is not None


def copied_at_once(group_bytes: int, target: Target) -> int:
    """Return the channels whose groups of so many bytes fill a register."""
    return max(1, 4 * min(target.lanes, target.native_lanes) // group_bytes)


@dataclass(frozen=True)
class ChannelWisePlan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        node: The convolution, of either level.
        target: The processor.
    """

    node: ChannelWiseConvolution | ChannelWiseConvolutionInst
    target: Target

    @cached_property
    def shape(self) -> ConvolutionShape:
        """The convolution over lines of pixels; of one line, the outer dimension has one."""
        node = self.node
        shape = ConvolutionShape.of(
            node.input.type.shape,
            node.bias.type.size,
            node.kernel,
            node.pads,
            stride=node.stride,
            dilation=node.dilation,
            group=node.input.type.shape[-1] // node.size,
        )
        return shape if shape.rank > 1 else shape.as_lines()

    @cached_property
    def kinds(self) -> ProductKinds:
        """The kinds of the operands, and how they are multiplied."""
        node = self.node
        kinds = (node.input.type.kind, node.filter.type.kind)
        return ProductKinds.of(*kinds, dot_form(*kinds, node.factors, self.target))

    @cached_property
    def groups(self) -> TapGroups:
        """The groups of a line of taps."""
        node = self.node
        found = tap_groups(node.kernel, node.stride, node.dilation, node.size, node.factors)
        assert found is not None, "the operator was verified"
        return found

    @property
    def lanes(self) -> int:
        """Channels of a vector of sums."""
        return self.target.lanes

    @cached_property
    def vectors(self) -> int:
        """Vectors of a tile."""
        return 2 if self.shape.depth > self.lanes else 1

    @cached_property
    def rows(self) -> int:
        """Pixels of a tile: whole phases, and as many sums as half of the registers hold."""
        registers = registers_of(self.target, self.kinds.form)
        limit = max(registers // 2 // self.vectors, 4)
        width, phases = self.shape.output[-1], self.groups.phases
        tiles = -(-width // limit)
        rows = -(-width // max(1, tiles))
        return -(-rows // phases) * phases

    @property
    def copied(self) -> int:
        """Channels that are copied at once."""
        return copied_at_once(self.group_bytes, self.target)

    @property
    def group_bytes(self) -> int:
        """Bytes of a group of factors."""
        return self.groups.factors * self.kinds.left.size_bytes

    @cached_property
    def ring(self) -> int:
        """Lines in scratch, a power of two."""
        return 1 << (self.shape.reach[0] - 1).bit_length()

    @cached_property
    def steps(self) -> int:
        """Steps of a line."""
        tiles = -(-self.shape.output[-1] // self.rows)
        return self.groups.steps(tiles * self.rows)

    @cached_property
    def chunk(self) -> int:
        """Channels whose lines are in scratch together: as many as fit half of L1.

        At least those are that lie in one line of the cache.
        """
        depth, whole = self.shape.depth, max(self.vectors * self.lanes, self.copied)
        one = self.ring * self.steps * self.groups.parts * self.group_bytes
        fitting = self.target.machine.l1_bytes // 2 // max(1, one)
        wanted = max(fitting, LINE_BYTES // self.kinds.left.size_bytes)
        return -(-min(wanted, depth) // whole) * whole

    @property
    def step_elements(self) -> int:
        """Elements of scratch from step to step."""
        return self.groups.parts * self.part_elements

    @property
    def part_elements(self) -> int:
        """Elements of scratch from part to part of a step."""
        return self.chunk * self.groups.factors

    @property
    def line_elements(self) -> int:
        """Elements of scratch from line to line."""
        return self.steps * self.step_elements

    @property
    def seen(self) -> int:
        """Pixels that the groups of a step are made of."""
        return self.groups.factors if self.node.size == 1 else 1

    @property
    def multiplier(self) -> int:
        """Results of a channel that is convolved by itself."""
        return self.shape.depth_per_group if self.node.size == 1 else 1
