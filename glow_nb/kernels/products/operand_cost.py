"""Which way to take the operands of a matrix product that come at run time, by estimated time.

A right matrix is laid out in panels first, or read as it lies. Laying it out costs
:data:`COPY_CYCLES` for each byte, so it pays for as many left rows as make that small.
"""

from __future__ import annotations

from math import log2

from glow_nb.kernels.products.blocking import (
    FMA_LATENCY_CYCLES,
    FMA_PER_CYCLE,
    LEVEL_2_VECTORS_PER_CYCLE,
    LOADS_PER_CYCLE,
    lanes_of,
    registers_of,
    row_limit,
)
from glow_nb.kernels.products.convolution_cost import COPY_CYCLES, product_candidates
from glow_nb.kernels.products.in_place import in_place_block, suits_sweep
from glow_nb.kernels.products.matmul import MatMulShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.row_products import tile_of
from glow_nb.kernels.target import Target
from glow_nb.types import ElementKind

NEAR_CYCLES, FAR_CYCLES = 0.005, 0.02
"""Of each byte of a right matrix that is read in place, for each tile of left rows, beside what a
byte of a panel takes: where its rows are near each other, and where they are not. Sixteen tiles
read 4 MiB without a loss that could be measured; eight tiles lose on 16 MiB what a copy takes."""

PAGE_BYTES, NEAR_PAGES = 4096, 2048
"""A matrix of so many pages has its addresses at hand (in second-level TLBs of 2,048 entries, which
are not the largest). Rows whole pages apart fall into few sets of the caches."""

LANE_SUM_CYCLES = 1.5
"""Of each step in which the lanes of a vector of sums are added up."""

TILE_CYCLES = 20.0
"""Of a tile beside its products: until the first and after the last sum of lanes."""


def suits_in_place(shape: MatMulShape, matrices: int, kinds: ProductKinds, target: Target) -> bool:
    """Return whether to read row-major right *matrices* as they lie is faster than to copy them."""
    row_bytes = shape.depth * kinds.right.size_bytes
    right_bytes = shape.inner * row_bytes
    is_swept = suits_sweep(shape, matrices, kinds.right, target)
    block = in_place_block(shape, kinds.total, target, is_swept=is_swept)
    vectors = block // lanes_of(kinds.total, target)
    tiles = -(-shape.rows // row_limit(vectors, registers_of(target)))
    is_near = right_bytes <= NEAR_PAGES * PAGE_BYTES and row_bytes % PAGE_BYTES != 0
    return tiles == 1 or tiles * (NEAR_CYCLES if is_near else FAR_CYCLES) < COPY_CYCLES


def suits_row_products(shape: MatMulShape, kind: ElementKind, target: Target) -> bool:
    """Return whether rows times rows is the faster way to multiply by a transposed matrix."""
    packed = product_candidates(shape, kind, target)[0].cycles
    right_bytes = shape.batch * shape.inner * shape.depth * kind.size_bytes
    return row_product_cycles(shape, kind, target) < packed + COPY_CYCLES * right_bytes


def row_product_cycles(shape: MatMulShape, kind: ElementKind, target: Target) -> float:
    """Estimate a product by :mod:`glow_nb.kernels.products.row_products`.

    Left rows that the first-level cache does not hold come from the second for each tile.
    """
    lanes = lanes_of(kind, target)
    cut, columns = tile_of(shape.rows, registers_of(target))
    left_bytes = shape.rows * shape.inner * kind.size_bytes
    is_near = left_bytes <= target.l1_bytes // 2
    cycles = 0.0
    for begin, end, rows in cut.runs:
        step = max(
            rows * columns / FMA_PER_CYCLE,
            (rows + columns) / LOADS_PER_CYCLE,
            FMA_LATENCY_CYCLES,
            0.0 if is_near else rows / LEVEL_2_VECTORS_PER_CYCLE,
        )
        sums = LANE_SUM_CYCLES * rows * (columns - 1 + log2(max(1, lanes / columns)))
        cycles += (end - begin) * (step * -(-shape.inner // lanes) + sums + TILE_CYCLES)
    return shape.batch * -(-shape.depth // columns) * cycles
