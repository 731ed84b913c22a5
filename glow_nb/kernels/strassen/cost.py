"""Estimated time of a matrix product by Strassen's algorithm."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.kernels.bilinear.plan import plan_bilinear
from glow_nb.kernels.products.blocking import fetch_cycles
from glow_nb.kernels.products.product_cost import (
    filter_cycles,
    product_cycles,
    waiting_cycles,
)
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.target import Target
from glow_nb.numerics.strassen import SIDE
from glow_nb.scheduling.thread_grid import largest_share

LEAST_GAIN = 1.03
"""How many times as fast it must seem to be preferred: the weights take 7/4 of their memory, and
rounding errors are twice as large."""

LEAST_ROWS = 2
"""Rows of the left matrix from which the algorithm is estimated."""


def suits_strassen(rows: int, inner: int, depth: int, kind: ElementKind, target: Target) -> bool:
    """Return whether there is a kernel for such a product, of this number of rows."""
    is_even = inner % SIDE == 0 and depth % SIDE == 0
    is_large = inner >= SIDE * target.lanes and depth >= SIDE and rows >= LEAST_ROWS
    return kind is ElementKind.FLOAT32 and is_even and is_large


def strassen_cycles(nest: StrassenNest, target: Target, threads: int) -> float:
    """Estimate the product *nest* by Strassen's algorithm."""
    machine = target.machine
    plan = plan_bilinear(nest, target)
    (inner, _), tiles = nest.block_sizes, nest.tiles
    cycles = product_cycles(plan.columns, tiles, inner, target, plan.kinds.dot)
    inner_blocks = -(-plan.groups // max(1, plan.dot))
    cycles += waiting_cycles(plan.columns, tiles, inner_blocks, target)
    cycles += tiles * nest.panels * fetch_cycles(inner, nest.kind, target)
    cycles *= nest.elements * machine.direct_factor
    depth = nest.panels * nest.block
    added = nest.blocks * target.passes / plan.lanes * tiles
    unit_part, panel_part = largest_share(
        plan.cut.tiles, nest.panels, threads, panels_first=plan.panels_first
    )
    cycles = unit_part * panel_part * (cycles + machine.strassen_output_cycles * added * depth)
    cycles += unit_part * machine.strassen_input_cycles * added * inner
    far_bytes = max(0.0, nest.filter_bytes - machine.strassen_l3_share * machine.l3_bytes)
    blocks = -(-plan.cut.tiles // max(1, plan.block_units))
    again = max(1.0, unit_part * blocks)
    far_cycles = machine.strassen_weight_byte_cycles * again * far_bytes
    cycles += panel_part * (machine.weight_byte_cycles * nest.filter_bytes + far_cycles)
    return max(cycles, filter_cycles(nest.filter_bytes, panel_part, target))
