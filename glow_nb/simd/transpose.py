"""Register tiles transposed in registers, and loaded where a row is shorter than a vector.

The shuffles are those of the processor: within 16 bytes, pairs of rows are interleaved, as by
``unpcklps``; then whole 16-byte pieces change places, as by ``vperm2f128``. A square tile of n rows
takes ``n log2(n)`` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from glow_nb.simd.lanes import I32
from glow_nb.simd.memory import (
    address,
    advanced,
    are_literal,
    hint_second_level,
    literal,
    load_vector,
    to_index,
)
from glow_nb.simd.types import Pointer, RegisterTile, llvm_vector

PIECE_BYTES = 16
"""Processors shuffle freely within this number of bytes only."""


@intrinsic(prefer_literal=True)
def tile_transpose(typing: Any, tile: Any, rows: Any) -> Any:
    """``tile_transpose(t, rows)``: row r of the result is column r of t, for the first *rows*.

    The tile has one vector a row and at most as many rows as lanes; lanes of the result for which
    there is no row of t are undefined.
    """
    if not (isinstance(tile, RegisterTile) and are_literal(rows)):
        return None
    if tile.vectors != 1 or tile.rows > tile.lanes or literal(rows) > tile.lanes:
        return None
    result = RegisterTile(tile.kind, tile.lanes, literal(rows), 1)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = llvm_vector(tile.kind, tile.lanes)
        undefined = ir.Constant(vector, ir.Undefined)
        vectors = [builder.extract_value(arguments[0], row) for row in range(tile.rows)]
        vectors += [undefined] * (tile.lanes - tile.rows)
        piece = min(tile.lanes, PIECE_BYTES // tile.kind.size_bytes)
        loads = [partial(_itself, vector) for vector in vectors]
        vectors = _exchange_pieces(builder, _turn_pieces(builder, loads, piece), piece)
        value = ir.Constant(ir.ArrayType(vector, result.rows), ir.Undefined)
        for row in range(result.rows):
            value = builder.insert_value(value, vectors[row], row)
        return value

    return result(tile, rows), codegen


def _turn_pieces(builder: Any, rows: Sequence[Callable[[], Any]], piece: int) -> list[Any]:
    """Turn over each square of *piece* rows and lanes, by perfect shuffles of its rows.

    A row is loaded when the first shuffle asks for it, and both results of two operands are made
    together, so that hardly more than the rows are in registers at a time.
    """
    half, count = piece // 2, piece.bit_length() - 1

    @cache
    def made(level: int, row: int) -> Any:
        return pair(level, row // 2)[row % 2] if level else rows[row]()

    @cache
    def pair(level: int, row: int) -> tuple[Any, Any]:
        above = row // half * piece + row % half
        left, right = made(level - 1, above), made(level - 1, above + half)
        starts = range(0, left.type.count, piece)
        low = [
            start + lane + side * left.type.count
            for start in starts
            for lane in range(half)
            for side in (0, 1)
        ]
        high = [index + half for index in low]
        return _shuffle(builder, left, right, low), _shuffle(builder, left, right, high)

    return [made(count, row) for row in range(len(rows))]


def _itself(value: Any) -> Any:
    return value


def _exchange_pieces(builder: Any, vectors: Sequence[Any], piece: int) -> list[Any]:
    """Exchange the pieces above the diagonal with those below (Eklundh's algorithm)."""
    lanes, result = len(vectors), list(vectors)
    block = piece
    while block < lanes:
        upper = [lane if not lane & block else lane - block + lanes for lane in range(lanes)]
        lower = [lane + block if not lane & block else lane + lanes for lane in range(lanes)]
        for row in range(lanes):
            if not row & block:
                pair = result[row], result[row + block]
                result[row] = _shuffle(builder, *pair, upper)
                result[row + block] = _shuffle(builder, *pair, lower)
        block *= 2
    return result


def _shuffle(builder: Any, left: Any, right: Any, order: Sequence[int]) -> Any:
    mask = ir.Constant(ir.VectorType(I32, len(order)), list(order))
    return builder.shuffle_vector(left, right, mask)


@intrinsic(prefer_literal=True)
def tile_load_columns(
    typing: Any, pointer: Any, index: Any, stride: Any, columns: Any, lanes: Any
) -> Any:
    """``tile_load_columns(p, i, stride, columns, lanes)``: row c has elements i + c + r * stride.

    There are *lanes* of them, from as many rows of memory. Of each of these a piece of *columns*
    elements is read, at most 16 bytes, straight to where it belongs; what is left to do is to turn
    the pieces over. *lanes* is a multiple of *columns*; both are powers of two.
    """
    if not (isinstance(pointer, Pointer) and are_literal(columns, lanes)):
        return None
    piece = literal(columns)
    tile = RegisterTile(pointer.kind, literal(lanes), piece, 1)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index, step = (to_index(context, builder, arguments[k], signature.args[k]) for k in (1, 2))

        def load(row: int) -> Any:
            start = advanced(builder, index, row, step)
            place = address(builder, arguments[0], start, tile.kind)
            return load_vector(builder, place, tile.kind, piece)

        def load_pieces(first: int) -> Any:
            return _joined(builder, [load(row) for row in range(first, tile.lanes, piece)])

        rows = [partial(load_pieces, first) for first in range(piece)]
        value = ir.Constant(tile.llvm, ir.Undefined)
        for row, vector in enumerate(_turn_pieces(builder, rows, piece)):
            value = builder.insert_value(value, vector, row)
        return value

    return tile(pointer, types.unliteral(index), stride, columns, lanes), codegen


def _joined(builder: Any, vectors: Sequence[Any]) -> Any:
    """Return the one vector of all lanes of *vectors*, a power of two of them."""
    parts = list(vectors)
    while len(parts) > 1:
        lanes = range(2 * parts[0].type.count)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffle(builder, left, right, lanes) for left, right in pairs]
    return parts[0]


@intrinsic(prefer_literal=True)
def tile_prefetch(typing: Any, pointer: Any, index: Any, stride: Any, rows: Any) -> Any:
    """``tile_prefetch(p, i, stride, rows)``: bring the elements i + r * stride nearer, into L2."""
    if not (isinstance(pointer, Pointer) and are_literal(rows)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        step = to_index(context, builder, arguments[2], signature.args[2])
        for row in range(literal(rows)):
            start = advanced(builder, index, row, step)
            hint_second_level(builder, address(builder, arguments[0], start, pointer.kind))
        return context.get_dummy_value()

    return types.void(pointer, types.unliteral(index), stride, rows), codegen
