"""Loads and stores of register tiles, whole or without the last columns.

What is loaded is converted to the kind of the tile, what is stored to that of the memory. A number
of columns that is no literal leaves some of them in the last vector.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import I32, Lanes, call_named
from glow_nb.simd.memory import (
    Count,
    address,
    advanced,
    are_literal,
    count_of,
    further,
    literal,
    load_first_lanes,
    load_vector,
    offset,
    store_counted,
    store_first_lanes,
    store_vector,
    to_index,
    used_in,
)
from glow_nb.simd.tile import accumulator, empty_tile
from glow_nb.simd.types import INDEX, POINTER, Pointer, RegisterTile


def read_vector(
    builder: Any,
    pointer: Any,
    index: Any,
    memory: Pointer,
    tile: RegisterTile,
    columns: Count | None = None,
) -> Any:
    """Load a vector of the tile's kind from element *index* on, the first *columns* lanes only."""
    count = tile.lanes if columns is None else columns
    return read_elements(builder, pointer, index, memory, tile.kind, tile.lanes, count)


def read_elements(
    builder: Any,
    pointer: Any,
    index: Any,
    memory: Pointer,
    kind: ElementKind,
    lanes: int,
    count: Count,
) -> Any:
    """Load a vector of *kind* from element *index* on, the first *count* of its *lanes* only."""
    place = address(builder, pointer, index, memory.kind)
    if isinstance(count, int):
        count = ir.Constant(INDEX, max(0, count))
    if isinstance(count, ir.Constant) and count.constant >= lanes:
        loaded = load_vector(builder, place, memory.kind, lanes)
    else:
        loaded = load_first_lanes(builder, place, memory.kind, lanes, count)
    return convert(Lanes(builder, loaded, memory.kind, lanes), kind).value


@intrinsic(prefer_literal=True)
def tile_bias(typing: Any, pointer: Any, index: Any, rows: Any, vectors: Any, lanes: Any) -> Any:
    """``tile_bias(p, i, rows, vectors, lanes)``: each row is the elements i, i + 1, ..."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    kind = accumulator(pointer.kind)
    tile = RegisterTile(kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        result = empty_tile(tile)
        for column, vector in enumerate(_load_row(builder, arguments[0], index, pointer, tile)):
            for row in range(tile.rows):
                result = builder.insert_value(result, vector, row * tile.vectors + column)
        return result

    return tile(pointer, index, rows, vectors, lanes), codegen


@intrinsic(prefer_literal=True)
def tile_load(
    typing: Any, pointer: Any, index: Any, stride: Any, rows: Any, vectors: Any, lanes: Any
) -> Any:
    """``tile_load(p, i, stride, rows, vectors, lanes)``: row r starts at element i + r * stride."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(pointer.kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        step = to_index(context, builder, arguments[2], signature.args[2])
        result = empty_tile(tile)
        for row in range(tile.rows):
            start = advanced(builder, index, row, step)
            for column, vector in enumerate(_load_row(builder, arguments[0], start, pointer, tile)):
                result = builder.insert_value(result, vector, row * tile.vectors + column)
        return result

    return tile(pointer, index, stride, rows, vectors, lanes), codegen


@intrinsic(prefer_literal=True)
def tile_load_rows(
    typing: Any, pointer: Any, index: Any, stride: Any, rows: Any, vectors: Any, lanes: Any, n: Any
) -> Any:
    """``tile_load_rows(p, i, stride, rows, vectors, lanes, n)``: tile_load of n rows, 1 or more.

    The last of them stands in the rows after it, too.
    """
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(pointer.kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index, step, count = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 2, 6)
        )
        last = builder.sub(count, ir.Constant(INDEX, 1))
        result = empty_tile(tile)
        for row in range(tile.rows):
            number = ir.Constant(INDEX, row)
            number = builder.select(builder.icmp_signed("<", number, last), number, last)
            start = builder.add(index, builder.mul(number, step))
            for column, vector in enumerate(_load_row(builder, arguments[0], start, pointer, tile)):
                result = builder.insert_value(result, vector, row * tile.vectors + column)
        return result

    return tile(pointer, types.unliteral(index), stride, rows, vectors, lanes, n), codegen


