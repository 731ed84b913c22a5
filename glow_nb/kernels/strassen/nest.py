"""Matrix products by Strassen's algorithm, as their kernels see them: tiles of a few rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glow_nb.base.dot_instruction import SINGLE, DotInstruction
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target
from glow_nb.numerics.strassen import BLOCKS, PRODUCTS, SIDE


@dataclass(frozen=True)
class StrassenNest:
    """``result[m, n] = sum over k of lhs[m, k] * rhs[k, n]``; a tile is *side* neighbouring rows.

    Attributes:
        rows: Rows of the left matrix (m); the last tile may have fewer.
        inner: Length of the sums (k), a multiple of *side*.
        depth: Columns of the right matrix (n), a multiple of *side*.
        kind: Element kind of both.
        block: Columns in a panel of a block of the right matrix.
    """

    rows: int
    inner: int
    depth: int
    kind: ElementKind
    block: int

    side = SIDE
    blocks = BLOCKS
    elements = sums = PRODUCTS
    takes_taps = False
    patch_elements = 0
    transformed_at_once = 1

    @property
    def block_sizes(self) -> tuple[int, int]:
        """Length of the sums of a block, and its columns."""
        return self.inner // self.side, self.depth // self.side

    def dot(self, target: Target) -> DotInstruction:  # noqa: ARG002
        """Return how sums of blocks are multiplied on any target."""
        return SINGLE

    def kinds_with(self, dot: DotInstruction) -> ProductKinds:
        """Return the kinds of the products of sums of blocks."""
        return ProductKinds.of(self.kind, dot=dot)

    @cached_property
    def shape(self) -> ConvolutionShape:
        """One product of blocks, as a convolution of a line of tiles with a single tap."""
        line = (1, self.tiles, self.inner // self.side)
        return ConvolutionShape.of(line, self.depth // self.side, (1,), (0, 0))

    @property
    def tiles(self) -> int:
        """Tiles of *side* rows, the last of which may have fewer."""
        return -(-self.rows // self.side)

    @property
    def panels(self) -> int:
        """Panels of one block of columns."""
        return -(-self.depth // self.side // self.block)

    @property
    def weights(self) -> int:
        """Sums of blocks of the right matrix, in all panels."""
        return self.elements * self.inner // self.side * self.panels * self.block

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
