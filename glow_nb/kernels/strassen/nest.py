"""Matrix products by Strassen's algorithm, as their kernels see them: tiles of a few rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import SINGLE, DotForm
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.target import Target
from glow_nb.strassen import blocks_in, products_of, side_of
from glow_nb.types import ElementKind

FAR_SHARE = 0.4
"""Part of the last-level cache beyond which sums of weights come from memory again for each block.
"""

SUMS_SHARE, FAR_SUMS_SHARE = 0.2, 0.4
"""Parts of the second-level cache for the products of a panel that wait until they are added up.

The second one is for weights that come from memory again for each block, so that blocks should be
fewer. On one Zen 4 core with 1 MiB of that cache, products of 1,500 rows by two levels take 0.94 to
0.97 of the time that they take where factors and products of a block fill half of it, as those of
other bilinear algorithms do. With 26 to 51 MB of weights and the second share, products of 384 to
1,500 rows take 0.95 to 1.01 of it.
"""


@dataclass(frozen=True)
class StrassenNest:
    """``result[m, n] = sum over k of lhs[m, k] * rhs[k, n]``; a tile is *side* neighbouring rows.

    Attributes:
        rows: Rows of the left matrix (m); the last tile may have fewer.
        inner: Length of the sums (k), a multiple of *side*.
        depth: Columns of the right matrix (n), a multiple of *side*.
        kind: Element kind of both.
        block: Columns in a panel of a block of the right matrix.
        levels: How often the algorithm is applied, one in the other.
    """

    rows: int
    inner: int
    depth: int
    kind: ElementKind
    block: int
    levels: int = 1

    takes_taps = False
    patch_elements = 0
    transformed_at_once = 1

    def most_block_tiles(self, target: Target) -> int | None:
        """Return how many tiles' products of a panel are still near when they are added up.

        None, for as many as the caches hold, with one level, whose products are few.
        """
        if self.levels == 1:
            return None
        is_far = self.filter_bytes > FAR_SHARE * target.machine.l3_bytes
        share = FAR_SUMS_SHARE if is_far else SUMS_SHARE
        tile_bytes = self.elements * self.block * self.kind.size_bytes
        return max(1, int(share * target.machine.l2_bytes) // tile_bytes)

    @property
    def side(self) -> int:
        """Blocks in a row or column of a matrix, and rows of a tile."""
        return side_of(self.levels)

    @property
    def blocks(self) -> int:
        """Blocks of a matrix."""
        return blocks_in(self.levels)

    @property
    def block_sizes(self) -> tuple[int, int]:
        """Length of the sums of a block, and its columns."""
        return self.inner // self.side, self.depth // self.side

    @property
    def elements(self) -> int:
        """Products of blocks."""
        return products_of(self.levels)

    @property
    def sums(self) -> int:
        """Products of blocks."""
        return self.elements

    def form(self, target: Target) -> DotForm:  # noqa: ARG002
        """Return how sums of blocks are multiplied on any target."""
        return SINGLE

    def kinds_with(self, form: DotForm) -> ProductKinds:
        """Return the kinds of the products of sums of blocks."""
        return ProductKinds.of(self.kind, form=form)

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
