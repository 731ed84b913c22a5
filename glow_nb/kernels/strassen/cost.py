"""Estimated time of a matrix product by Strassen's algorithm."""

from __future__ import annotations

from glow_nb.kernels.bilinear.plan import again_cycles, plan_bilinear
from glow_nb.kernels.products.blocking import fetch_cycles
from glow_nb.kernels.products.product_cost import (
    DIRECT_FACTOR,
    WEIGHT_CYCLES,
    Candidate,
    filter_cycles,
    product_cycles,
    waiting_cycles,
)
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import Target
from glow_nb.strassen import BLOCK_PRODUCTS, BLOCKS, SIDE
from glow_nb.thread_grid import largest_share
from glow_nb.types import ElementKind

LEAST_GAIN = 1.04
"""How many times as fast it must seem to be preferred to a direct sum: the weights take 7/4 of
their memory, and rounding errors are twice as large."""

INPUT_CYCLES, OUTPUT_CYCLES = 8.3, 4.5
"""Of a vector of the left matrix, and of the result: what adding up takes beside the products.

They are fitted to 45 products of 64 to 3,136 rows, 96 to 2,048 factors and 96 to 3,072 columns on
one Zen 4 core. Estimates over those of direct sums then differ from what is measured by 0.021
(standard deviation) with 16 lanes, for which 8.5 and 4.6 fit best, and by 0.026 with 8 lanes, for
which 8.1 and 3.1 do. Few columns gain least, as a sum of the left matrix is multiplied by few.
"""


def suits_strassen(rows: int, inner: int, depth: int, kind: ElementKind, target: Target) -> bool:
    """Return whether there is a kernel for such a product, of so many rows."""
    is_even = inner % SIDE == 0 and depth % SIDE == 0
    is_long = inner >= SIDE * target.lanes and min(rows, depth) >= SIDE
    return kind is ElementKind.FLOAT32 and is_even and is_long


def strassen_candidate(nest: StrassenNest, target: Target, threads: int) -> Candidate:
    """Return the product *nest* by Strassen's algorithm."""
    plan = plan_bilinear(nest, target)
    inner, tiles = nest.inner // SIDE, nest.tiles
    cycles = product_cycles(plan.columns, tiles, inner, target, plan.kinds.form)
    inner_blocks = -(-plan.groups // max(1, plan.dot))
    cycles += waiting_cycles(plan.columns, tiles, inner_blocks, target)
    cycles += tiles * nest.panels * fetch_cycles(inner, nest.kind)
    cycles *= BLOCK_PRODUCTS * DIRECT_FACTOR
    depth = nest.panels * nest.block
    vectors = BLOCKS * target.passes / plan.lanes * tiles
    unit_part, panel_part = largest_share(
        plan.cut.tiles, nest.panels, threads, panels_first=plan.panels_first
    )
    cycles = unit_part * panel_part * (cycles + OUTPUT_CYCLES * vectors * depth)
    cycles += unit_part * INPUT_CYCLES * vectors * inner
    cycles += panel_part * (WEIGHT_CYCLES * nest.filter_bytes + again_cycles(nest, plan))
    cycles = max(cycles, filter_cycles(nest.filter_bytes, panel_part, target))
    return Candidate(None, nest.block, cycles, is_strassen=True)
