"""Matrix products by Strassen's algorithm, as their kernels see them: tiles of two rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target
from glow_nb.strassen import BLOCK_PRODUCTS, SIDE
from glow_nb.types import ElementKind


@dataclass(frozen=True)
class StrassenNest:
    """``result[m, n] = sum over k of lhs[m, k] * rhs[k, n]``; a tile is two neighbouring rows.

    Attributes:
        rows: Rows of the left matrix (m); if they are odd, the last tile has one.
        inner: Length of the sums (k), even.
        depth: Columns of the right matrix (n), even.
        kind: Element kind of both.
        block: Columns in a panel of half of the columns.
    """

    rows: int
    inner: int
    depth: int
    kind: ElementKind
    block: int

    takes_taps = False
    patch_elements = 0
    transformed_at_once = 1
    elements = BLOCK_PRODUCTS
    sums = BLOCK_PRODUCTS

    def kinds(self, target: Target) -> ProductKinds:  # noqa: ARG002
        """Return the kinds of the products of sums of blocks, on any target."""
        return ProductKinds.of(self.kind)

    @cached_property
    def shape(self) -> ConvolutionShape:
        """One product of blocks, as a convolution of a line of tiles with a single tap."""
        line = (1, self.tiles, self.inner // SIDE)
        return ConvolutionShape.of(line, self.depth // SIDE, (1,), (0, 0))

    @property
    def tiles(self) -> int:
        """Pairs of rows."""
        return -(-self.rows // SIDE)

    @property
    def panels(self) -> int:
        """Panels of half of the columns."""
        return -(-self.depth // SIDE // self.block)

    @property
    def weights(self) -> int:
        """Sums of blocks of the right matrix, in all panels."""
        return BLOCK_PRODUCTS * self.inner // SIDE * self.panels * self.block

    @property
    def filter_bytes(self) -> int:
        """Bytes of these."""
        return self.weights * self.kind.size_bytes

    @property
    def input_elements(self) -> int:
        """Elements of the left matrix."""
        return self.rows * self.inner

    @property
    def output_elements(self) -> int:
        """Elements of the result."""
        return self.rows * self.depth
