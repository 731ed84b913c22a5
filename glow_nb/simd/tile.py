"""Register tiles: ``rows`` x ``vectors`` accumulators as one value, with coarse intrinsics.

A tile lives in registers through loops, and one line of generated source is one step of the
algorithm. Sizes are integer literals, and distances mostly. The 16-bit floats are accumulated in
``float32``. Loads and stores of tiles are in :mod:`glow_nb.simd.tile_memory`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import FLOAT32, Lanes, splat_value
from glow_nb.simd.memory import are_literal, literal
from glow_nb.simd.scalars import element_of
from glow_nb.simd.types import (
    POINTER,
    Pointer,
    RegisterTile,
    Vec,
    is_narrow,
    llvm_vector,
)


def accumulator(kind: ElementKind) -> ElementKind:
    """Return the kind in which sums of *kind* are accumulated."""
    return FLOAT32 if is_narrow(kind) else kind


def empty_tile(tile: RegisterTile) -> Any:
    """Return the LLVM value of a *tile* whose elements are yet to come."""
    return ir.Constant(tile.llvm, ir.Undefined)


def tile_of(builder: Any, tile: RegisterTile, vectors: Iterable[Any]) -> Any:
    """Return the LLVM value of a *tile* of LLVM *vectors*, row by row."""
    result = empty_tile(tile)
    for part, vector in enumerate(vectors):
        result = builder.insert_value(result, vector, part)
    return result


@intrinsic(prefer_literal=True)
def tile_fill(typing: Any, pointer: Any, number: Any, rows: Any, vectors: Any, lanes: Any) -> Any:
    """``tile_fill(p, x, rows, vectors, lanes)``: x everywhere, to sum up the kind of p."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(accumulator(pointer.kind), literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = element_of(context, builder, arguments[1], signature.args[1], tile.kind)
        vector = splat_value(builder, element, tile.lanes)
        result = empty_tile(tile)
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
