"""Integers of few bits that stand for real weights: read as floats, in a dot or to memory.

Integers of 8 bits lie one beside the other. Of fewer bits, those that follow one another in a
column lie in one word of 32 bits, the first in its lowest bits, beside the words of the other
columns. All have a sign. ``real = (code - offset) * scale``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.types import ElementKind
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import FLOAT32, Lanes
from glow_nb.simd.memory import (
    address,
    are_literal,
    hint_second_level,
    literal,
    load_vector,
    offset,
    store_vector,
    to_index,
)
from glow_nb.simd.outer_product import PLAIN, add_products
from glow_nb.simd.types import INDEX, Pointer, RegisterTile

WORD_BITS = 32


def codes_of(memory: Pointer, bits: int) -> int:
    """Return how many codes of *bits* an element of *memory* holds."""
    return WORD_BITS // bits if memory.kind is ElementKind.INT32 else 1


def _decoded(loaded: Lanes, number: int, bits: int, zero: Lanes | None) -> Lanes:
    """Return code *number* of each element as a float, less *zero*."""
    if loaded.kind is ElementKind.INT32:
        raised = loaded.shift_left(WORD_BITS - bits * (number + 1))
        loaded = raised.shift_right(WORD_BITS - bits)
    real = convert(loaded, FLOAT32)
    return real if zero is None else real - zero


def _loaded(builder: Any, pointer: Any, index: Any, memory: Pointer, lanes: int) -> Lanes:
    place = address(builder, pointer, index, memory.kind)
    return Lanes(builder, load_vector(builder, place, memory.kind, lanes), memory.kind, lanes)


def _numbers(
    builder: Any, pointer: Any, index: Any, memory: Any, lanes: int, vectors: int = 1
) -> list[Any]:
    """Load neighbouring *vectors* as float32; Nones if *memory* is the literal 0, no pointer."""
    if not isinstance(memory, Pointer):
        return [None] * vectors
    starts = [offset(builder, index, v * lanes) for v in range(vectors)]
    return [convert(_loaded(builder, pointer, at, memory, lanes), FLOAT32) for at in starts]


def _add_scaled(builder: Any, total: Any, part: Any, tile: RegisterTile, scale: list[Any]) -> Any:
    """Return the tile *total* plus *part* times the *scale* of each vector of a row."""
    for number in range(tile.rows * tile.vectors):
        sums, added = (
            Lanes(builder, builder.extract_value(value, number), tile.kind, tile.lanes)
            for value in (total, part)
        )
        scaled = added.multiply_add(scale[number % tile.vectors], sums)
        total = builder.insert_value(total, scaled.value, number)
    return total


@intrinsic(prefer_literal=True)
def tile_dot_codes(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    stride: Any,
    codes: Any,
    index: Any,
    row: Any,
    bits: Any,
    count: Any,
    scales: Any,
    offsets: Any,
    first_scale: Any,
) -> Any:
    """``tile_dot_codes(t, x, i, stride, w, j, row, bits, count, scales, offsets, s)``.

    ``t[r, v] += scales[s + v] * (sum over c < count, f < codes of x[i + r * stride + c * codes + f]
    * (code f of w[j + c * row + v] - offsets[s + v]))`` for every row r and every column v, where
    an element of w holds this number of codes of *bits*. Without offsets, the number 0 stands for
    them.
    """
    pointers = (source, codes, scales)
    if not (isinstance(tile, RegisterTile) and all(isinstance(p, Pointer) for p in pointers)):
        return None
    if not are_literal(stride, row, bits):
        return None
    factors, step = codes_of(codes, literal(bits)), literal(stride)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, place, length, scales_at = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (2, 5, 8, 11)
        )
        width = (tile.lanes, tile.vectors)
        zeros = _numbers(builder, arguments[10], scales_at, offsets, *width)
        total = cgutils.alloca_once(builder, tile.llvm)
        builder.store(ir.Constant(tile.llvm, None), total)
        with cgutils.for_range(builder, length, intp=INDEX) as loop:
            x_at, w_at = (
                builder.add(begin, builder.mul(loop.index, ir.Constant(INDEX, size)))
                for begin, size in ((first, factors), (place, literal(row)))
            )
            starts = [offset(builder, w_at, v * tile.lanes) for v in range(tile.vectors)]
            words = [_loaded(builder, arguments[4], at, codes, tile.lanes) for at in starts]
            value = builder.load(total)
            for f in range(factors):

                def factor(r: int, f: int = f) -> Any:
                    at = offset(builder, x_at, r * step + f)
                    place = address(builder, arguments[1], at, source.kind)
                    return PLAIN.left(builder, place, source, tile)

                def weight(v: int, f: int = f) -> Any:
                    return _decoded(words[v], f, literal(bits), zeros[v]).value

                value = add_products(builder, value, tile, factor, weight)
            builder.store(value, total)
        scale = _numbers(builder, arguments[9], scales_at, scales, *width)
        return _add_scaled(builder, arguments[0], builder.load(total), tile, scale)

    operands = (tile, source, start, stride, codes, index, row, bits, count, scales)
    return tile(*operands, types.unliteral(offsets), first_scale), codegen


@intrinsic(prefer_literal=True)
def dequantize_codes(
    typing: Any,
    dest: Any,
    start: Any,
    codes: Any,
    index: Any,
    row: Any,
    bits: Any,
    count: Any,
    scales: Any,
    offsets: Any,
    first_scale: Any,
    lanes: Any,
    ahead: Any,
) -> Any:
    """``dequantize_codes(p, i, w, j, row, bits, count, scales, offsets, s, lanes, ahead)``.

    ``p[i + (c * codes + f) * row + v] = (code f of w[j + c * row + v] - offsets[s + v]) *
    scales[s + v]`` for every c < count, f < codes and v < row, a multiple of *lanes*. Without
    offsets, the number 0 stands for them. Meanwhile the elements of w that lie *ahead* of those
    read, which a later call reads, are brought into the second-level cache.
    """
    is_known = all(isinstance(p, Pointer) for p in (dest, codes, scales))
    if not (is_known and are_literal(row, bits, lanes)):
        return None
    width, factors = literal(lanes), codes_of(codes, literal(bits))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, place, length, scales_at, distance = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (1, 3, 6, 9, 11)
        )
        line = CACHE_LINE_BYTES // codes.kind.size_bytes
        vectors = literal(row) // width
        scale = _numbers(builder, arguments[7], scales_at, scales, width, vectors)
        zeros = _numbers(builder, arguments[8], scales_at, offsets, width, vectors)
        with cgutils.for_range(builder, length, intp=INDEX) as loop:
            step = builder.mul(loop.index, ir.Constant(INDEX, literal(row)))
            at = builder.add(place, step)
            wide_at = builder.add(to, builder.mul(step, ir.Constant(INDEX, factors)))
            later = builder.add(at, distance)
            for start_of_line in range(0, literal(row), line):
                at_line = offset(builder, later, start_of_line)
                far = address(builder, arguments[2], at_line, codes.kind)
                hint_second_level(builder, far)
            for v in range(vectors):
                column = offset(builder, at, v * width)
                loaded = _loaded(builder, arguments[2], column, codes, width)
                for f in range(factors):
                    real = _decoded(loaded, f, literal(bits), zeros[v]) * scale[v]
                    wide = offset(builder, wide_at, f * literal(row) + v * width)
                    target = address(builder, arguments[0], wide, dest.kind)
                    store_vector(builder, target, real.value, dest.kind)
        return context.get_dummy_value()

    operands = (dest, start, codes, index, row, bits, count, scales)
    offsets = types.unliteral(offsets)
    return types.void(*operands, offsets, first_scale, lanes, ahead), codegen
