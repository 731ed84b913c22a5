"""How a product is cut up: tiles, inner blocks, blocks of units, scratch, shares of the threads.

``units`` are output lines, or tiles where there is only one line. They are taken in blocks, so that
what a block reads of the left operand stays in the second-level cache; a panel's part of an inner
block of the sum stays in the first-level cache from tile to tile. Around the tiles of a block run
two loops, in either order:

- *whole sums*: for each panel all inner blocks. The sums of one panel wait in scratch. The left
  rows of a block are read again for each panel, so whole rows must fit.
- *panels inside*: for each inner block all panels. The sums of all panels wait in scratch. Only an
  inner block's part of the left rows must fit, so blocks have more rows, and the right operand,
  which is read again for each block, passes less often. That part is packed into scratch first: at
  their old places, far apart, its pieces would drive each other out of a cache with few ways.

Where a sum is one inner block, both are the same, and nothing waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from glow_nb.alignment import CACHE_LINE_BYTES
from glow_nb.kernels.products.blocking import Columns, Cut, lanes_of, most_rows
from glow_nb.kernels.products.caches import (
    LONGEST_CHAIN,
    byte_cycles,
    level_2_bytes,
    longest_dot,
    rows_side_by_side,
)
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.inner_blocks import reduction_of
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.reduction import Reduction
from glow_nb.kernels.target import Target

MOST_SHORTER = 32
"""Steps by which streams are made shorter, so that they do not meet in the caches."""


@dataclass(frozen=True)
class Plan:
    """The numbers that the loops of a kernel are made of.

    Attributes:
        lanes: Elements of a vector.
        columns: Output channels of one group in panels.
        cut: Pixels of one line in tiles.
        sum: The loops of a sum.
        panels_inside: True if panels are the loop inside that over inner blocks.
        is_staged: True if the input is copied to scratch, padded.
        block_units: Units of one block.
        panels_first: True if threads share panels before they share units.
        is_right_far: True if the right operand is too large for the second-level cache.
    """

    lanes: int
    columns: Columns
    cut: Cut
    sum: Reduction
    panels_inside: bool
    is_staged: bool
    block_units: int
    panels_first: bool
    is_right_far: bool

    @property
    def is_cut(self) -> bool:
        """True if sums wait between inner blocks."""
        return self.sum.blocks > 1


def plan_product(nest: ProductNest, target: Target) -> Plan:
    """Cut up *nest* for *target*."""
    shape, lanes = nest.shape, lanes_of(nest.kinds.total, target)
    columns = Columns(shape.depth_per_group, nest.block, lanes, nest.kinds.form.is_dense)
    limit = most_rows(columns.vectors, target, nest.kinds.form)
    limit = min(limit, rows_side_by_side(_row_bytes(nest), target))
    cut = Cut.balanced(max(1, shape.output[-1]), limit)
    row_bytes = nest.block * nest.kinds.factors * nest.kinds.right.size_bytes
    limit = longest_dot(row_bytes, target, is_exact=not nest.kinds.total.is_float)
    if nest.kinds.form.is_paired:  # steps are counted from the beginning of a run
        limit = max(limit, shape.steps)
    if nest.right.is_copied or nest.codes is not None:  # a panel is written before it is read
        limit = max(1, int(target.machine.l1_written_share * limit))
    whole = Plan(
        lanes=lanes,
        columns=columns,
        cut=cut,
        sum=reduction_of(nest, limit, lanes),
        panels_inside=False,
        is_staged=nest.is_staged,
        block_units=1,
        panels_first=nest.right_bytes > nest.left_bytes,
        is_right_far=nest.right_bytes > level_2_bytes(target),
    )
    orders = [whole]
    if _is_read_in_streams(nest, whole, target):
        orders = [replace(whole, sum=_in_streams(nest, whole, target, limit))]
    elif whole.is_cut and columns.panels > 1 and _can_pack(nest, whole.sum):
        orders = [whole, replace(whole, panels_inside=True)]
    plans = [replace(plan, block_units=_block_units(nest, plan, target)) for plan in orders]
    fitting = [plan for plan in plans if block_bytes(nest, plan) <= level_2_bytes(target)]
    return min(fitting or plans, key=lambda plan: traffic_cycles(nest, plan, target))


def _is_read_in_streams(nest: ProductNest, plan: Plan, target: Target) -> bool:
    """Return whether the panels of *nest* are read from several places at a time.

    They are where so few left rows multiply them that memory is what they wait for.
    """
    shape, right, factors, machine = nest.shape, nest.right, nest.kinds.factors, target.machine
    is_dense = right.row == nest.block * factors
    step_bytes = plan.lanes * factors * nest.kinds.right.size_bytes
    return (
        plan.is_right_far
        and plan.cut.tiles == 1
        and is_dense
        and not right.is_copied
        and nest.codes is None
        and not nest.kinds.form.is_paired
        and (shape.rank, shape.kernel, shape.group) == (1, (1,), 1)
        and plan.sum.whole_dot >= machine.panel_streams
        and target.passes * shape.output[0] / (machine.fma_per_cycle * step_bytes)
        < machine.streamed_byte_cycles
        and right.panel * nest.kinds.right.size_bytes
        >= machine.panel_streams * machine.min_stream_bytes
    )


def _in_streams(nest: ProductNest, plan: Plan, target: Target, limit: int) -> Reduction:
    """Return the sum of *plan* in streams, in inner blocks of at most *limit* steps.

    What streams read at a time must not meet in one place of the caches, as lines do that are a
    multiple of ``l1_set_bytes`` apart: streams are up to :data:`MOST_SHORTER` steps shorter
    for that, and what is left over is summed up in the end.
    """
    left = (1 if nest.is_staged else nest.left.step) * nest.kinds.factors
    sizes = (left * nest.kinds.staged.size_bytes, nest.right.row * nest.kinds.right.size_bytes)

    streams, set_bytes = target.machine.panel_streams, target.machine.l1_set_bytes

    def meet(gap: int) -> bool:
        return any(
            not line <= number * gap * size % set_bytes <= set_bytes - line
            for size in sizes
            for line in [max(size, CACHE_LINE_BYTES)]
            for number in range(1, streams)
        )

    longest = plan.sum.whole_dot // streams
    tried = range(longest, max(0, longest - MOST_SHORTER), -1)
    gap = next((gap for gap in tried if not meet(gap)), longest)
    if nest.kinds.total.is_float:  # the last chain has the rest as well
        limit = min(limit, LONGEST_CHAIN - (plan.sum.whole_dot - streams * gap))
    return plan.sum.in_streams(streams, gap, left, limit)


def _row_bytes(nest: ProductNest) -> int:
    """Return the bytes from row to row of a tile, in the operand or in its padded copy."""
    pixel = nest.shape.channels if nest.is_staged else nest.left.pixel
    kind = nest.kinds.staged if nest.is_staged else nest.kinds.left
    return nest.shape.stride[-1] * pixel * kind.size_bytes


def units_of(shape: ConvolutionShape, cut: Cut) -> int:
    """Return the number of units of one image: lines, or tiles of its only line."""
    return cut.tiles if shape.rank == 1 else shape.output[0]


def tile_steps(nest: ProductNest, plan: Plan) -> tuple[int, int]:
    """Return the elements from pixel to pixel and from step to step of what the tiles read."""
    shape, left, factors = nest.shape, nest.left, nest.kinds.factors
    if plan.panels_inside and left.step > 1 and not plan.is_staged:
        return 1, block_pixels(shape, plan)
    if plan.panels_inside:
        return plan.sum.block_products * factors, factors
    if plan.is_staged:
        return shape.stride[-1] * shape.channels, factors
    return shape.stride[-1] * left.pixel, left.step * factors


def staged_elements(nest: ProductNest, plan: Plan) -> int:
    """Return the elements of the padded copy of one block, 0 if there is none."""
    if not plan.is_staged:
        return 0
    return _input_elements(nest.shape, plan.cut, plan.block_units) + nest.kinds.form.width - 1


def packed_elements(nest: ProductNest, plan: Plan) -> int:
    """Return the elements of an inner block's part of the left rows, 0 if it is not packed."""
    if not plan.panels_inside:
        return 0
    return block_pixels(nest.shape, plan) * plan.sum.block_products * nest.kinds.factors


