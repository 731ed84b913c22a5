"""Which products sweep a right matrix that comes at run time, and in what pieces.

Few left rows sweep a large matrix in its own order: a few of its rows are multiplied from end to
end, then the next ones, while the sums of all columns wait in scratch.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.products.blocking import (
    FMA_PER_CYCLE,
    MAX_VECTORS,
    Cut,
    lanes_of,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.caches import COPIED_CYCLES, byte_cycles, level_2_bytes
from glow_nb.kernels.products.in_place import (
    NARROW_BYTES,
    WIDE_BYTES,
    in_place_block,
    rows_conflict,
)
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

SWEPT_BYTES, FAR_SWEPT_BYTES, FAR_SWEPT_VECTORS = 512, 128, 4
"""Width of a tile of a matrix that is swept in its own order, in bytes, and of one with longer rows
that the second-level cache does not hold: bytes, or vectors if these are wider. So few lines of
each row are read in turn: on one Zen 3 core with vectors of 32 bytes, one row times matrices of
1,024 x 4,096 and 4,096 x 1,024 takes 0.79 and 0.84 of the time so (0.63 and 0.72 by medians), times
one of 768 x 768 0.97 to 1.0. Sixteen of 64 x 255, which are near, take 1.1 times as long. On one
Zen 4 core with vectors of 64 bytes, 1,024 x 4,096 takes 0.91 of the time with four that it takes
with two, and 0.88 with eight; 2,048 x 2,048 0.97 and 0.96, 768 x 768 1.01 and 1.03."""

SWEPT_ROWS = 8
"""Rows of a right matrix that are read side by side if it is swept in its own order: as many
streams of memory as processors follow well. Of 4, 8, 16 and 32, 8 were the fastest or close to it
for matrices in the second-level cache, in the third and in memory. Where several tiles read them,
twice as many are better on one Zen 3 core, as sums wait half as often, unless rows drive each other
out of the first-level cache: with 8, 8 rows times 4,096 x 512 (columns x inner) and 12 rows times
1,024 x 512 take 0.71 of the time that they take with 16."""

SWEEP_FACTOR = 1.35
"""What the multiply-adds of a sweep cost beside those of whole sums: sums wait after 8 products, or
16."""


@dataclass(frozen=True)
class SweepPlan:
    """The numbers that the loops of a sweep are made of.

    Attributes:
        lanes: Elements of a vector.
        vectors: Vectors of a tile.
        cut: Left rows in tiles.
        steps: Right rows that are multiplied from end to end.
        is_aligned: True if all right rows begin at the same place of a vector.
    """

    lanes: int
    vectors: int
    cut: Cut
    steps: int
    is_aligned: bool

    @classmethod
    def of(cls, product: UnpackedProduct, kinds: ProductKinds, target: Target) -> SweepPlan:
        """Return the plan of *product*."""
        lanes, shape = lanes_of(kinds.total, target), product.shape
        vectors = swept_vectors(shape, kinds.total, target)
        cut = Cut.balanced(max(1, shape.rows), row_limit(vectors, registers_of(target)))
        is_read_again = cut.tiles > 1 and not rows_conflict(product, kinds.right, target)
        steps = 2 * SWEPT_ROWS if is_read_again else SWEPT_ROWS
        return cls(lanes, vectors, cut, steps, product.right.row % lanes == 0)

    @property
    def block(self) -> int:
        """Columns of a tile."""
        return self.lanes * self.vectors


def suits_sweep(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> bool:
    """Return whether the right matrices of *product* are best read in their own order.

    They are where the multiply-adds take no longer than to fetch them, or where other tiles would
    be narrow, or read rows that drive each other out of the first-level cache, and what a sweep
    costs beside them is less than what a copy costs.
    """
    shape, left, right = product.shape, product.left, product.right
    if right.column != 1 or 1 not in (left.row, left.column):
        return False
    near_bytes, kind = level_2_bytes(target), kinds.right
    matrices = shape.batch if right.distance else 1
    right_bytes = matrices * shape.inner * shape.depth * kind.size_bytes
    sum_bytes = shape.rows * shape.depth * kinds.total.size_bytes
    is_far = right_bytes > near_bytes
    avoids_conflicts = _avoids_conflicts(product, kinds, target)
    if sum_bytes > near_bytes or not (is_far or avoids_conflicts):
        return False
    if shape.depth <= lanes_of(kinds.total, target) * swept_vectors(shape, kinds.total, target):
        return False  # a single tile reads it in order anyway
    vector_bytes = lanes_of(kind, target) * kind.size_bytes
    arithmetic = target.passes * shape.rows / (FMA_PER_CYCLE * vector_bytes)
    is_narrow = in_place_block(shape, kind, target) * kind.size_bytes < NARROW_BYTES
    is_cheap = (SWEEP_FACTOR - 1) * arithmetic <= COPIED_CYCLES
    if is_cheap and (is_narrow or avoids_conflicts):
        return True
    return is_far and SWEEP_FACTOR * arithmetic <= byte_cycles(right_bytes, target)


def _avoids_conflicts(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> bool:
    """Return whether other tiles than those of a sweep would suffer from rows that conflict.

    Wide ones do not. Sums that are short beside the number of rows wait too often to be swept.
    """
    shape, kind = product.shape, kinds.right
    width = in_place_block(shape, kinds.total, target) * kind.size_bytes
    is_long = shape.inner > 4 * shape.rows
    return is_long and width < WIDE_BYTES and rows_conflict(product, kind, target)


def swept_vectors(shape: MatMulShape, kind: ElementKind, target: Target) -> int:
    """Return how many vectors a tile has if *shape* sweeps a matrix, with sums of *kind*."""
    lanes, registers = lanes_of(kind, target), registers_of(target)
    if shape.rows > row_limit(2, registers):
        return in_place_block(shape, kind, target) // lanes
    row_bytes = shape.depth * kind.size_bytes
    is_far = shape.inner * row_bytes > level_2_bytes(target) and row_bytes > SWEPT_BYTES
    width, least = (FAR_SWEPT_BYTES, FAR_SWEPT_VECTORS) if is_far else (SWEPT_BYTES, 1)
    vectors = min(max(least, width // (lanes * kind.size_bytes)), MAX_VECTORS)
    while vectors > 1 and row_limit(vectors, registers) < shape.rows:
        vectors -= 1
    return min(vectors, -(-shape.depth // lanes))