@intrinsic(prefer_literal=True)
def tile_load_masked(
    typing: Any,
    pointer: Any,
    index: Any,
    stride: Any,
    rows: Any,
    vectors: Any,
    lanes: Any,
    columns: Any,
) -> Any:
    """``tile_load_masked(p, i, stride, rows, vectors, lanes, n)``: n elements of each row.

    Row r starts at element i + r * stride; the other lanes are zero, their memory is not touched.
    """
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(pointer.kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        step = to_index(context, builder, arguments[2], signature.args[2])
        count = count_of(context, builder, arguments[6], signature.args[6])
        result = empty_tile(tile)
        for row in range(tile.rows):
            start = advanced(builder, index, row, step)
            for column in range(tile.vectors):
                used = used_in(builder, count, column, tile.lanes, tile.vectors)
                place = offset(builder, start, column * tile.lanes)
                vector = read_vector(builder, arguments[0], place, pointer, tile, used)
                result = builder.insert_value(result, vector, row * tile.vectors + column)
        return result

    operands = (pointer, types.unliteral(index), stride, rows, vectors, lanes, columns)
    return tile(*operands), codegen


def _load_row(
    builder: Any, pointer: Any, index: Any, memory: Pointer, tile: RegisterTile
) -> list[Any]:
    """Load one row of vectors from element *index* on."""
    starts = [offset(builder, index, column * tile.lanes) for column in range(tile.vectors)]
    return [read_vector(builder, pointer, start, memory, tile) for start in starts]


@intrinsic(prefer_literal=True)
def tile_store(typing: Any, pointer: Any, index: Any, stride: Any, tile: Any) -> Any:
    """``tile_store(p, i, stride, t)``: row r goes to the elements from i + r * stride on."""
    if not (isinstance(tile, RegisterTile) and isinstance(pointer, Pointer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _hide_from_loop_analysis(builder)
        for place, vector, _ in _parts(context, builder, signature, arguments):
            store_vector(builder, place, vector, pointer.kind)
        return context.get_dummy_value()

    return types.void(pointer, index, stride, tile), codegen


@intrinsic(prefer_literal=True)
def tile_store_masked(
    typing: Any, pointer: Any, index: Any, stride: Any, tile: Any, columns: Any
) -> Any:
    """``tile_store_masked(p, i, stride, t, n)``: the first n elements of each row only."""
    if not (isinstance(tile, RegisterTile) and isinstance(pointer, Pointer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _hide_from_loop_analysis(builder)
        count = count_of(context, builder, arguments[4], signature.args[4])
        for place, vector, column in _parts(context, builder, signature, arguments):
            left = used_in(builder, count, column, tile.lanes, tile.vectors)
            if not isinstance(left, int):
                store_counted(builder, place, vector, pointer.kind, left)
            elif left >= tile.lanes:
                store_vector(builder, place, vector, pointer.kind)
            elif left > 0:
                store_first_lanes(builder, place, vector, pointer.kind, left)
        return context.get_dummy_value()

    return types.void(pointer, index, stride, tile, columns), codegen


def _hide_from_loop_analysis(builder: Any) -> None:
    """Keep LLVM from comparing the addresses of all loads and stores of the loop that this is in.

    It would do so to forward what a round stores to the next round's loads, in quadratic time: a
    third of the time of a kernel with many tiles. Of a loop with a call it does not; this one is
    of an intrinsic for notes about a program, of which no instruction is made.
    """
    nothing = ir.Constant(POINTER, None)
    operands = [nothing, nothing, nothing, ir.Constant(I32, 0), nothing]
    call_named(builder, "llvm.var.annotation.p0.p0", ir.VoidType(), operands)


def _parts(
    context: Any, builder: Any, signature: Any, arguments: Any
) -> list[tuple[Any, Any, int]]:
    """Address, value and column of each vector of a tile that is to be stored."""
    pointer, tile = signature.args[0], signature.args[3]
    stride = count_of(context, builder, arguments[2], signature.args[2])
    index = to_index(context, builder, arguments[1], signature.args[1])
    parts = []
    for row in range(tile.rows):
        for column in range(tile.vectors):
            if isinstance(stride, int):
                elements = offset(builder, index, row * stride + column * tile.lanes)
            else:
                start = further(builder, index, row, stride)
                elements = offset(builder, start, column * tile.lanes)
            place = address(builder, arguments[0], elements, pointer.kind)
            value = builder.extract_value(arguments[3], row * tile.vectors + column)
            value = convert(Lanes(builder, value, tile.kind, tile.lanes), pointer.kind).value
            parts.append((place, value, column))
    return parts
