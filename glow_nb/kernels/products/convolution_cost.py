"""Estimated time of algorithms for a convolution or a matrix product.

The time has these parts: the multiply-adds of all register tiles, tails included (see
:mod:`glow_nb.kernels.products.blocking`); sums that wait between inner blocks; what a register tile
of Winograd's algorithm costs beside its products; the transforms; and the bytes that come from far:
weights, which no cache holds from one run to the next, the weights that each further block of the
input reads once more from a nearer cache, and the padded copy of the input. Where threads share a
convolution, it is the time of the largest share: of the panels, and of the input, all of which each
thread transforms if they share panels alone; but no less than the weights take from memory, which
is the same for all threads. The constants are those of the machine row
(:mod:`glow_nb.kernels.machine`); ``experiments/benchmarks/cost_model.py`` shows how well they fit.
"""

from __future__ import annotations

from math import prod

from glow_nb.base.dot_instruction import SINGLE, DotInstruction
from glow_nb.base.types import ElementKind
from glow_nb.kernels.products.blocking import (
    Columns,
    fetch_cycles,
    lanes_of,
    rank_blocks,
)
from glow_nb.kernels.products.caches import longest_dot
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import line_pixels, staged_elements, units_of
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.matrix_cost import longest_matrix_dot
from glow_nb.kernels.products.planes import in_best_place
from glow_nb.kernels.products.product_cost import (
    filter_cycles,
    product_cycles,
    waiting_cycles,
    weight_fetch_cycles,
)
from glow_nb.kernels.products.product_nest import ProductKinds, ProductNest, run_of
from glow_nb.kernels.products.product_plan import plan_loops
from glow_nb.kernels.target import Target
from glow_nb.numerics.cook_toom import inputs_of
from glow_nb.scheduling.thread_grid import largest_share


def best_product_cycles(shape: MatMulShape, kind: ElementKind, target: Target) -> float:
    """Estimate a matrix product with panels of the width that takes the fewest multiply-adds."""
    block = rank_blocks(
        shape.depth,
        target,
        pixels=shape.rows,
        steps=shape.inner,
        kind=kind,
        dot=SINGLE,
        fetched=shape.inner,
    )[0]
    return panel_product_cycles(shape, kind, target, SINGLE, block)


def panel_copy_cycles(shape: MatMulShape, kind: ElementKind, target: Target) -> float:
    """Estimate the copy of right matrices to panels at run time."""
    weight_bytes = shape.batch * shape.inner * shape.depth * kind.size_bytes
    return target.machine.laid_out_byte_cycles * weight_bytes


def packing_cycles(
    shape: ConvolutionShape,
    kind: ElementKind,
    block: int,
    target: Target,
    *,
    tile: tuple[int, ...] | None = None,
) -> float:
    """Estimate how long a run takes to lay out a filter in panels, padded to whole ones.

    With a *tile*, the filter is transformed for Winograd's algorithm as well.
    """
    panels = -(-shape.depth_per_group // block)
    size = shape.group * panels * block * shape.steps * kind.size_bytes
    copies = 1 if shape.depth_per_group % block == 0 else 2
    cycles = target.machine.laid_out_byte_cycles * copies * size
    if tile is None:
        return cycles
    elements = prod(inputs_of(*axis) for axis in zip(tile, shape.kernel, shape.stride, strict=True))
    transform = target.machine.winograd_transform_byte_cycles
    return cycles + transform * size * elements / prod(shape.kernel)


def panel_product_cycles(
    shape: MatMulShape, kind: ElementKind, target: Target, dot: DotInstruction, block: int
) -> float:
    """Estimate a matrix product whose right matrices lie in panels of *block* columns."""
    columns = Columns(shape.depth, block, lanes_of(kind, target), dot.group > 1)
    cycles = product_cycles(columns, shape.rows, shape.inner, target, dot)
    row_bytes = block * dot.group * kind.size_bytes
    longest = longest_dot(row_bytes, target, is_exact=not kind.is_float)
    if dot.is_matrix:
        longest = longest_matrix_dot(row_bytes, target)
    inner_blocks = -(-shape.inner // (dot.group * longest))
    cycles += waiting_cycles(columns, shape.rows, inner_blocks, target)
    if dot.is_matrix:  # whose steps count it
        cycles += target.machine.matrix_configure_cycles
    else:
        cycles += shape.rows * columns.panels * fetch_cycles(shape.inner, kind, target)
    weight_bytes = shape.batch * shape.inner * shape.depth * kind.size_bytes
    cycles = (
        target.machine.direct_factor * shape.batch * cycles
        + target.machine.weight_byte_cycles * weight_bytes
    )
    return max(cycles, weight_fetch_cycles(weight_bytes, target))


def direct_cycles(
    shape: ConvolutionShape, kinds: ProductKinds, target: Target, block: int, threads: int
) -> float:
    """Estimate a convolution that sums up products with a filter in panels of *block* columns."""
    simple, kind, dot = shape.simplified(), kinds.left, kinds.dot
    nest = ProductNest.packed(simple, kinds, block, run=run_of(shape, dot.group))
    nest = in_best_place(nest, target)
    loops = plan_loops(nest, target)
    lines = simple.batch * simple.group * prod(simple.output[:-1])
    pixels = simple.output[-1]
    if nest.is_flat:
        lines, pixels = simple.batch * simple.group, line_pixels(nest)
    at_once = nest.plane_groups if dot.is_matrix else 0
    cycles = lines * product_cycles(loops.columns, pixels, simple.steps, target, dot, at_once)
    cycles += lines * waiting_cycles(loops.columns, pixels, loops.sum.blocks, target)
    if dot.is_matrix:  # whose steps count it
        cycles += target.machine.matrix_configure_cycles
    else:
        fetched = fetch_cycles(simple.new_inputs, kind, target)
        cycles += lines * pixels * loops.columns.panels * fetched
    blocks = simple.batch * -(-units_of(simple, loops.cut) // max(1, loops.block_units))
    staged = blocks * staged_elements(nest, loops) * kinds.staged.size_bytes
    cycles = target.machine.direct_factor * cycles + target.machine.staged_byte_cycles * staged
    units = simple.batch * units_of(simple, loops.cut)
    unit_part, panel_part = largest_share(
        units, loops.columns.panels * simple.group, threads, panels_first=loops.panels_first
    )
    weight_bytes = shape.steps * shape.depth * kind.size_bytes
    cycles = (
        unit_part * panel_part * cycles
        + target.machine.weight_byte_cycles * panel_part * weight_bytes
    )
    return max(cycles, filter_cycles(weight_bytes, panel_part, target))
