"""Register tiles of sums along vectors: rows of one matrix times rows of another one."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.simd.lanes import I32, Lanes
from glow_nb.simd.memory import are_literal, literal, to_index
from glow_nb.simd.tile_memory import read_vector
from glow_nb.simd.types import INDEX, Pointer, RegisterTile


@intrinsic(prefer_literal=True)
def tile_multiply_rows(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    stride: Any,
    weights: Any,
    index: Any,
    row: Any,
    columns: Any,
) -> Any:
    """``tile_multiply_rows(t, x, i, stride, w, j, row, n)``: products of rows, lane by lane.

    ``t[r, v][l] += x[i + r * stride + l] * w[j + v * row + l]`` for every row r, every vector v and
    the first n lanes l. Nothing else is read. Literals are *stride*, *row* and n.
    """
    if not (isinstance(tile, RegisterTile) and are_literal(stride, row, columns)):
        return None
    if not (isinstance(source, Pointer) and isinstance(weights, Pointer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[2], signature.args[2])
        place = to_index(context, builder, arguments[5], signature.args[5])

        def vectors(pointer: Any, memory: Any, start: Any, step: int, count: int) -> list[Any]:
            places = [builder.add(start, ir.Constant(INDEX, step * n)) for n in range(count)]
            return [
                read_vector(builder, pointer, each, memory, tile, literal(columns))
                for each in places
            ]

        factors = vectors(arguments[1], source, first, literal(stride), tile.rows)
        others = vectors(arguments[4], weights, place, literal(row), tile.vectors)
        value = arguments[0]
        for part in range(tile.rows * tile.vectors):
            total = Lanes(builder, builder.extract_value(value, part), tile.kind, tile.lanes)
            x, w = factors[part // tile.vectors], others[part % tile.vectors]
            value = builder.insert_value(
                value, total.like(x).multiply_add(total.like(w), total).value, part
            )
        return value

    return tile(tile, source, start, stride, weights, index, row, columns), codegen


@intrinsic
def tile_sum_lanes(typing: Any, tile: Any) -> Any:
    """``tile_sum_lanes(t)``: the sum of each vector of t, those of a row as one vector.

    It has as many lanes as t has vectors, or, if that is no power of two, up to the next one.
    """
    if not isinstance(tile, RegisterTile):
        return None
    result = RegisterTile(tile.kind, 1 << (tile.vectors - 1).bit_length(), tile.rows, 1)
    if result.lanes > tile.lanes:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = ir.Constant(result.llvm, ir.Undefined)
        for row in range(tile.rows):
            parts = [row * tile.vectors + vector for vector in range(tile.vectors)]
            vectors = [
                Lanes(builder, builder.extract_value(arguments[0], part), tile.kind, tile.lanes)
                for part in parts
            ]
            vectors += [vectors[0]] * (result.lanes - tile.vectors)
            value = builder.insert_value(value, _sums(vectors).value, row)
        return value

    return result(tile), codegen


def _sums(vectors: list[Lanes]) -> Lanes:
    """Return one lane for each of *vectors*, a power of two of them, with its sum.

    The lanes of a sum are halved again and again: first while two vectors become one, in which
    the sums stand in order, then in the one that is left.
    """
    size = vectors[0].lanes  # lanes that a sum is spread over
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_halved(_joined(*pair), size) for pair in pairs]
        size //= 2
    total = vectors[0]
    while size > 1:
        total = _halved(total, size)
        size //= 2
    return total


def _joined(left: Lanes, right: Lanes) -> Lanes:
    """Return the lanes of both, one vector after the other."""
    mask = ir.Constant(ir.VectorType(I32, 2 * left.lanes), list(range(2 * left.lanes)))
    value = left.builder.shuffle_vector(left.value, right.value, mask)
    return Lanes(left.builder, value, left.kind, 2 * left.lanes)


def _halved(vector: Lanes, size: int) -> Lanes:
    """Add the second half of each *size* lanes to the first."""
    first = [lane for lane in range(vector.lanes) if lane % size < size // 2]
    return vector.shuffle(first) + vector.shuffle([lane + size // 2 for lane in first])
