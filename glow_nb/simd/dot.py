"""The inner loop of every matrix product: sums over neighbouring inputs in a register tile.

The rounding error of a sum grows with the root of the length of its chain. So products are summed
in short chains from zero, these sums in longer ones, and those on what was there before. The totals
that wait lie in the first-level cache; while chains are not too short this costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.simd.lanes import Lanes
from glow_nb.simd.memory import (
    address,
    are_literal,
    hint_second_level,
    literal,
    to_index,
)
from glow_nb.simd.tile import outer_product
from glow_nb.simd.types import INDEX, Pointer, RegisterTile


@intrinsic(prefer_literal=True)
def tile_dot(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    stride: Any,
    weights: Any,
    index: Any,
    block: Any,
    count: Any,
    longer: Any,
    shorter: Any,
    ahead: Any,
    pace: Any,
) -> Any:
    """``tile_dot(t, x, i, stride, w, j, block, count, longer, shorter, ahead, pace)``.

    ``t[r, v] += sum over c < count of x[i + r * stride + c] * w[j + c * block + v]`` for every row
    r and column v. To keep rounding errors small, products are summed in chains of *shorter*, these
    sums in chains of *longer* products, and their sums are added to t; a length of 0 leaves that
    level out. Meanwhile the weights ``w[ahead + c * pace]``, which a later call reads, are brought
    into the second-level cache, unless *pace* is 0. All but t, x, i, w, j and ahead are literals.
    """
    if not (
        isinstance(tile, RegisterTile) and are_literal(stride, block, count, longer, shorter, pace)
    ):
        return None
    if not (isinstance(source, Pointer) and isinstance(weights, Pointer)):
        return None
    operands = (tile, source, start, stride, weights, index, block, count)
    options = (longer, shorter, ahead, pace)
    limits = [literal(limit) for limit in (longer, shorter) if literal(limit)]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[2], signature.args[2])
        place = to_index(context, builder, arguments[5], signature.args[5])
        width = ir.Constant(INDEX, literal(block))

        later = to_index(context, builder, arguments[10], signature.args[10])

        def add_product(total: Any, channel: Any) -> None:
            if literal(pace):
                step = builder.mul(channel, ir.Constant(INDEX, literal(pace)))
                place_ahead = address(builder, arguments[4], builder.add(later, step), weights.kind)
                hint_second_level(builder, place_ahead)
            x = builder.add(first, channel)
            w = builder.add(place, builder.mul(channel, width))
            row, column = (arguments[1], source, x), (arguments[4], weights, w)
            value = outer_product(builder, builder.load(total), tile, row, column, literal(stride))
            builder.store(value, total)

        def add_sum(total: Any, begin: Any, end: Any, limits: Sequence[int]) -> None:
            """Add the products of the channels from begin to end to the tile at *total*."""
            if not limits:
                with _steps(builder, begin, end, 1) as (channel, _):
                    add_product(total, channel)
                return
            part = cgutils.alloca_once(builder, tile.llvm)
            with _steps(builder, begin, end, limits[0]) as (piece, piece_end):
                builder.store(ir.Constant(tile.llvm, None), part)
                add_sum(part, piece, piece_end, limits[1:])
                sums = add_tiles(builder, tile, builder.load(total), builder.load(part))
                builder.store(sums, total)

        total = cgutils.alloca_once(builder, tile.llvm)
        builder.store(arguments[0], total)
        add_sum(total, ir.Constant(INDEX, 0), ir.Constant(INDEX, literal(count)), limits)
        return builder.load(total)

    return tile(*operands, *options), codegen


def add_tiles(builder: Any, tile: RegisterTile, lhs: Any, rhs: Any) -> Any:
    """Return the sum of two tile values, element by element."""
    result = lhs
    for part in range(tile.rows * tile.vectors):
        left, right = (
            Lanes(builder, builder.extract_value(each, part), tile.kind, tile.lanes)
            for each in (lhs, rhs)
        )
        result = builder.insert_value(result, (left + right).value, part)
    return result


@contextmanager
def _steps(builder: Any, begin: Any, end: Any, step: int) -> Iterator[tuple[Any, Any]]:
    """Loop from *begin* to *end*, giving the beginning and the end of each step."""
    size = ir.Constant(INDEX, step)
    with cgutils.for_range_slice(builder, begin, end, size, INDEX) as (index, _):
        next_index = builder.add(index, size)
        is_last = builder.icmp_signed("<", end, next_index)
        yield index, builder.select(is_last, end, next_index)
