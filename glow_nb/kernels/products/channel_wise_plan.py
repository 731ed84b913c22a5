"""The loops of a channel-wise convolution of integers: tiles, lines in scratch, channels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.plan import Plan
from glow_nb.base.types import ElementKind
from glow_nb.kernels.operators.channel_wise import (
    ChannelWiseConvolution,
    ChannelWiseConvolutionInst,
    tap_groups,
)
from glow_nb.kernels.operators.tap_groups import TapGroups
from glow_nb.kernels.products.blocking import registers_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target


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
    """Return the channels whose groups of this number of bytes fill a register."""
    return max(1, 4 * min(target.lanes, target.native_lanes) // group_bytes)


CHANNEL_WISE = "channel_wise"
"""The algorithm whose lanes are channels, of which groups of factors are multiplied at once."""

ChannelWise = ChannelWiseConvolution | ChannelWiseConvolutionInst


def plan_channel_wise(node: ChannelWise, target: Target) -> Plan:
    """Plan a channel-wise convolution: its tiles, and the channels that are in scratch together."""
    dot = dot_named_by(node.plan)
    vectors = 2 if shape_of(node).depth > target.lanes else 1
    plan = Plan.of(CHANNEL_WISE, dot=dot.name, vectors=vectors)
    loops = ChannelWisePlan.of(node, plan, target)
    plan = plan.updated(rows=_rows(loops, registers_of(target, dot)))
    loops = replace(loops, plan=plan)
    return plan.updated(channels=_channels(loops, target.machine.l1_bytes // 2))


def _rows(loops: ChannelWisePlan, registers: int) -> int:
    """Return the pixels of a tile: whole phases, whose sums fill half of the registers."""
    limit = max(registers // 2 // loops.vectors, 4)
    width, phases = loops.shape.output[-1], loops.groups.phases
    tiles = -(-width // limit)
    rows = -(-width // max(1, tiles))
    return -(-rows // phases) * phases


def _channels(loops: ChannelWisePlan, cache_bytes: int) -> int:
    """Return the channels whose lines fit *cache_bytes* of scratch together.

    At least those are that lie in one line of the cache.
    """
    depth, whole = loops.shape.depth, loops.whole_channels
    one = loops.ring * loops.steps * loops.groups.parts * loops.group_bytes
    fitting = cache_bytes // max(1, one)
    wanted = max(fitting, CACHE_LINE_BYTES // loops.kinds.left.size_bytes)
    return -(-min(wanted, depth) // whole) * whole


def shape_of(node: ChannelWise) -> ConvolutionShape:
    """Return the sizes of *node* over lines of pixels."""
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


def _kinds_of(node: ChannelWise) -> tuple[ElementKind, ElementKind]:
    return node.input.type.kind, node.filter.type.kind


@dataclass(frozen=True)
class ChannelWisePlan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        node: The convolution, of either level.
        plan: The settings.
        lanes: Channels of a vector of sums.
        copied: Channels that are copied at once.
    """

    node: ChannelWise
    plan: Plan
    lanes: int
    copied: int

    @classmethod
    def of(cls, node: ChannelWise, plan: Plan, target: Target) -> ChannelWisePlan:
        """Return the loops of *node* in vectors of *target*, with the settings of *plan*."""
        left = node.input.type.kind
        copied = copied_at_once(dot_named_by(plan).group * left.size_bytes, target)
        return cls(node, plan, target.lanes, copied)

    def __post_init__(self) -> None:
        for name, unit in (("rows", self.groups.phases), ("channels", self.whole_channels)):
            if self.plan.has(name) and self.plan.number(name, least=0) % unit:
                raise self.plan.unfit(f"'{name}' must be a multiple of {unit}")

    @property
    def whole_channels(self) -> int:
        """Channels that are summed up and copied as a whole."""
        return max(self.vectors * self.lanes, self.copied)

    @cached_property
    def shape(self) -> ConvolutionShape:
        """The convolution over lines of pixels; of one line, the outer dimension has one."""
        return shape_of(self.node)

    @cached_property
    def kinds(self) -> ProductKinds:
        """The kinds of the operands, and how they are multiplied."""
        return ProductKinds.of(*_kinds_of(self.node), dot_named_by(self.plan))

    @cached_property
    def groups(self) -> TapGroups:
        """The groups of a line of taps."""
        node, factors = self.node, dot_named_by(self.plan).group
        found = tap_groups(node.kernel, node.stride, node.dilation, node.size, factors)
        assert found is not None, "the operator was verified"
        return found

    @property
    def vectors(self) -> int:
        """Vectors of a tile."""
        return self.plan.number("vectors", most=2)

    @property
    def rows(self) -> int:
        """Pixels of a tile, whole phases."""
        return self.plan.rows

    @property
    def chunk(self) -> int:
        """Channels whose lines are in scratch together."""
        return self.plan.number("channels", least=min(1, self.shape.depth))

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
