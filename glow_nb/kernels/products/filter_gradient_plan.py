"""The loops of the gradient of a filter: chunks of pixels, strips of rows, panels of columns.

The gradient of the filter is a matrix product for each tap: rows are channels of the convolution's
result, columns its input channels, and the sum runs over all pixels of the result. Pixels are taken
in *chunks* of whole lines, or pieces of one line, that are contiguous in the gradient and at most
one chain of sums long. Of a chunk the gradient is copied to scratch in *strips*, as wide as a
register tile has rows, and the input in *slabs*, as wide as a panel. A slab serves all taps: each
reads it from another pixel on, and leaves out the lines and pixels where it lies in padding.

Where a slab of few channels would leave lanes without work, the taps along the last dimension,
whose inputs are neighbours in memory, are columns as well. If the channels of the gradient fill the
lanes better then, the product is *transposed*: they are the columns, and the taps of a line the
rows. Neither is copied but for the padding: both lie as a register tile reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.plan import Plan
from glow_nb.base.size import Size
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import (
    MAX_VECTORS,
    Columns,
    Cut,
    lanes_of,
    line_cycles,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.caches import LONGEST_CHAIN, level_2_bytes, longest_dot
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.target import Target

VOLUME = 3
"""Dimensions that a kernel is written for; what has fewer gets dimensions of size 1 in front."""


@dataclass(frozen=True)
class TapAxis:
    """One spatial dimension: output ``o`` and tap ``t`` meet input ``o * stride + t * dilation -
    begin``, number ``i`` of which is number ``i * step + offset`` in memory.

    Attributes:
        outputs, inputs, taps: Sizes.
        stride, dilation, begin: Those attributes of the convolution.
        memory: Inputs in memory, of which those that no tap meets are not counted.
        step, offset: See above.
    """

    outputs: int
    inputs: int
    taps: int
    stride: int
    dilation: int
    begin: int
    memory: int
    step: int = 1
    offset: int = 0

    @classmethod
    def of(cls, shape: ConvolutionShape, axis: int) -> TapAxis:
        """Return dimension *axis* of *shape*."""
        outputs, inputs, taps = shape.output[axis], shape.input[axis], shape.kernel[axis]
        stride, begin = shape.stride[axis], shape.begins[axis]
        if taps > 1 or stride == 1:
            return cls(outputs, inputs, taps, stride, shape.dilation[axis], begin, inputs)
        first = -(-begin // stride)
        met = (inputs - 1 + begin) // stride + 1 - first
        offset = first * stride - begin
        return cls(outputs, met, 1, 1, 1, first, inputs, stride, offset)

    @property
    def reach(self) -> int:
        """Inputs from the first to the last tap, both included."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def is_plain(self) -> bool:
        """Return whether each output meets the one input at its place."""
        has_one = self.taps == self.stride == self.step == 1
        return has_one and not self.begin and self.outputs == self.inputs

    def needed(self, outputs: int) -> int:
        """Return the inputs, those in padding counted, that neighbouring *outputs* meet."""
        return (outputs - 1) * self.stride + self.reach