def waiting_elements(nest: ProductNest, plan: Plan) -> int:
    """Return the sums of one block that wait in scratch between inner blocks."""
    if not plan.is_cut:
        return 0
    panels = plan.columns.panels * nest.shape.group if plan.panels_inside else 1
    return panels * block_pixels(nest.shape, plan) * plan.columns.width


def block_pixels(shape: ConvolutionShape, plan: Plan) -> int:
    """Return the most pixels of a block."""
    return plan.block_units * (plan.cut.rows if shape.rank == 1 else prod(shape.output[1:]))


def block_bytes(nest: ProductNest, plan: Plan) -> int:
    """Return the bytes that the tiles of a block use for one panel and, over and over, the next.

    These are the left rows, whole ones or an inner block's part of them, and the sums that wait.
    """
    shape, pixels = nest.shape, block_pixels(nest.shape, plan)
    left = packed_elements(nest, plan) or _input_elements(shape, plan.cut, plan.block_units)
    waiting = pixels * plan.columns.width if plan.is_cut else 0
    return left * nest.kinds.staged.size_bytes + waiting * nest.kinds.total.size_bytes


def tiles_ahead(nest: ProductNest, plan: Plan, target: Target, result_bytes: int) -> int:
    """Return by how many tiles results are asked for before they are written.

    *result_bytes* are those of the results, with or without what an epilogue reads beside them. It
    is 0 if they take no more than our share of the last-level cache, if sums wait between inner
    blocks, and if one tile takes as long as the memory.
    """
    machine = target.machine
    if plan.is_cut or result_bytes <= machine.l3_share * machine.l3_bytes:
        return 0
    vectors = target.passes * plan.cut.rows * plan.columns.vectors
    steps = nest.shape.steps / nest.kinds.factors
    return min(
        machine.max_prefetch_tiles,
        int(machine.dram_latency_cycles * machine.fma_per_cycle / max(1.0, vectors * steps)),
    )


