"""Register tiles: ``rows`` x ``vectors`` accumulators as one value, with coarse intrinsics.

A tile lives in registers through loops, and one line of generated source is one step of the
algorithm. Sizes are integer literals, and distances mostly; a number of columns that is none leaves
some of them in the last vector. The 16-bit floats are accumulated in ``float32``:
what is loaded is converted to the kind of the tile, what is stored to that of the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import FLOAT32, Lanes, splat_value
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
    store_counted,
    store_first_lanes,
    store_vector,
    to_index,
    used_in,
)
from glow_nb.simd.scalars import element_of
from glow_nb.simd.types import (
    INDEX,
    POINTER,
    Pointer,
    RegisterTile,
    Vec,
    is_narrow,
    llvm_vector,
)


def offset(builder: Any, index: Any, elements: int) -> Any:
    """Return the LLVM *index*, so many *elements* further."""
    return builder.add(index, ir.Constant(INDEX, elements)) if elements else index


def accumulator(kind: ElementKind) -> ElementKind:
    """Return the kind in which sums of *kind* are accumulated."""
    return FLOAT32 if is_narrow(kind) else kind


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


def _empty(tile: RegisterTile) -> Any:
    return ir.Constant(tile.llvm, ir.Undefined)


def tile_of(builder: Any, tile: RegisterTile, vectors: Iterable[Any]) -> Any:
    """Return the LLVM value of a *tile* of LLVM *vectors*, row by row."""
    result = _empty(tile)
    for part, vector in enumerate(vectors):
        result = builder.insert_value(result, vector, part)
    return result


@intrinsic(prefer_literal=True)
def tile_bias(typing: Any, pointer: Any, index: Any, rows: Any, vectors: Any, lanes: Any) -> Any:
    """``tile_bias(p, i, rows, vectors, lanes)``: each row is the elements i, i + 1, ..."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    kind = accumulator(pointer.kind)
    tile = RegisterTile(kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        result = _empty(tile)
        for column, vector in enumerate(_load_row(builder, arguments[0], index, pointer, tile)):
            for row in range(tile.rows):
                result = builder.insert_value(result, vector, row * tile.vectors + column)
        return result

    return tile(pointer, index, rows, vectors, lanes), codegen


@intrinsic(prefer_literal=True)
def tile_fill(typing: Any, pointer: Any, number: Any, rows: Any, vectors: Any, lanes: Any) -> Any:
    """``tile_fill(p, x, rows, vectors, lanes)``: x everywhere, to sum up the kind of p."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(accumulator(pointer.kind), literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = element_of(context, builder, arguments[1], signature.args[1], tile.kind)
        vector = splat_value(builder, element, tile.lanes)
        result = _empty(tile)
        for part in range(tile.rows * tile.vectors):
            result = builder.insert_value(result, vector, part)
        return result

    return tile(pointer, types.unliteral(number), rows, vectors, lanes), codegen


@intrinsic
def tile_zero(typing: Any, tile: Any) -> Any:
    """``tile_zero(t)``: zeros, as many as t has elements."""
    if not isinstance(tile, RegisterTile):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(tile.llvm, None)

    return tile(tile), codegen


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
        result = _empty(tile)
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

    The last of them stands in the rows behind it, too.
    """
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(pointer.kind, literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index, step, count = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 2, 6)
        )
        last = builder.sub(count, ir.Constant(INDEX, 1))
        result = _empty(tile)
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
        result = _empty(tile)
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
def tile_get(typing: Any, tile: Any, row: Any, vector: Any) -> Any:
    """``tile_get(t, row, vector)``: one accumulator as a vector."""
    if not (isinstance(tile, RegisterTile) and are_literal(row, vector)):
        return None
    part = literal(row) * tile.vectors + literal(vector)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.extract_value(arguments[0], part)

    return tile.vector(tile, row, vector), codegen


@intrinsic(prefer_literal=True)
def tile_set(typing: Any, tile: Any, row: Any, vector: Any, value: Any) -> Any:
    """``tile_set(t, row, vector, v)``: the tile with one accumulator replaced."""
    if not (isinstance(tile, RegisterTile) and isinstance(value, Vec) and are_literal(row, vector)):
        return None
    part = literal(row) * tile.vectors + literal(vector)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.insert_value(arguments[0], arguments[3], part)

    return tile(tile, row, vector, value), codegen


