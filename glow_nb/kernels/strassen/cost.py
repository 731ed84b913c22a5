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

INPUT_CYCLES, OUTPUT_CYCLES = 7.0, 10.0
"""Of a vector of the left matrix, and of the result: what adding up takes beside the products.

On one Zen 4 core, estimates over those of direct sums are 1.007 times what is measured for products
of twelve networks with 16 lanes (standard deviation 0.05), and 1.004 times for those of five with 8
lanes (0.02).
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
