"""The sums of blocks that Strassen's algorithm takes, for one vector of each block at a time.

The vectors of a matrix of blocks are the rows of a register tile, those of the first row of blocks
first. Products of blocks, and weights made for them, lie in planes of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import Array
from glow_nb.numerics.strassen import (
    BLOCKS,
    LEAST_RECOVERED,
    LEFT,
    PRODUCTS,
    RECOVERY,
    SIDE,
    SUMS,
    terms,
)
from glow_nb.simd.arithmetic import absolute
from glow_nb.simd.lanes import FLOAT32, Lanes
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_vector,
    offset,
    store_vector,
    to_index,
)
from glow_nb.simd.tile import tile_of
from glow_nb.simd.types import Pointer, RegisterTile


@intrinsic(prefer_literal=True)
def strassen_factors(typing: Any, dest: Any, index: Any, plane: Any, tile: Any) -> Any:
    """``strassen_factors(p, i, plane, x)``: store the left factors of all products.

    Row r of x is a vector of block r of the left matrix. What product e takes of these goes to the
    elements from i + e * plane on.
    """
    if not (isinstance(tile, RegisterTile) and are_literal(plane)):
        return None
    if (tile.rows, tile.vectors) != (BLOCKS, 1):
        return None
    if not (tile.kind is FLOAT32 and dest == Pointer(FLOAT32)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[1], signature.args[1])
        blocks = [
            Lanes(builder, builder.extract_value(arguments[3], row), tile.kind, tile.lanes)
            for row in range(tile.rows)
        ]
        for product, factor in enumerate(_signed_sum(blocks, signs) for signs in LEFT):
            place = offset(builder, first, product * literal(plane))
            pointer = address(builder, arguments[0], place, dest.kind)
            store_vector(builder, pointer, factor.value, dest.kind)
        return context.get_dummy_value()

    return types.void(dest, index, plane, tile), codegen


@intrinsic(prefer_literal=True)
def strassen_results(typing: Any, sums: Any, index: Any, plane: Any, lanes: Any) -> Any:
    """``strassen_results(p, i, plane, lanes)``: what the products add up to.

    The vector of product e starts at element i + e * plane. Row r of the tile is that of block r of
    the result.
    """
    if sums != Pointer(FLOAT32) or not are_literal(plane, lanes):
        return None
    tile = RegisterTile(sums.kind, literal(lanes), BLOCKS, 1)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        load = _planes(context, builder, signature, arguments, tile)
        return tile_of(builder, tile, (block.value for block in _results(load)))

    return tile(sums, index, plane, lanes), codegen


@intrinsic(prefer_literal=True)
def strassen_recovered(
    typing: Any, weights: Any, index: Any, plane: Any, row: Any, lanes: Any
) -> Any:
    """``strassen_recovered(p, i, plane, n, lanes)``: row n of the right matrix's blocks.

    They are recovered from the right factors of all products; that of product e starts at element
    i + e * plane. What may be mere rounding errors is zero.
    """
    if weights != Pointer(FLOAT32) or not are_literal(plane, row, lanes):
        return None
    if literal(row) not in range(SIDE):
        return None
    tile = RegisterTile(weights.kind, literal(lanes), SIDE, 1)
    recovery = RECOVERY[literal(row) * SIDE :][:SIDE]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        load = _planes(context, builder, signature, arguments, tile)
        made = (
            _without_noise([load(product) for product, _ in terms(signs)]) for signs in recovery
        )
        return tile_of(builder, tile, (block.value for block in made))

    return tile(weights, index, plane, row, lanes), codegen


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


def _results(load: Callable[[int], Lanes]) -> list[Lanes]:
    """Return the blocks that the products add up to; each product is loaded once."""
    blocks: dict[int, Lanes] = {}
    for product in range(PRODUCTS):
        made = load(product)
        for number in map(int, np.flatnonzero(SUMS[:, product])):
            if number not in blocks:  # the first product that a block takes has no minus
                blocks[number] = made
            elif SUMS[number, product] > 0:
                blocks[number] += made
            else:
                blocks[number] -= made
    return [blocks[number] for number in range(BLOCKS)]


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