def panels_ahead(nest: ProductNest, plan: Plan, tiles: int) -> int:
    """Return by how many panels the results of so many *tiles* later lie further on.

    The tiles of a block follow each other along the rows, and then come those of the next panel.
    Groups of channels, which have panels of their own, are not told from each other: 0.
    """
    if nest.shape.group > 1 or not tiles:
        return 0
    return tiles // -(-block_pixels(nest.shape, plan) // plan.cut.rows)


def traffic_cycles(nest: ProductNest, plan: Plan, target: Target) -> float:
    """Estimate the cycles of the right operand, the waiting sums and the packed left rows.

    The left rows come from the second-level cache in any case, a fraction as fast as weights.
    """
    blocks = _blocks(nest, plan)
    right = byte_cycles(nest.right_bytes, target)
    cycles = copying_cycles(nest, plan, target) + _passes(nest, plan) * nest.right_bytes * right
    waiting = waiting_elements(nest, plan) * nest.kinds.total.size_bytes
    panels = 1 if plan.panels_inside else plan.columns.panels * nest.shape.group
    moves = 2 * (plan.sum.blocks - 1) * panels * blocks
    cycles += moves * waiting * byte_cycles(waiting, target)
    packed = packed_elements(nest, plan) * nest.kinds.staged.size_bytes
    return cycles + target.machine.packed_byte_cycles * blocks * plan.sum.blocks * packed


def copying_cycles(nest: ProductNest, plan: Plan, target: Target) -> float:
    """Estimate the cycles to copy panels to scratch, which each block of units does anew."""
    if not nest.right.is_copied:
        return 0.0
    copied = (
        target.machine.copied_byte_cycles
        if nest.right.column == 1
        else target.passes * target.machine.transposed_byte_cycles
    )
    return copied * _passes(nest, plan) * nest.right_bytes


