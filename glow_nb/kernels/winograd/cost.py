"""Estimated time of a convolution by Winograd's algorithm.

Beside its products: what a register tile costs, the transforms, and the weights that each further
block of the input reads once more from a nearer cache.
"""

from __future__ import annotations

from glow_nb.kernels.bilinear.plan import BilinearPlan, again_cycles, rounded_up, taps_cycles
from glow_nb.kernels.products.blocking import fetch_cycles
from glow_nb.kernels.products.product_cost import (
    filter_cycles,
    product_cycles,
    waiting_cycles,
)
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd.nest import WinogradNest, plan_winograd
from glow_nb.scheduling.thread_grid import largest_share

TRANSFORM_LENGTH = 6
"""The n for which these two hold. Half of them grows with n, as an element of the result is a sum
of so many; the other half is what loads and stores take. This fits the times of tiles of 4 x 4 and
of 6 x 6 outputs best (docs/history.md)."""


def winograd_cycles(nest: WinogradNest, target: Target, threads: int) -> float:
    """Estimate the convolution *nest* by Winograd's algorithm."""
    machine = target.machine
    shape, plan = nest.shape, plan_winograd(nest, target)
    inner, kinds = shape.channels_per_group, plan.kinds
    matrices = nest.elements * shape.group
    cycles = matrices * product_cycles(plan.columns, nest.tiles, inner, target, kinds.dot)
    inner_blocks = -(-plan.groups // max(1, plan.dot))
    sums = nest.sums * shape.group
    cycles += sums * waiting_cycles(plan.columns, nest.tiles, inner_blocks, target)
    cycles *= machine.winograd_factor
    cycles += nest.elements * nest.panels * nest.tiles * fetch_cycles(inner, kinds.left, target)
    growth = _transform_growth(nest)
    cycles += growth * _output_cycles(nest, plan, target)
    unit_part, panel_part = largest_share(
        plan.cut.tiles, nest.panels, threads, panels_first=plan.panels_first
    )
    cycles *= unit_part * panel_part
    vectors = -(-shape.channels // plan.factor_lanes)
    transforms = nest.tiles * nest.elements * vectors
    cycles += unit_part * growth * machine.winograd_input_cycles * target.passes * transforms
    blocks = -(-plan.cut.tiles // max(1, plan.block_units))
    cycles += panel_part * max(1.0, unit_part * blocks) * taps_cycles(nest, plan, target)
    cycles += panel_part * (
        machine.winograd_filter_byte_cycles * nest.filter_bytes + again_cycles(nest, plan, target)
    )
    return max(cycles, filter_cycles(nest.filter_bytes, panel_part, target))


def _transform_growth(nest: WinogradNest) -> float:
    """Return what an element of the transforms of *nest* takes, over :data:`TRANSFORM_LENGTH`.

    With a stride, an element is a sum of inputs of one phase.
    """
    axes = zip(nest.sizes, nest.shape.stride, nest.tile, strict=True)
    sizes = [size / stride for size, stride, outputs in axes if outputs > 1]
    if not sizes:  # tiles of one output: nothing is transformed
        return 0.5
    return (1 + sum(sizes) / (len(sizes) * TRANSFORM_LENGTH)) / 2


def _output_cycles(nest: WinogradNest, plan: BilinearPlan, target: Target) -> float:
    """Estimate how long it takes to store products and transform them back."""
    if nest.kind.is_float:
        return (
            target.machine.winograd_tile_cycles
            * target.passes
            * nest.sums
            * nest.panels
            * plan.cut.tiles
        )
    columns = nest.shape.group * rounded_up(nest.shape.depth_per_group, plan.lanes)
    return (
        target.machine.winograd_product_byte_cycles
        * nest.sums
        * nest.tiles
        * columns
        * plan.kinds.total.size_bytes
    )