@intrinsic(prefer_literal=True)
def tile_join(typing: Any, upper: Any, lower: Any) -> Any:
    """``tile_join(t, u)``: the rows of t and, below them, those of u, which are as wide."""
    if not all(isinstance(each, RegisterTile) for each in (upper, lower)):
        return None
    tile = RegisterTile(upper.kind, upper.lanes, upper.rows + lower.rows, upper.vectors)
    if RegisterTile(lower.kind, lower.lanes, tile.rows, lower.vectors) != tile:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [
            builder.extract_value(value, part)
            for value, each in zip(arguments, (upper, lower), strict=True)
            for part in range(each.rows * each.vectors)
        ]
        return tile_of(builder, tile, parts)

    return tile(upper, lower), codegen


@intrinsic(prefer_literal=True)
def tile_rows(typing: Any, tile: Any, first: Any, step: Any, count: Any) -> Any:
    """``tile_rows(t, first, step, n)``: n rows of t, which are first, first + step, ..."""
    if not (isinstance(tile, RegisterTile) and are_literal(first, step, count)):
        return None
    rows = [literal(first) + literal(step) * row for row in range(literal(count))]
    if not all(row in range(tile.rows) for row in rows):
        return None
    result = RegisterTile(tile.kind, tile.lanes, len(rows), tile.vectors)
    numbers = [row * tile.vectors + column for row in rows for column in range(tile.vectors)]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [builder.extract_value(arguments[0], number) for number in numbers]
        return tile_of(builder, result, parts)

    return result(tile, first, step, count), codegen


@intrinsic(prefer_literal=True)
def tile_columns(typing: Any, tile: Any, first: Any, count: Any) -> Any:
    """``tile_columns(t, first, n)``: of each row of t the n vectors from *first* on."""
    if not (isinstance(tile, RegisterTile) and are_literal(first, count)):
        return None
    begin, end = literal(first), literal(first) + literal(count)
    if not 0 <= begin < end <= tile.vectors:
        return None
    result = RegisterTile(tile.kind, tile.lanes, tile.rows, end - begin)
    numbers = [row * tile.vectors + c for row in range(tile.rows) for c in range(begin, end)]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [builder.extract_value(arguments[0], number) for number in numbers]
        return tile_of(builder, result, parts)

    return result(tile, first, count), codegen


@intrinsic
def tile_any(typing: Any, tile: Any) -> Any:
    """``tile_any(t)``: true, as a plain bool, if an element of t, which holds bools, is."""
    if not (isinstance(tile, RegisterTile) and tile.kind is ElementKind.BOOL):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = builder.extract_value(arguments[0], 0)
        for part in range(1, tile.rows * tile.vectors):
            vector = builder.or_(vector, builder.extract_value(arguments[0], part))
        bits = builder.bitcast(vector, ir.IntType(tile.lanes))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(tile), codegen


@intrinsic
def tile_is_finite(typing: Any, tile: Any) -> Any:
    """``tile_is_finite(t)``: true, as a plain bool, if no element of t is NaN or infinite."""
    if not (isinstance(tile, RegisterTile) and tile.kind.is_float):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = ir.Constant(llvm_vector(tile.kind, tile.lanes), None)
        total = Lanes(builder, zeros, tile.kind, tile.lanes)
        for part in range(tile.rows * tile.vectors):
            vector = total.like(builder.extract_value(arguments[0], part))
            total = vector.multiply_add(0.0, total)  # NaN and infinity times 0 are NaN
        bits = builder.bitcast(total.is_nan().value, ir.IntType(tile.lanes))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 0))

    return types.boolean(tile), codegen


@intrinsic
def tile_keep(typing: Any, tile: Any) -> Any:
    """``tile_keep(t)``: the address of a copy of t in memory, which the next call writes over."""
    if not isinstance(tile, RegisterTile):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        copy = cgutils.alloca_once(builder, tile.llvm)
        builder.store(arguments[0], copy)
        return builder.bitcast(copy, POINTER)

    return Pointer(tile.kind)(tile), codegen


@intrinsic(prefer_literal=True)
def tile_store(typing: Any, pointer: Any, index: Any, stride: Any, tile: Any) -> Any:
    """``tile_store(p, i, stride, t)``: row r goes to the elements from i + r * stride on."""
    if not (isinstance(tile, RegisterTile) and isinstance(pointer, Pointer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
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