def _blocks(nest: ProductNest, plan: Plan) -> int:
    """Return how many blocks of units there are."""
    return nest.shape.batch * -(-units_of(nest.shape, plan.cut) // plan.block_units)


def _passes(nest: ProductNest, plan: Plan) -> int:
    """Return how often the right operand is read."""
    blocks = _blocks(nest, plan)
    return blocks // max(1, nest.shape.batch) if nest.right.image else blocks


def _can_pack(nest: ProductNest, sum: Reduction) -> bool:
    """True if what is packed lies in runs: of factors of a pixel, or of pixels of a line.

    It is a single dot then, and no sum of chains.
    """
    if nest.shape.group > 1 or sum.chain is not None:
        return False
    is_turned = nest.shape.rank == 1 and nest.shape.stride == nest.shape.kernel == (1,)
    return nest.left.step == 1 or nest.is_staged or (is_turned and nest.left.pixel == 1)


def _block_units(nest: ProductNest, plan: Plan, target: Target) -> int:
    """Return how many units, balanced, keep a block within its share of the second-level cache."""
    units = units_of(nest.shape, plan.cut)
    one, two = (block_bytes(nest, replace(plan, block_units=number)) for number in (1, 2))
    left = level_2_bytes(target) - one
    most = max(1, 1 + left // max(1, two - one))
    if is_written_far(nest, plan, target):
        most = min(most, _near_units(nest, plan, target))
    return -(-units // -(-units // most)) if units else 1


def _near_units(nest: ProductNest, plan: Plan, target: Target) -> int:
    """Return the units of a block that writes far results: few rows.

    There are so many that what a block copies of another one's input is little beside its results.
    """
    shape, makes_panels = nest.shape, nest.right.is_copied or nest.codes is not None
    pixels = block_pixels(shape, replace(plan, block_units=1))
    machine = target.machine
    rows = machine.tlb_copied_block_rows if makes_panels else machine.tlb_block_rows
    units = -(-rows // pixels)
    if not plan.is_staged:
        return units
    one, two = (_input_elements(shape, plan.cut, number) for number in (1, 2))
    again = (2 * one - two) * nest.kinds.staged.size_bytes
    results = pixels * shape.depth * nest.kinds.total.size_bytes
    return max(units, ceil(again / (machine.max_recopy_fraction * results)))


def is_written_far(nest: ProductNest, plan: Plan, target: Target) -> bool:
    """Return whether tiles of several panels of floats do little beside writing far results.

    Each block reads the right operand again, so it must be near.
    """
    if plan.columns.panels * nest.shape.group == 1 or plan.is_right_far:
        return False
    if not nest.kinds.total.is_float:
        return False
    ahead = tiles_ahead(nest, plan, target, result_bytes(nest))
    return ahead >= target.machine.min_prefetch_tiles or outruns_memory(nest, plan, target)


def outruns_memory(nest: ProductNest, plan: Plan, target: Target) -> bool:
    """Return whether sums take less time than any memory that holds the results."""
    machine = target.machine
    vector_bytes = plan.lanes * nest.kinds.total.size_bytes
    steps = target.passes * nest.shape.steps / nest.kinds.factors
    is_short = steps / (machine.fma_per_cycle * vector_bytes) < machine.dram_result_byte_cycles
    return is_short and not plan.is_cut and result_bytes(nest) > machine.l2_bytes


def result_bytes(nest: ProductNest) -> int:
    """Return the bytes of all results, before an epilogue changes their kind."""
    shape = nest.shape
    return shape.batch * prod(shape.output) * shape.depth * nest.kinds.total.size_bytes


def _input_elements(shape: ConvolutionShape, cut: Cut, units: int) -> int:
    """Return the input elements that *units* neighbouring units read."""
    pixels = units * cut.rows if shape.rank == 1 else units
    line = prod(shape.needed[1:]) * shape.channels
    return ((pixels - 1) * shape.stride[0] + shape.reach[0]) * line
