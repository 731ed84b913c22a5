"""The sums of blocks that Strassen's algorithm takes, for one vector of each block at a time.

The vectors of a matrix of blocks are the rows of a register tile, those of the first row of blocks
first. Products of blocks, and weights made for them, lie in planes of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from glow_nb.simd.arithmetic import absolute
from glow_nb.simd.lanes import FLOAT32, Lanes
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.tile import offset, tile_of
from glow_nb.simd.types import Pointer, RegisterTile
from glow_nb.strassen import (
    LEAST_RECOVERED,
    LEFT,
    PRODUCTS,
    QUARTERS,
    RECOVERY,
    SUMS,
    blocks_in,
    nested,
    place_of,
    side_of,
    terms,
)
from glow_nb.types import Array


@intrinsic(prefer_literal=True)
def strassen_factors(typing: Any, dest: Any, index: Any, plane: Any, tile: Any, levels: Any) -> Any:
    """``strassen_factors(p, i, plane, x, levels)``: store the left factors of all products.

    Row r of x is a vector of block r of the left matrix. What product e takes of these goes to the
    elements from i + e * plane on.
    """
    if not (isinstance(tile, RegisterTile) and are_literal(plane, levels)):
        return None
    if (tile.rows, tile.vectors) != (blocks_in(literal(levels)), 1):
        return None
    if not (tile.kind is FLOAT32 and dest == Pointer(FLOAT32)):
        return None
    order = _numbers(literal(levels))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[1], signature.args[1])
        rows = [
            Lanes(builder, builder.extract_value(arguments[3], row), tile.kind, tile.lanes)
            for row in range(tile.rows)
        ]
        blocks = [rows[order.index(number)] for number in range(len(rows))]
        for product, factor in enumerate(_left_factors(blocks)):
            place = offset(builder, first, product * literal(plane))
            pointer = address(builder, arguments[0], place, dest.kind)
            store_vector(builder, pointer, factor.value, dest.kind)
        return context.get_dummy_value()

    return types.void(dest, index, plane, tile, levels), codegen


@intrinsic(prefer_literal=True)
def strassen_results(
    typing: Any, sums: Any, index: Any, plane: Any, levels: Any, lanes: Any
) -> Any:
    """``strassen_results(p, i, plane, levels, lanes)``: what the products add up to.

    The vector of product e starts at element i + e * plane. Row r of the tile is that of block r of
    the result.
    """
    if sums != Pointer(FLOAT32) or not are_literal(plane, levels, lanes):
        return None
    depth = literal(levels)
    tile = RegisterTile(sums.kind, literal(lanes), blocks_in(depth), 1)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        load = _planes(context, builder, signature, arguments, tile)
        blocks = _results(load, 0, depth)
        return tile_of(builder, tile, (blocks[number].value for number in _numbers(depth)))

    return tile(sums, index, plane, levels, lanes), codegen


@intrinsic(prefer_literal=True)
def strassen_recovered(
    typing: Any, weights: Any, index: Any, plane: Any, row: Any, levels: Any, lanes: Any
) -> Any:
    """``strassen_recovered(p, i, plane, n, levels, lanes)``: row n of the right matrix's blocks.

    They are recovered from the right factors of all products; that of product e starts at element
    i + e * plane. What may be mere rounding errors is zero.
    """
    if weights != Pointer(FLOAT32) or not are_literal(plane, row, levels, lanes):
        return None
    depth, side = literal(levels), side_of(literal(levels))
    if literal(row) not in range(side):
        return None
    tile = RegisterTile(weights.kind, literal(lanes), side, 1)
    numbers = _numbers(depth)[literal(row) * side :][:side]
    recovery = nested(RECOVERY, depth)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        load = _planes(context, builder, signature, arguments, tile)
        made = (
            _without_noise([load(product) for product, _ in terms(recovery[number])])
            for number in numbers
        )
        return tile_of(builder, tile, (block.value for block in made))

    return tile(weights, index, plane, row, levels, lanes), codegen


def _numbers(levels: int) -> list[int]:
    """Return the numbers of the blocks in the order of rows and columns."""
    return sorted(range(blocks_in(levels)), key=lambda number: place_of(number, levels))


def _planes(
    context: Any, builder: Any, signature: Any, arguments: Any, tile: RegisterTile
) -> Callable[[int], Lanes]:
    """Return the function that loads the vector of a product.

    It is called when the vector is needed, so that few of them wait in registers.
    """
    memory, plane = signature.args[0], literal(signature.args[2])
    first = to_index(context, builder, arguments[1], signature.args[1])

    def load(product: int) -> Lanes:
        pointer = address(
            builder, arguments[0], offset(builder, first, product * plane), memory.kind
        )
        vector = load_vector(builder, pointer, memory.kind, tile.lanes)
        return Lanes(builder, vector, memory.kind, tile.lanes)

    return load


def _left_factors(blocks: Sequence[Lanes]) -> Iterator[Lanes]:
    """Yield what each product takes of *blocks*; what several take alike is computed once."""
    if len(blocks) == 1:
        yield blocks[0]
        return
    size = len(blocks) // QUARTERS
    for signs in LEFT:
        yield from _left_factors([_signed_sum(blocks[n::size], signs) for n in range(size)])


def _results(load: Callable[[int], Lanes], first: int, levels: int) -> list[Lanes]:
    """Return the blocks that a level makes of the products from *first* on."""
    if not levels:
        return [load(first)]
    size = PRODUCTS ** (levels - 1)
    parts = QUARTERS ** (levels - 1)
    blocks: dict[int, Lanes] = {}
    for product in range(PRODUCTS):
        made = _results(load, first + product * size, levels - 1)
        for quarter in np.flatnonzero(SUMS[:, product]):
            for number, part in enumerate(made, int(quarter) * parts):
                if number not in blocks:  # the first product that a block takes has no minus
                    blocks[number] = part
                elif SUMS[quarter, product] > 0:
                    blocks[number] += part
                else:
                    blocks[number] -= part
    return [blocks[number] for number in range(QUARTERS * parts)]


def _signed_sum(values: Sequence[Lanes], signs: Array) -> Lanes:
    """Return the sum of *values* with these *signs*, of which the first one taken is no minus."""
    (first, _), *others = terms(signs)
    total = values[first]
    for number, is_subtracted in others:
        total = total - values[number] if is_subtracted else total + values[number]
    return total


def _without_noise(parts: Sequence[Lanes]) -> Lanes:
    """Return the sum of *parts*, or zero where it may be a rounding error."""
    total = reduce(Lanes.__add__, parts)
    if len(parts) == 1:
        return total
    least = reduce(Lanes.__add__, map(absolute, parts)) * LEAST_RECOVERED
    return (absolute(total) < least).select(0.0, total)
