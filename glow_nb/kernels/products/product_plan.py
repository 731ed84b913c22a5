"""The loops of a product: tiles, inner blocks, blocks of units, scratch, shares of the threads.

The loops themselves are described in :mod:`glow_nb.kernels.products.loops`.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.plan import Plan
from glow_nb.base.size import Size, symbols_in
from glow_nb.kernels.products.blocking import Cut, lanes_of, most_rows
from glow_nb.kernels.products.caches import (
    LONGEST_CHAIN,
    byte_cycles,
    level_2_bytes,
    longest_dot,
    rows_side_by_side,
)
from glow_nb.kernels.products.inner_blocks import reduction_of
from glow_nb.kernels.products.loops import (
    Loops,
    block_pixels,
    can_pack,
    can_stream,
    columns_of,
    input_elements,
    line_pixels,
    packed_elements,
    staged_elements,
    stream_left,
    units_of,
    waiting_elements,
)
from glow_nb.kernels.products.matrix_cost import longest_matrix_dot
from glow_nb.kernels.products.open_extents import example_nest
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.reduction import Reduction
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target

MOST_SHORTER = 32
"""Steps by which streams are made shorter, so that they do not meet in the caches."""

MOST_FEW = 4
"""The most rows that have loops of their own where rows are open: each more is more to compile."""

DIRECT = "direct"
"""The algorithm that sums up all products as they are, of an operand in panels."""


def plan_nest(
    nest: ProductNest, target: Target, fusion: Fusion, *, algorithm: str = DIRECT
) -> Plan:
    """Return the loops of *nest* that are estimated to be the fastest on *target*.

    What *fusion* writes and reads beside the product is prefetched if it takes more than our share
    of the second-level cache.
    """
    loops = plan_loops(nest, target)
    nest = example_nest(nest)
    touched = TileStore(fusion.named_by_field(), loops.lanes).touched_bytes
    if touched > level_2_bytes(target):
        loops = replace(loops, tiles_ahead=tiles_ahead(nest, loops, target, touched))
    return loops.as_plan(algorithm, nest.kinds.dot)


def few_rows(nest: ProductNest, target: Target, *, in_any_case: bool = False) -> Loops | None:
    """Return the loops of the most rows of *nest*, where they are open, that memory is waited for.

    A single tile has them all, and weights are read in streams then. None if there are none, unless
    few rows have loops of their own *in any case*.
    """
    if not isinstance(nest.shape.input[0], Size):
        return None
    vectors = columns_of(nest, lanes_of(nest.kinds.total, target)).vectors
    nest = nest.by_vectors()
    most = min(MOST_FEW, most_rows(vectors, target, nest.kinds.dot))
    tried = [plan_loops(nest.with_rows(rows), target) for rows in range(most, 0, -1)]
    in_streams = (loops for loops in tried if loops.sum.streams > 1)
    return next(in_streams, tried[0] if in_any_case else None)


def plan_loops(nest: ProductNest, target: Target) -> Loops:
    """Cut up *nest* for *target*; the loops are those of an example where sizes are open."""
    rows_are_open, panels_are_open = (
        bool(symbols_in(sizes))
        for sizes in (nest.shape.input, (nest.shape.channels, nest.shape.depth))
    )
    nest = example_nest(nest)
    shape, lanes = nest.shape, lanes_of(nest.kinds.total, target)
    columns = columns_of(nest, lanes)
    limit = most_rows(columns.vectors, target, nest.kinds.dot)
    if not nest.kinds.dot.is_matrix:  # whose steps take whole lines of the rows
        limit = min(limit, rows_side_by_side(_row_bytes(nest), target))
    cut = Cut.balanced(max(1, line_pixels(nest)), limit)
    row_bytes = nest.block * nest.kinds.factors * nest.kinds.near.size_bytes
    limit = longest_dot(row_bytes, target, is_exact=not nest.kinds.total.is_float)
    if nest.kinds.dot.is_matrix:
        limit = longest_matrix_dot(row_bytes, target)
    if nest.kinds.dot.is_paired:  # steps are counted from the beginning of a run
        limit = max(limit, shape.steps)
    if nest.right.is_copied or nest.codes is not None:  # a panel is written before it is read
        limit = max(1, int(target.machine.l1_written_share * limit))
    whole = Loops(
        lanes=lanes,
        columns=columns,
        cut=cut,
        sum=reduction_of(nest, limit, lanes),
        panels_inside=False,
        is_staged=nest.is_staged,
        block_units=1,
        panels_first=nest.right_bytes > nest.left_bytes,
        is_right_far=nest.right_bytes > _near_bytes(nest, target),
    )
    has_open_lines = rows_are_open and shape.rank > 1
    is_fetched = whole.is_right_far and whole.is_cut and not (whole.sum.inner or has_open_lines)
    if nest.right.is_copied and is_fetched:
        whole = replace(whole, fetch_lines=target.machine.fetched_lines)
    orders = [whole]
    if panels_are_open:
        pass
    elif not rows_are_open and _is_read_in_streams(nest, whole, target):
        orders = [replace(whole, sum=_in_streams(nest, whole, target, limit))]
    elif can_pack(nest, whole):
        orders = [whole, replace(whole, panels_inside=True)]
    plans = [replace(loops, block_units=_block_units(nest, loops, target)) for loops in orders]
    fitting = [loops for loops in plans if block_bytes(nest, loops) <= level_2_bytes(target)]
    return min(fitting or plans, key=lambda loops: traffic_cycles(nest, loops, target))


def _near_bytes(nest: ProductNest, target: Target) -> int:
    """Return the bytes of a right operand from which on what is read of it next is fetched.

    Dots of matrix registers are so fast that a panel must come before it is needed.
    """
    return target.machine.l1_bytes if nest.kinds.dot.is_matrix else level_2_bytes(target)


def _is_read_in_streams(nest: ProductNest, loops: Loops, target: Target) -> bool:
    """Return whether the panels of *nest* are read from several places at a time.

    They are where so few left rows multiply them that memory is what they wait for.
    """
    shape, right, machine = nest.shape, nest.right, target.machine
    step_bytes = loops.lanes * nest.kinds.factors * nest.kinds.right.size_bytes
    return (
        loops.is_right_far
        and can_stream(nest, loops.cut)
        and loops.sum.whole_dot >= machine.panel_streams
        and target.passes * shape.output[0] / (machine.fma_per_cycle * step_bytes)
        < machine.streamed_byte_cycles
        and right.panel * nest.kinds.right.size_bytes
        >= machine.panel_streams * machine.min_stream_bytes
    )


def _in_streams(nest: ProductNest, loops: Loops, target: Target, limit: int) -> Reduction:
    """Return the sum of *loops* in streams, in inner blocks of at most *limit* steps.

    What streams read at a time must not meet in one place of the caches, as lines do that are a
    multiple of ``l1_set_bytes`` apart: streams are up to :data:`MOST_SHORTER` steps shorter
    for that, and what is left over is summed up in the end.
    """
    left = stream_left(nest)
    sizes = (left * nest.kinds.staged.size_bytes, nest.right.row * nest.kinds.right.size_bytes)

    streams, set_bytes = target.machine.panel_streams, target.machine.l1_set_bytes

    def meet(gap: int) -> bool:
        return any(
            not line <= number * gap * size % set_bytes <= set_bytes - line
            for size in sizes
            for line in [max(size, CACHE_LINE_BYTES)]
            for number in range(1, streams)
        )

    longest = loops.sum.whole_dot // streams
    tried = range(longest, max(0, longest - MOST_SHORTER), -1)
    gap = next((gap for gap in tried if not meet(gap)), longest)
    if nest.kinds.total.is_float:  # the last chain has the rest as well
        limit = min(limit, LONGEST_CHAIN - (loops.sum.whole_dot - streams * gap))
    return loops.sum.in_streams(streams, gap, left, limit)


def _row_bytes(nest: ProductNest) -> int:
    """Return the bytes from row to row of a tile, in the operand or in its padded copy."""
    pixel = nest.shape.channels if nest.is_staged else nest.left.pixel
    kind = nest.kinds.staged if nest.is_staged else nest.kinds.left
    return nest.shape.stride[-1] * pixel * kind.size_bytes


def block_bytes(nest: ProductNest, loops: Loops) -> int:
    """Return the bytes that the tiles of a block use for one panel and, over and over, the next.

    These are the left rows, whole ones or an inner block's part of them, and the sums that wait.
    """
    shape, pixels = nest.shape, block_pixels(nest.shape, loops)
    left = packed_elements(nest, loops) or input_elements(shape, loops.cut, loops.block_units)
    if nest.is_in_planes:
        left = staged_elements(nest, loops)
    waiting = pixels * loops.columns.width if loops.is_cut else 0
    return left * nest.kinds.staged.size_bytes + waiting * nest.kinds.total.size_bytes


def tiles_ahead(nest: ProductNest, loops: Loops, target: Target, result_bytes: int) -> int:
    """Return the number of tiles by which results are prefetched.

    *result_bytes* are those of the results, with or without what an epilogue reads beside them. It
    is 0 if they take no more than our share of the last-level cache, if sums wait between inner
    blocks, and if one tile takes as long as the memory.
    """
    machine = target.machine
    if loops.is_cut or result_bytes <= machine.l3_share * machine.l3_bytes:
        return 0
    vectors = target.passes * loops.cut.rows * loops.columns.vectors
    steps = nest.shape.steps / nest.kinds.factors
    return min(
        machine.max_prefetch_tiles,
        int(machine.dram_latency_cycles * machine.fma_per_cycle / max(1.0, vectors * steps)),
    )


def traffic_cycles(nest: ProductNest, loops: Loops, target: Target) -> float:
    """Estimate the cycles of the right operand, the waiting sums and the packed left rows.

    The left rows come from the second-level cache in any case, a fraction as fast as weights.
    """
    blocks = _blocks(nest, loops)
    right = byte_cycles(nest.right_bytes, target)
    cycles = copying_cycles(nest, loops, target) + _passes(nest, loops) * nest.right_bytes * right
    waiting = waiting_elements(nest, loops) * nest.kinds.total.size_bytes
    panels = 1 if loops.panels_inside else loops.columns.panels * nest.shape.group
    moves = 2 * (loops.sum.blocks - 1) * panels * blocks
    cycles += moves * waiting * byte_cycles(waiting, target)
    packed = packed_elements(nest, loops) * nest.kinds.staged.size_bytes
    return cycles + target.machine.packed_byte_cycles * blocks * loops.sum.blocks * packed


def copying_cycles(nest: ProductNest, loops: Loops, target: Target) -> float:
    """Estimate the cycles to copy panels to scratch, which each block of units does anew."""
    if not nest.right.is_copied:
        return 0.0
    if nest.kinds.is_widened:
        vectors = nest.right_bytes / (nest.kinds.right.size_bytes * loops.lanes)
        widened = target.machine.written_vector_cycles * target.passes * vectors
        return _passes(nest, loops) * widened
    copied = (
        target.machine.copied_byte_cycles
        if nest.right.column == 1
        else target.passes * target.machine.transposed_byte_cycles
    )
    return copied * _passes(nest, loops) * nest.right_bytes


def _blocks(nest: ProductNest, loops: Loops) -> int:
    """Return how many blocks of units there are."""
    return nest.shape.batch * -(-units_of(nest.shape, loops.cut) // loops.block_units)


def _passes(nest: ProductNest, loops: Loops) -> int:
    """Return how often the right operand is read."""
    blocks = _blocks(nest, loops)
    return blocks // max(1, nest.shape.batch) if nest.right.image else blocks


def _block_units(nest: ProductNest, loops: Loops, target: Target) -> int:
    """Return how many units, balanced, keep a block within its share of the second-level cache."""
    units = units_of(nest.shape, loops.cut)
    one, two = (block_bytes(nest, replace(loops, block_units=number)) for number in (1, 2))
    left = level_2_bytes(target) - one
    most = max(1, 1 + left // max(1, two - one))
    if is_written_far(nest, loops, target):
        most = min(most, _near_units(nest, loops, target))
    return -(-units // -(-units // most)) if units else 1


def _near_units(nest: ProductNest, loops: Loops, target: Target) -> int:
    """Return the units of a block that writes far results: few rows.

    There are so many that what a block copies of another one's input is little beside its results.
    """
    shape, makes_panels = nest.shape, nest.right.is_copied or nest.codes is not None
    pixels = block_pixels(shape, replace(loops, block_units=1))
    machine = target.machine
    rows = machine.tlb_copied_block_rows if makes_panels else machine.tlb_block_rows
    units = -(-rows // pixels)
    if not loops.is_staged:
        return units
    one, two = (input_elements(shape, loops.cut, number) for number in (1, 2))
    again = (2 * one - two) * nest.kinds.staged.size_bytes
    results = pixels * shape.depth * nest.kinds.total.size_bytes
    return max(units, ceil(again / (machine.max_recopy_fraction * results)))


def is_written_far(nest: ProductNest, loops: Loops, target: Target) -> bool:
    """Return whether tiles of several panels of floats do little beside writing far results.

    Each block reads the right operand again, so it must be near.
    """
    if loops.columns.panels * nest.shape.group == 1 or loops.is_right_far:
        return False
    if not nest.kinds.total.is_float:
        return False
    ahead = tiles_ahead(nest, loops, target, result_bytes(nest))
    return ahead >= target.machine.min_prefetch_tiles or outruns_memory(nest, loops, target)


def outruns_memory(nest: ProductNest, loops: Loops, target: Target) -> bool:
    """Return whether sums take less time than any memory that holds the results."""
    machine = target.machine
    vector_bytes = loops.lanes * nest.kinds.total.size_bytes
    steps = target.passes * nest.shape.steps / nest.kinds.factors
    is_short = steps / (machine.fma_per_cycle * vector_bytes) < machine.dram_result_byte_cycles
    return is_short and not loops.is_cut and result_bytes(nest) > machine.l2_bytes


def result_bytes(nest: ProductNest) -> int:
    """Return the bytes of all results, before an epilogue changes their kind."""
    shape = nest.shape
    return shape.batch * prod(shape.output) * shape.depth * nest.kinds.total.size_bytes
