"""Matrix products whose right matrix comes at run time, without a copy of all of it in panels.

There are three ways. Tiles read a matrix *where it lies*, if few of them do, if it is small, or if
they are so wide that they read whole lines of it. Few left rows *sweep* a large one in its own
order (:mod:`.sweep_plan`). With more of them, each panel's part of an inner block is *copied* to
scratch before its tiles read it, and turned over on the way if the matrix is transposed: in memory,
its rows lie so far apart that few of them find a place in the first-level cache at the same time.
"""

from __future__ import annotations

from glow_nb.kernels.products.blocking import (
    lanes_of,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.caches import COPIED_CYCLES, level_2_bytes, rows_side_by_side
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.products.product_nest import (
    LeftLayout,
    ProductKinds,
    ProductNest,
    RightLayout,
)
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

NARROW_BYTES, WIDE_BYTES = 128, 256
"""Columns of a tile. A narrow one reads lines of a matrix that other tiles need as well, too far
apart for the processor to fetch them ahead; a wide one reads whole lines in order."""

NEAR_CYCLES, FAR_CYCLES, NARROW_CYCLES, WIDE_CYCLES = 0.005, 0.02, 0.05, 0.0005
"""Of each byte of a right matrix that tiles read where it lies, for each tile of left rows, beside
what a byte of a copied panel takes: if the second-level cache holds the matrix, if it does not, and
then with narrow tiles; and with wide ones, wherever it lies.

8 x 768 x 3072 takes 670 us if it is swept on a Zen 3 core with AVX2, and 3,300 us in tiles of 96
bytes. Tiles of 384 bytes on a Zen 4 core with AVX-512 read matrices of 0.4 to 16 MB in place in
0.85 to 0.99 of the time of copies for 24 to 600 rows, in 1.0 for 1,000 and in 1.03 for 1,500; in
0.93 to 1.06 where rows are a multiple of 8 KiB."""

CONFLICTING_ROWS = 16
"""So many rows of a right matrix are looked at: if the first-level cache holds a line of each, no
row drives another one out. It holds them with rows of 2 KiB, and tiles read these where they lie no
slower than others."""

CONFLICT_CYCLES = 0.06
"""Of each byte of a right matrix, for each tile of left rows, beside the above if tiles are not
wide and its rows drive each other out of the first-level cache. On a Zen 3 core with AVX2, 8 rows
times 2,048 x 128 (columns x inner) take 1.9 times as long where the matrix lies as 8 rows times
2,000 x 128 do, and 8 rows times 1,024 x 64 take 1.5 times as long as with copies."""


def in_place_nest(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> ProductNest:
    """Return the nest of *product*, whose right matrices have columns or rows of neighbours."""
    shape, left, right = product.shape, product.left, product.right
    is_turned = right.column != 1 and shape.depth > 1
    block = in_place_block(shape, kinds.total, target)
    column = right.column if is_turned else 1
    is_scattered = scattered_cycles(product, block, kinds, target) > COPIED_CYCLES
    return ProductNest(
        ConvolutionShape.of((shape.batch, shape.rows, shape.inner), shape.depth, (1,), (0, 0)),
        kinds,
        block,
        LeftLayout(pixel=left.row, step=left.column, image=left.distance),
        RightLayout(
            row=right.row,
            panel=block * column,
            image=right.distance,
            is_padded=False,
            column=column,
            is_copied=is_turned or is_scattered,
        ),
        run=shape.inner,
    )


def scattered_cycles(
    product: UnpackedProduct, block: int, kinds: ProductKinds, target: Target
) -> float:
    """Estimate what a byte of a right matrix costs its tiles because its rows lie apart."""
    shape, kind = product.shape, kinds.right
    vectors = block // lanes_of(kinds.total, target)
    tiles = -(-shape.rows // row_limit(vectors, registers_of(target)))
    conflict = CONFLICT_CYCLES if rows_conflict(product, kind, target) else 0.0
    if shape.depth <= block and not conflict:
        return 0.0  # all of a row is read
    width = block * kind.size_bytes
    if width >= WIDE_BYTES:
        return tiles * WIDE_CYCLES
    if shape.inner * shape.depth * kind.size_bytes <= level_2_bytes(target):
        return tiles * (NEAR_CYCLES + conflict)
    return tiles * ((NARROW_CYCLES if width < NARROW_BYTES else FAR_CYCLES) + conflict)


def rows_conflict(product: UnpackedProduct, kind: ElementKind, target: Target) -> bool:
    """Return whether rows of the right matrix, of *kind*, drive each other out of a cache.

    They do if their first lines have the same place in the first-level cache, as those of rows of a
    multiple of 4 KiB.
    """
    distance = product.right.row * kind.size_bytes
    return rows_side_by_side(distance, target) < min(product.shape.inner, CONFLICTING_ROWS)


def in_place_block(shape: MatMulShape, kind: ElementKind, target: Target) -> int:
    """Return the columns of a tile."""
    return rank_blocks(
        shape.depth,
        target,
        pixels=shape.rows,
        steps=shape.inner,
        kind=kind,
        fetched=shape.inner,
    )[0]
