"""Matrix products whose right matrix is row-major and read as it lies, without a copy in panels."""

from __future__ import annotations

from glow_nb.kernels.products.blocking import (
    MAX_VECTORS,
    PRODUCT_LOAD_CYCLES,
    lanes_of,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.products.product_nest import (
    LeftLayout,
    ProductKinds,
    ProductNest,
    RightLayout,
)
from glow_nb.kernels.products.product_plan import is_swept_by_rows
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

SWEPT_BYTES = 512
"""Width of a tile of a matrix that is swept in its own order: several cache lines side by side."""


def in_place_nest(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> ProductNest:
    """Return the nest of *product*; the columns of its right matrices are neighbours in memory."""
    shape, left, right = product.shape, product.left, product.right
    block = in_place_block(shape, kinds.total, target)
    return ProductNest(
        ConvolutionShape.of((shape.batch, shape.rows, shape.inner), shape.depth, (1,), (0, 0)),
        kinds,
        block,
        LeftLayout(pixel=left.row, step=left.column, image=left.distance),
        RightLayout(row=right.row, panel=block, image=right.distance, is_padded=False),
    )


def in_place_block(shape: MatMulShape, kind: ElementKind, target: Target) -> int:
    """Return the columns of a tile."""
    lanes, registers = lanes_of(kind, target), registers_of(target)
    right_bytes = shape.batch * shape.inner * shape.depth * kind.size_bytes
    is_swept = is_swept_by_rows(shape.rows, right_bytes, kind, target)
    if is_swept and row_limit(1, registers) >= shape.rows:
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
        load_cycles=PRODUCT_LOAD_CYCLES,
    )[0]
