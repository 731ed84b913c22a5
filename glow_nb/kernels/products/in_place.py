"""Matrix products whose right matrix comes at run time, without a copy of all of it in panels.

There are three ways. Tiles read a matrix *where it lies*, if few of them do or if it is small. Few
left rows *sweep* a large one in its own order, a few rows of it at a time from end to end. With
more of them, each panel's part of an inner block is *copied* to scratch before its tiles read it,
and turned over on the way if the matrix is transposed: in memory, its rows lie so far apart that
few of them find a place in the first-level cache at the same time.
"""

from __future__ import annotations

from glow_nb.kernels.products.blocking import (
    FMA_PER_CYCLE,
    MAX_VECTORS,
    lanes_of,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.caches import COPIED_CYCLES, byte_cycles, level_2_bytes
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

SWEPT_BYTES, FAR_SWEPT_BYTES, FAR_SWEPT_VECTORS = 512, 128, 4
"""Width of a tile of a matrix that is swept in its own order, in bytes, and of one with longer rows
that the second-level cache does not hold: bytes, or vectors if these are wider. Of that, few lines
of each row are read in turn: on one Zen 3 core with vectors of 32 bytes, one row times matrices of
1,024 x 4,096 and 4,096 x 1,024 takes 0.79 and 0.84 of the time so (0.63 and 0.72 by medians), times
one of 768 x 768 0.97 to 1.0. Sixteen of 64 x 255, which are near, take 1.1 times as long. On one
Zen 4 core with vectors of 64 bytes, 1,024 x 4,096 takes 0.91 of the time with four that it takes
with two, and 0.88 with eight; 2,048 x 2,048 0.97 and 0.96, 768 x 768 1.01 and 1.03."""

SWEEP_FACTOR = 1.35
"""What the multiply-adds of a sweep cost beside those of whole sums: sums wait after 8 products, or
16."""

NARROW_BYTES = 128
"""A tile that is not so wide reads lines of a matrix that other tiles need as well, too far apart
for the processor to fetch them ahead."""

NEAR_CYCLES, FAR_CYCLES, NARROW_CYCLES = 0.005, 0.02, 0.05
"""Of each byte of a right matrix that tiles read where it lies, for each tile of left rows, beside
what a byte of a copied panel takes: if the second-level cache holds the matrix, and if it does not,
with wide or narrow tiles. 8 x 768 x 3072 takes 670 us if it is swept on a Zen 3 core with AVX2, and
3,300 us in tiles of 96 bytes. On a Zen 5 core, wider tiles read 4 MiB sixteen times without a loss
that could be measured."""


def in_place_nest(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> ProductNest:
    """Return the nest of *product*, whose right matrices have columns or rows of neighbours."""
    shape, left, right = product.shape, product.left, product.right
    matrices = shape.batch if right.distance else 1
    is_turned = right.column != 1 and shape.depth > 1
    can_pack = 1 in {left.row, left.column}  # as a sweep does with the left rows
    is_swept = can_pack and not is_turned and suits_sweep(shape, matrices, kinds, target)
    block = in_place_block(shape, kinds.total, target, is_swept=is_swept)
    is_swept = is_swept and shape.depth > block  # a single tile reads it in order anyway
    column = right.column if is_turned else 1
    is_scattered = scattered_cycles(shape, block, kinds, target) > COPIED_CYCLES
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
            is_swept=is_swept,
            column=column,
            is_copied=is_turned or (not is_swept and is_scattered),
        ),
        run=shape.inner,
    )


def suits_sweep(shape: MatMulShape, matrices: int, kinds: ProductKinds, target: Target) -> bool:
    """Return whether right *matrices* are best read in their own order.

    They are where the multiply-adds take no longer than to fetch them, or where other tiles would
    be narrow and what a sweep costs beside them is less than what a copy costs. Then a few rows of
    a matrix are multiplied at a time from end to end, while the sums of all left rows wait.
    """
    near_bytes, kind = level_2_bytes(target), kinds.right
    right_bytes = matrices * shape.inner * shape.depth * kind.size_bytes
    sum_bytes = shape.rows * shape.depth * kinds.total.size_bytes
    if right_bytes <= near_bytes or sum_bytes > near_bytes:
        return False
    vector_bytes = lanes_of(kind, target) * kind.size_bytes
    arithmetic = target.passes * shape.rows / (FMA_PER_CYCLE * vector_bytes)
    block = in_place_block(shape, kind, target, is_swept=False)
    is_narrow = block * kind.size_bytes < NARROW_BYTES
    is_cheap = is_narrow and (SWEEP_FACTOR - 1) * arithmetic <= COPIED_CYCLES
    return is_cheap or SWEEP_FACTOR * arithmetic <= byte_cycles(right_bytes, target)


def scattered_cycles(shape: MatMulShape, block: int, kinds: ProductKinds, target: Target) -> float:
    """Estimate what a byte of a right matrix costs its tiles because its rows lie apart."""
    vectors = block // lanes_of(kinds.total, target)
    tiles = -(-shape.rows // row_limit(vectors, registers_of(target)))
    if shape.depth <= block:
        return 0.0  # all of a row is read
    if shape.inner * shape.depth * kinds.right.size_bytes <= level_2_bytes(target):
        return tiles * NEAR_CYCLES
    is_narrow = block * kinds.right.size_bytes < NARROW_BYTES
    return tiles * (NARROW_CYCLES if is_narrow else FAR_CYCLES)


def in_place_block(shape: MatMulShape, kind: ElementKind, target: Target, *, is_swept: bool) -> int:
    """Return the columns of a tile."""
    lanes, registers = lanes_of(kind, target), registers_of(target)
    if is_swept and shape.rows <= row_limit(2, registers):
        row_bytes = shape.depth * kind.size_bytes
        is_far = shape.inner * row_bytes > level_2_bytes(target) and row_bytes > SWEPT_BYTES
        width, least = (FAR_SWEPT_BYTES, FAR_SWEPT_VECTORS) if is_far else (SWEPT_BYTES, 1)
        vectors = min(max(least, width // (lanes * kind.size_bytes)), MAX_VECTORS)
        while vectors > 1 and row_limit(vectors, registers) < shape.rows:
            vectors -= 1
        return lanes * min(vectors, -(-shape.depth // lanes))
    return rank_blocks(
        shape.depth,
        target,
        pixels=shape.rows,
        steps=shape.inner,
        kind=kind,
        fetched=shape.inner,
    )[0]
