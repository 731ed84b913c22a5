"""Matrix products whose right matrix comes at run time, without a copy of all of it in panels.

There are three methods. Tiles read a matrix *where it lies*, if few of them do, if it is small, or
if they are so wide that they read whole lines of it. Few left rows *sweep* a large one in its own
order (:mod:`.sweep_plan`). With more of them, each panel's part of an inner block is *copied* to
scratch before its tiles read it, and transposed there if need be: in memory,
its rows lie so far apart that few of them find a place in the first-level cache at the same time.
"""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import (
    lanes_of,
    rank_blocks,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.caches import level_2_bytes, rows_side_by_side
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.product_nest import (
    LeftLayout,
    ProductKinds,
    ProductNest,
    RightLayout,
)
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.target import Target


def in_place_nest(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> ProductNest:
    """Return the nest of *product*, whose right matrices have columns or rows of neighbours."""
    block = in_place_block(product.shape, kinds.total, target)
    scattered = scattered_cycles(product, block, kinds, target)
    is_scattered = scattered > target.machine.copied_byte_cycles
    return nest_in_place(product, kinds, block, is_copied=is_transposed(product) or is_scattered)


def is_transposed(product: UnpackedProduct) -> bool:
    """Return whether columns of the right matrix are no neighbours: rows are then."""
    return product.right.column != 1 and product.shape.depth not in (0, 1)


def nest_in_place(
    product: UnpackedProduct, kinds: ProductKinds, block: int, *, is_copied: bool
) -> ProductNest:
    """Return the nest of *product* in tiles of *block* columns, whose panels may be copied."""
    shape, left, right = product.shape, product.left, product.right
    column = right.column if is_transposed(product) else 1
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
            is_copied=is_copied,
        ),
        run=shape.inner,
    )


def scattered_cycles(
    product: UnpackedProduct, block: int, kinds: ProductKinds, target: Target
) -> float:
    """Estimate the cost of a byte of a right matrix for its tiles because its rows lie apart."""
    shape, kind = product.shape, kinds.right
    vectors = block // lanes_of(kinds.total, target)
    tiles = -(-shape.rows // row_limit(vectors, registers_of(target)))
    conflict = target.machine.conflict_byte_cycles if rows_conflict(product, kind, target) else 0.0
    if shape.depth <= block and not conflict:
        return 0.0  # all of a row is read
    width = block * kind.size_bytes
    if width >= target.machine.wide_tile_bytes:
        return tiles * target.machine.wide_scattered_byte_cycles
    if shape.inner * shape.depth * kind.size_bytes <= level_2_bytes(target):
        return tiles * (target.machine.l2_scattered_byte_cycles + conflict)
    return tiles * (
        (
            target.machine.narrow_scattered_byte_cycles
            if width < target.machine.narrow_tile_bytes
            else target.machine.far_scattered_byte_cycles
        )
        + conflict
    )


def rows_conflict(product: UnpackedProduct, kind: ElementKind, target: Target) -> bool:
    """Return whether rows of the right matrix, of *kind*, drive each other out of a cache.

    They do if their first lines have the same place in the first-level cache, as those of rows of a
    multiple of 4 KiB.
    """
    distance = product.right.row * kind.size_bytes
    return rows_side_by_side(distance, target) < min(
        product.shape.inner, target.machine.conflict_rows
    )


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
