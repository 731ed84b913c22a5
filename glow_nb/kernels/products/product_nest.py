"""The problem of a product kernel: sizes, kinds of its operands, and their places in memory.

Convolutions and matrix products are one nest of loops. ``pixels`` are the output pixels of a
convolution or the rows of the left matrix; the left operand is the input or the left matrix, the
right one the filter or the right matrix, in panels of ``block`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import DOTS, MATRIX_ROWS, SINGLE, DotInstruction, groups_at_once
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.size import symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.hlir.ops.families import sum_kind
from glow_nb.kernels.operators.panels import joins_taps, runs_of
from glow_nb.kernels.products.coded_weights import CodedWeights
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matrix_rows import as_runs, joins_runs
from glow_nb.kernels.writing.vectors import computed_kind


@dataclass(frozen=True)
class ProductKinds:
    """The kinds of elements that take part in a product, and how they are multiplied.

    Attributes:
        left: Kind of the input or left matrix in memory; widened to ``total`` when it is read.
        right: Kind of the filter or right matrix in memory; likewise.
        total: Kind of the sums while they are computed, in registers and scratch.
        dot: The dot instruction, with the number of neighbouring factors that it multiplies.
        is_widened: Tiles read copies of both operands in scratch that have the kind of the sums.
    """

    left: ElementKind
    right: ElementKind
    total: ElementKind
    dot: DotInstruction = SINGLE
    is_widened: bool = False

    @classmethod
    def of(
        cls, left: ElementKind, right: ElementKind | None = None, dot: DotInstruction = SINGLE
    ) -> ProductKinds:
        """Return those of the product of tensors of *left* and *right*, by default the same.

        Raises:
            UnsupportedError: Groups of such elements cannot be multiplied.
        """
        right = right or left
        total = sum_kind(left, right)
        assert total is not None, f"{left} and {right} have no product"  # no node is made of them
        if not dot.multiplies(left, right):
            raise UnsupportedError(
                f"products of {left.value} and {right.value}: {dot.name!r} multiplies others; "
                "name another dot instruction"
            )
        return cls(left, right, computed_kind(total), dot)

    @property
    def factors(self) -> int:
        """Neighbouring factors of a sum that are multiplied at once."""
        return self.dot.group

    @property
    def staged(self) -> ElementKind:
        """Kind in which the left elements are multiplied; others are copied to scratch in it."""
        return self.total if self.is_widened else self.dot.staged_kind(self.left)

    @property
    def near(self) -> ElementKind:
        """Kind of the right elements where tiles read them, in the operand or a copy of it."""
        return self.total if self.is_widened else self.right


@dataclass(frozen=True)
class LeftLayout:
    """Where the left operand lies: distances in elements.

    Attributes:
        pixel: From pixel to pixel, or from row to row of a matrix.
        step: From one factor of a sum to the next: from channel to channel.
        image: From image to image, or from matrix to matrix.
    """

    pixel: int
    step: int
    image: int

    @classmethod
    def by_pixels(cls, shape: ConvolutionShape, pixel: int) -> LeftLayout:
        """Return that of a tensor ``[image, *pixels, channel]`` with *pixel* elements for each."""
        return cls(pixel, 1, prod(shape.input) * pixel)


@dataclass(frozen=True)
class RightLayout:
    """Where the right operand lies: distances in elements.

    Attributes:
        row: From one factor of a sum, or one group of factors, to the next, each with ``block``
            neighbouring columns.
        panel: From panel to panel.
        image: From the panels of one image to those of the next; 0 if they share them.
        is_padded: The last panel has as many columns as the others, which may be read.
        column: From column to column; only what is copied may have others than neighbours.
        is_copied: A panel's part of an inner block is copied to scratch for the tiles, where
            columns are neighbours and rows have no gaps.
    """

    row: int
    panel: int
    image: int = 0
    is_padded: bool = True
    column: int = 1
    is_copied: bool = False


@dataclass(frozen=True)
class ProductNest:
    """A product to write a kernel for, in as few dimensions as possible.

    Attributes:
        shape: Sizes; a matrix product is a convolution of one line of pixels with one tap.
        kinds: Kinds of the operands and of the sums. The result is converted when it is stored.
        block: Columns of one panel of the right operand.
        left: Where the left operand lies.
        right: Where the right operand lies.
        run: Factors of a sum that lie side by side in both operands; of the right one, groups of
            factors follow, the last of which is filled up with zeros.
        outside: The number that left elements outside the input count as.
        codes: The integers that the right elements, floats then, are made of.
        runs_of: The convolution whose runs the left rows are, None if they are pixels.
        copies_rows: Left rows are copied to planes for matrix registers, though they could be read
            where they lie.
    """

    shape: ConvolutionShape
    kinds: ProductKinds
    block: int
    left: LeftLayout
    right: RightLayout
    run: int
    outside: int = 0
    codes: CodedWeights | None = None
    runs_of: ConvolutionShape | None = None
    copies_rows: bool = False

    def __post_init__(self) -> None:
        """Check that the steps of matrix registers take all groups of a left row."""
        if self.kinds.dot.is_matrix and self.shape.channels_per_group % self.kinds.factors:
            raise UnsupportedError(
                f"{self.shape.channels_per_group} neighbours: steps of {self.kinds.dot.name!r} do "
                "not take them all in groups; name another dot instruction"
            )

    @classmethod
    def packed(
        cls,
        shape: ConvolutionShape,
        kinds: ProductKinds,
        block: int,
        *,
        filter_per_image: bool = False,
        left: LeftLayout | None = None,
        run: int | None = None,
        outside: int = 0,
    ) -> ProductNest:
        """Return the product of a left operand and a right one in panels.

        Args:
            shape: Sizes; of a convolution in matrix registers whose left rows are runs, those of
                its pixels.
            kinds: Kinds of the operands and of the sums.
            block: Columns of a panel.
            filter_per_image: Each image has panels of its own (a batched matrix product).
            left: Where the left operand lies, by default without gaps.
            run: Factors that lie side by side, by default the channels of a group.
            outside: The number that left elements outside the input count as.
        """
        left = left or LeftLayout.by_pixels(shape, shape.channels)
        runs_of = None
        if kinds.dot.is_matrix and joins_runs(shape, kinds.factors):
            runs_of, shape = shape, as_runs(shape, kinds.factors)
            run = shape.channels
        run = shape.channels_per_group if run is None else run
        row = block * kinds.factors
        panel = shape.steps // max(1, run) * -(-run // kinds.factors) * row
        panels = shape.group * -(-shape.depth_per_group // block)
        right = RightLayout(row, panel, panels * panel if filter_per_image else 0)
        return cls(shape, kinds, block, left, right, run, outside, runs_of=runs_of)

    def with_rows(self, rows: int) -> ProductNest:
        """Return the same product of one matrix of *rows* rows."""
        return replace(self, shape=replace(self.shape, batch=1, input=(rows,)))

    def by_vectors(self) -> ProductNest:
        """Return the same product of the same panels, by vectors of what lies in memory."""
        dot = self.kinds.dot
        if self.kinds.is_widened:
            kinds, right = (
                replace(self.kinds, is_widened=False),
                replace(self.right, is_copied=False),
            )
            return replace(self, kinds=kinds, right=right)
        if not dot.is_matrix:
            return self
        kinds = replace(self.kinds, dot=DOTS[dot.vectors])
        return replace(self, kinds=kinds, copies_rows=False)

    def in_planes(self) -> ProductNest:
        """Return the same product of left rows that are copied to planes for matrix registers."""
        return replace(self, copies_rows=True)

    def widened(self) -> ProductNest:
        """Return the same product of panels, of which tiles read copies of the sums' kind."""
        kinds, right = replace(self.kinds, is_widened=True), replace(self.right, is_copied=True)
        return replace(self, kinds=kinds, right=right)

    @property
    def is_staged(self) -> bool:
        """Return whether what a block reads of the left operand is copied to scratch.

        There it lies between what counts as outside, as the kind that is multiplied, and the last
        group of factors may be read beyond its end.
        """
        if self.runs_of is not None or self.copies_rows:
            return True
        has_tail = self.run % self.kinds.dot.width != 0
        spans_pixels = self.run > self.shape.channels_per_group
        has_gaps = spans_pixels and self.left.pixel != self.shape.channels
        is_apart = has_gaps and self.kinds.dot.is_paired  # a run is read as one piece of memory
        is_wide = self.kinds.staged is not self.kinds.left
        return self.shape.is_padded or has_tail or is_apart or is_wide

    @property
    def is_in_planes(self) -> bool:
        """Return whether the copy of the left operand lies in planes, one after the other.

        A plane has one cache line of each pixel, which a step of matrix registers reads: the rows
        that it reads follow one another then.
        """
        return self.kinds.dot.is_matrix and self.is_staged

    @property
    def is_flat(self) -> bool:
        """Return whether tiles go on from line to line of the copy: lines are short."""
        shape = self.shape
        if not self.is_in_planes or self.runs_of is not None or shape.rank != 2:
            return False
        is_known = not symbols_of(*shape.output, *shape.needed)
        return is_known and shape.stride == (1, 1) and shape.output[-1] <= MATRIX_ROWS

    @property
    def staged_pixel(self) -> int:
        """Elements from pixel to pixel of the copy of the left operand, or of a plane of it."""
        if self.is_in_planes:
            return CACHE_LINE_BYTES // self.kinds.staged.size_bytes
        return self.shape.channels

    @property
    def plane_groups(self) -> int:
        """Groups of neighbouring channels that a plane has of each pixel, and a step multiplies."""
        return groups_at_once(-(-self.shape.channels_per_group // self.kinds.factors))

    @property
    def planes_per_group(self) -> int:
        """Planes of a group of channels."""
        return self.shape.channels_per_group // (self.plane_groups * self.kinds.factors)

    @property
    def left_bytes(self) -> int:
        """Size of the left operand, without gaps."""
        elements = self.shape.batch * prod(self.shape.input) * self.shape.channels
        return elements * self.kinds.left.size_bytes

    @property
    def right_bytes(self) -> int:
        """Size of the right operand, without gaps."""
        images = self.shape.batch if self.right.image else 1
        return images * self.shape.steps * self.shape.depth * self.kinds.right.size_bytes


def run_of(shape: ConvolutionShape, factors: int) -> int:
    """Return the factors of a sum of *shape* that panels in groups of *factors* keep together."""
    joined = joins_taps(factors, shape.group, shape.dilation)
    return runs_of(shape.kernel, shape.channels_per_group, joined=joined)[1]
