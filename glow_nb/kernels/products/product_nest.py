"""What a product kernel computes: sizes, the kinds of its operands, and where these lie in memory.

Convolutions and matrix products are one nest of loops. ``pixels`` are the output pixels of a
convolution or the rows of the left matrix; the left operand is the input or the left matrix, the
right one the filter or the right matrix, in panels of ``block`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.hlir.ops.families import sum_kind
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.writing.vectors import computed_kind
from glow_nb.types import ElementKind


@dataclass(frozen=True)
class ProductKinds:
    """The kinds of elements that take part in a product.

    Attributes:
        left: Of the input or left matrix in memory; widened to ``total`` when it is read.
        right: Of the filter or right matrix in memory; likewise.
        total: Of the sums while they are computed, in registers and scratch.
    """

    left: ElementKind
    right: ElementKind
    total: ElementKind

    @classmethod
    def of(cls, left: ElementKind, right: ElementKind | None = None) -> ProductKinds:
        """Return those of the product of tensors of *left* and *right*, by default the same."""
        right = right or left
        total = sum_kind(left, right)
        assert total is not None, f"{left} and {right} have no product"  # no node is made of them
        return cls(left, right, computed_kind(total))


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
        row: From one factor of a sum to the next, each with ``block`` neighbouring columns.
        panel: From panel to panel.
        image: From the panels of one image to those of the next; 0 if they share them.
        is_padded: The last panel has as many columns as the others, and may be read whole.
        is_swept: It is best read in its own order: a few rows at a time, from end to end.
    """

    row: int
    panel: int
    image: int = 0
    is_padded: bool = True
    is_swept: bool = False

    @classmethod
    def packed(cls, shape: ConvolutionShape, block: int, *, per_image: bool = False) -> RightLayout:
        """Return that of panels ``[(image,) panel, *taps, channel, block]``."""
        panel = shape.steps * block
        panels = shape.group * -(-shape.depth_per_group // block)
        return cls(block, panel, panels * panel if per_image else 0)


@dataclass(frozen=True)
class ProductNest:
    """A product to write a kernel for, in as few dimensions as possible.

    Attributes:
        shape: Sizes; a matrix product is a convolution of one line of pixels with one tap.
        kinds: Kinds of the operands and of the sums. The result is converted when it is stored.
        block: Columns of one panel of the right operand.
        left: Where the left operand lies.
        right: Where the right operand lies.
    """

    shape: ConvolutionShape
    kinds: ProductKinds
    block: int
    left: LeftLayout
    right: RightLayout

    @classmethod
    def packed(
        cls,
        shape: ConvolutionShape,
        kinds: ProductKinds,
        block: int,
        *,
        filter_per_image: bool = False,
        left: LeftLayout | None = None,
    ) -> ProductNest:
        """Return the product of a left operand and a right one in panels.

        Args:
            shape: Sizes.
            kinds: Kinds of the operands and of the sums.
            block: Columns of a panel.
            filter_per_image: Each image has panels of its own (a batched matrix product).
            left: Where the left operand lies, by default without gaps.
        """
        left = left or LeftLayout.by_pixels(shape, shape.channels)
        right = RightLayout.packed(shape, block, per_image=filter_per_image)
        return cls(shape, kinds, block, left, right)

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
