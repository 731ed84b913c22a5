"""Register tiles of channel-wise products: each channel has its own weight and its own input."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.kernels.simd_lanes import Lanes, first_lanes
from glow_nb.kernels.simd_memory import (
    address,
    are_literal,
    literal,
    load_vector,
    load_vector_masked,
    to_index,
)
from glow_nb.kernels.simd_types import INDEX, Pointer, Tile, llvm_vector


@intrinsic(prefer_literal=True)
def tile_bias_masked(
    typing: Any, pointer: Any, index: Any, rows: Any, vectors: Any, lanes: Any, columns: Any
) -> Any:
    """``tile_bias_masked(p, i, rows, vectors, lanes, n)``: tile_bias that reads n elements only."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes, columns)):
        return None
    tile = Tile(pointer.kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        row = _load_columns(builder, arguments[0], index, tile, literal(columns))
        vector = llvm_vector(tile.kind, tile.lanes)
        result = ir.Constant(ir.ArrayType(vector, tile.rows * tile.vectors), ir.Undefined)
        for part in range(tile.rows * tile.vectors):
            result = builder.insert_value(result, row[part % tile.vectors], part)
        return result

    return tile(pointer, index, rows, vectors, lanes, columns), codegen


@intrinsic(prefer_literal=True)
def tile_multiply_add(
    typing: Any,
    tile: Any,
    column: Any,
    start: Any,
    stride: Any,
    row: Any,
    index: Any,
    columns: Any,
    begin: Any,
    end: Any,
) -> Any:
    """``tile_multiply_add(t, x, i, stride, w, j, n, begin, end)``: one tap of a window.

    ``t[r, c] += x[i + r * stride + c] * w[j + c]`` for the rows begin to end and the first n
    columns c; nothing else is read.
    """
    if not (isinstance(tile, Tile) and are_literal(stride, columns, begin, end)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[2], signature.args[2])
        place = to_index(context, builder, arguments[5], signature.args[5])
        weights = _load_columns(builder, arguments[4], place, tile, literal(columns))
        value = arguments[0]
        for r in range(literal(begin), literal(end)):
            place = builder.add(first, ir.Constant(INDEX, r * literal(stride)))
            inputs = _load_columns(builder, arguments[1], place, tile, literal(columns))
            for v, (x, w) in enumerate(zip(inputs, weights, strict=True)):
                part = r * tile.vectors + v
                total = Lanes(builder, builder.extract_value(value, part), tile.kind, tile.lanes)
                total = total.like(x).fma(total.like(w), total)
                value = builder.insert_value(value, total.value, part)
        return value

    return tile(tile, column, start, stride, row, index, columns, begin, end), codegen


def _load_columns(builder: Any, pointer: Any, index: Any, tile: Tile, columns: int) -> list[Any]:
    """Load the vectors of one row, reading the first *columns* elements only."""
    vectors = []
    for column in range(0, tile.vectors * tile.lanes, tile.lanes):
        place = builder.add(index, ir.Constant(INDEX, column))
        place = address(builder, pointer, place, tile.kind)
        if columns - column >= tile.lanes:
            vectors.append(load_vector(builder, place, tile.kind, tile.lanes))
            continue
        mask = first_lanes(builder, ir.Constant(INDEX, max(0, columns - column)), tile.lanes)
        vectors.append(load_vector_masked(builder, place, tile.kind, tile.lanes, mask))
    return vectors
