"""Operands of 16-bit floats that become floats of the sums' kind once, before tiles read them.

A tile converts each element that it reads: a vector of a panel once for all of its rows, a left
element once for all of its columns. That takes as many operations as the products. So where a block
of units has several tiles, what it reads of the left operand is copied to scratch as the kind of
the sums, and so is a panel's part of an inner block before its tiles read it. Few rows read panels
at the rate of memory, where conversions take no time of their own.
"""

from __future__ import annotations

from math import prod

from glow_nb.base.dot_instruction import SINGLE
from glow_nb.base.size import symbols_in
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.kernels.products.loops import Loops, staged_elements, units_of
from glow_nb.kernels.products.open_extents import example_nest
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.product_plan import plan_loops, traffic_cycles
from glow_nb.kernels.target import Target


def can_widen(nest: ProductNest) -> bool:
    """Return whether panels of *nest* are of 16-bit floats that become ``float32`` one by one."""
    is_known = not symbols_in((nest.shape.channels, nest.shape.depth))
    return nest.kinds.dot is SINGLE and nest.kinds.right in NARROW_FLOATS and is_known


def pays_to_widen(nest: ProductNest, target: Target) -> bool:
    """Return whether *nest* is estimated to be faster if each block widens what it reads."""
    if not can_widen(nest):
        return False
    example = example_nest(nest)
    if 0 in (example.shape.batch, example.shape.depth, *example.shape.output):
        return False
    in_tiles, once = plan_loops(nest, target), plan_loops(nest.widened(), target)
    if in_tiles.sum.streams > 1:
        return False  # memory is waited for
    copying = moving_cycles(example.widened(), once, target)
    reading = moving_cycles(example, in_tiles, target)
    return copying < reading + converting_cycles(example, in_tiles, target)


def converting_cycles(nest: ProductNest, loops: Loops, target: Target) -> float:
    """Estimate the conversions of tiles that read operands of *nest* where they lie."""
    shape, columns = nest.shape, loops.columns
    lines = shape.batch * shape.group * prod(shape.output[:-1])
    vectors = loops.cut.tiles * (columns.full * columns.vectors + columns.tail_vectors)
    if nest.kinds.staged in NARROW_FLOATS:
        vectors += shape.output[-1] * columns.panels
    return target.machine.widened_vector_cycles * target.passes * lines * shape.steps * vectors


def moving_cycles(nest: ProductNest, loops: Loops, target: Target) -> float:
    """Estimate what the operands of *nest*, copies of them, and sums that wait take."""
    blocks = nest.shape.batch * -(-units_of(nest.shape, loops.cut) // loops.block_units)
    staged = staged_elements(nest, loops) * nest.kinds.staged.size_bytes
    staging = target.machine.staged_byte_cycles * blocks * staged
    return staging + traffic_cycles(nest, loops, target)
