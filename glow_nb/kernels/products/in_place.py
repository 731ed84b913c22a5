"""Matrix products whose right matrix is row-major and read as it lies, without a copy in panels."""

from __future__ import annotations

from glow_nb.kernels.products.blocking import (
    FMA_PER_CYCLE,
    MAX_VECTORS,
    lanes_of,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.caches import byte_cycles, level_2_bytes
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

SWEPT_BYTES = 512
"""Width of a tile of a matrix that is swept in its own order: several cache lines side by side."""

SWEEP_FACTOR = 1.35
"""What the multiply-adds of a sweep cost beside those of whole sums: sums wait after 8 products."""


def in_place_nest(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> ProductNest:
    """Return the nest of *product*; the columns of its right matrices are neighbours in memory."""
    shape, left, right = product.shape, product.left, product.right
    matrices = shape.batch if right.distance else 1
    can_pack = 1 in {left.row, left.column}  # as a sweep does with the left rows
    is_swept = can_pack and suits_sweep(shape, matrices, kinds.right, target)
    block = in_place_block(shape, kinds.total, target, is_swept=is_swept)
    is_swept = is_swept and shape.depth > block  # a single tile reads it in order anyway
    return ProductNest(
        ConvolutionShape.of((shape.batch, shape.rows, shape.inner), shape.depth, (1,), (0, 0)),
        kinds,
        block,
        LeftLayout(pixel=left.row, step=left.column, image=left.distance),
        RightLayout(
            row=right.row, panel=block, image=right.distance, is_padded=False, is_swept=is_swept
        ),
        run=shape.inner,
    )


def suits_sweep(shape: MatMulShape, matrices: int, kind: ElementKind, target: Target) -> bool:
    """Return whether right *matrices* that are read in place are best read in their own order.

    They are where the multiply-adds of so few left rows take no longer than to fetch them. Then a
    few rows of a matrix are multiplied at a time from end to end, which memory delivers faster than
    the narrow columns that whole sums need.
    """
    right_bytes = matrices * shape.inner * shape.depth * kind.size_bytes
    if right_bytes <= level_2_bytes(target) or shape.rows > row_limit(1, registers_of(target)):
        return False
    vector_bytes = lanes_of(kind, target) * kind.size_bytes
    arithmetic = SWEEP_FACTOR * shape.rows / (FMA_PER_CYCLE * vector_bytes)
    return arithmetic <= byte_cycles(right_bytes, target)


def in_place_block(shape: MatMulShape, kind: ElementKind, target: Target, *, is_swept: bool) -> int:
    """Return the columns of a tile."""
    lanes, registers = lanes_of(kind, target), registers_of(target)
    if is_swept:
        vectors = min(SWEPT_BYTES // (lanes * kind.size_bytes), MAX_VECTORS)
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