@dataclass(frozen=True)
class FilterGradientNest:
    """The gradient of a filter, in three dimensions.

    Attributes:
        axes: The spatial dimensions.
        batch: Images.
        channels: Input channels of a group.
        depth: Output channels of a group.
        group: Number of groups.
        parts: Sums to make, each over a part of the lines.
        kind: Element kind of all operands.
        joins_taps: The taps of the last dimension are columns, or rows of the transposed product.
        is_transposed: Columns are the output channels.
    """

    axes: tuple[TapAxis, ...]
    batch: int
    channels: int
    depth: int
    group: int
    parts: int
    kind: ElementKind
    joins_taps: bool
    is_transposed: bool = False

    @classmethod
    def of(
        cls,
        shape: ConvolutionShape,
        parts: int,
        kind: ElementKind,
        target: Target,
        *,
        is_transposed: bool = False,
    ) -> FilterGradientNest:
        """Return the gradient of the filter of *shape* in *parts* parts."""
        axes = [TapAxis.of(shape, axis) for axis in range(shape.rank)]
        batch = shape.batch
        if all(axis.is_plain for axis in axes):  # a line is an image
            batch, axes = batch * prod(shape.output[:-1]), axes[-1:]
        axes = [TapAxis(1, 1, 1, 1, 1, 0, 1)] * (VOLUME - len(axes)) + axes
        last, channels, lanes = axes[-1], shape.channels_per_group, lanes_of(kind, target)
        apart, together = last.taps * -(-channels // lanes), -(-last.taps * channels // lanes)
        joins = is_transposed or (can_transpose(shape) and together < apart)
        depth = shape.depth_per_group
        return cls(
            tuple(axes), batch, channels, depth, shape.group, parts, kind, joins, is_transposed
        )

    @property
    def lines(self) -> int:
        """Lines of the gradient."""
        return self.batch * self.axes[0].outputs * self.axes[1].outputs

    @property
    def inner(self) -> int:
        """Elements of the input that meet a gradient in one matrix: channels of one tap or more."""
        return self.channels * (self.axes[-1].taps if self.joins_taps else 1)

    @property
    def rows(self) -> int:
        """Rows of one matrix."""
        return self.inner if self.is_transposed else self.depth

    @property
    def columns(self) -> int:
        """Columns of one matrix."""
        return self.depth if self.is_transposed else self.inner

    @property
    def taps(self) -> int:
        """Matrices."""
        return prod(axis.taps for axis in self.axes[: 2 if self.joins_taps else 3])

    @property
    def is_plain(self) -> bool:
        """Return whether pixels of the input and of the gradient are the same."""
        return all(axis.is_plain for axis in self.axes)


FILTER_GRADIENT = "filter_gradient"
"""The algorithm that sums up products of pixels, chunk by chunk."""


@dataclass(frozen=True)
class FilterGradientPlan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        lanes: Elements of a vector.
        columns: Columns of one matrix in panels.
        cut: Rows of one matrix in strips.
        block_strips: Strips of a block, the gradient of which stays in the second-level cache.
        chunk_lines: The most lines of a chunk, all of one image or of whole images.
        pieces: Pieces of a line; where there are several, a chunk is one of them.
        step_cycles: The estimated time of one step of the sums, in all tiles of one matrix.
    """

    lanes: int
    columns: Columns
    cut: Cut
    block_strips: int
    chunk_lines: int
    pieces: int
    step_cycles: float

    @classmethod
    def of(cls, nest: FilterGradientNest, target: Target) -> FilterGradientPlan:
        """Cut up *nest* for *target*."""
        lanes = lanes_of(nest.kind, target)
        widths = rank_blocks(
            nest.columns, target, pixels=nest.rows, steps=LONGEST_CHAIN, kind=nest.kind
        )
        columns = Columns(nest.columns, widths[0], lanes)
        cut = Cut.balanced(max(1, nest.rows), row_limit(columns.vectors, registers_of(target)))
        limit = LONGEST_CHAIN
        if nest.is_transposed or not nest.joins_taps:
            limit = longest_dot(columns.block * nest.kind.size_bytes, target)
        lines, pieces = chunk_of(nest, limit)
        width = nest.axes[-1].outputs
        strip_bytes = lines * -(-width // pieces) * cut.rows * nest.kind.size_bytes
        strips = max(1, level_2_bytes(target) // max(1, strip_bytes))
        block_strips = balanced(cut.tiles, strips)
        cycles = _step_cycles(columns, cut, target)
        return cls(lanes, columns, cut, block_strips, lines, pieces, cycles)

    def as_plan(self) -> Plan:
        """Return the plan that :meth:`from_plan` makes this of."""
        return Plan.of(
            FILTER_GRADIENT,
            block=self.columns.block,
            rows=self.cut.rows,
            strips=self.block_strips,
            lines=self.chunk_lines,
            pieces=self.pieces,
        )

    @classmethod
    def from_plan(cls, plan: Plan, nest: FilterGradientNest, target: Target) -> FilterGradientPlan:
        """Return the loops of *nest* in vectors of *target*, with the settings of *plan*."""
        lanes = lanes_of(nest.kind, target)
        columns = Columns(nest.columns, plan.number("block", most=MAX_VECTORS * lanes), lanes)
        cut = Cut.balanced(max(1, nest.rows), plan.rows)
        lines, pieces, height = plan.number("lines"), plan.number("pieces"), nest.axes[-2].outputs
        is_cut = not isinstance(height, Size) and lines > height and lines % max(1, height)
        if (pieces > 1 and lines > 1) or is_cut:
            raise plan.unfit(f"a chunk is lines of one image of {height}, or pieces of one line")
        return cls(
            lanes,
            columns,
            cut,
            plan.number("strips"),
            lines,
            pieces,
            _step_cycles(columns, cut, target),
        )

    def chunk_pixels(self, nest: FilterGradientNest) -> int:
        """Return the most pixels of a chunk."""
        return self.chunk_lines * -(-nest.axes[-1].outputs // self.pieces)


def _step_cycles(columns: Columns, cut: Cut, target: Target) -> float:
    """Estimate one step of the sums, in all tiles of one matrix."""
    near = target.machine.l1_panel_bytes
    cycles = columns.full * line_cycles(cut, columns.vectors, near, target)
    if columns.tail:
        cycles += line_cycles(cut, columns.tail_vectors, near, target)
    return cycles


def can_transpose(shape: ConvolutionShape) -> bool:
    """Return whether the taps of the last dimension of *shape* can be rows or columns."""
    return shape.dilation[-1] == shape.group == 1 < shape.kernel[-1]


def chunk_of(nest: FilterGradientNest, limit: int) -> tuple[int, int]:
    """Return the most lines of a chunk of at most *limit* pixels, and the pieces of each line."""
    width, height = nest.axes[-1].outputs, nest.axes[-2].outputs
    if not (width and nest.lines):
        return 1, 1
    if width > limit:
        return 1, -(-width // limit)
    lines = min(limit // width, nest.lines)
    if lines < height:
        return balanced(height, lines), 1
    return balanced(nest.lines // height, lines // height) * height, 1


def balanced(count: int, most: int) -> int:
    """Return the size of the largest of as few even parts of *count* as have at most *most*."""
    return -(-count // -(-count // max(1, most))) if count else 1
