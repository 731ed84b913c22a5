"""Weights in floats of 28 bits, eight in seven words: read in a dot, or written out.

How the bits lie: :mod:`glow_nb.float28`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.float28 import (
    CODE_MASK,
    FRACTION_BITS,
    LAST_PIECES,
    MAGNITUDE_MASK,
    PIECES,
    TOGETHER,
    WORDS,
)
from glow_nb.simd.lanes import FLOAT32, I32, Lanes, splat_value
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.outer_product import PLAIN
from glow_nb.simd.tile import offset
from glow_nb.simd.types import INDEX, Pointer, RegisterTile
from glow_nb.types import ElementKind

UINT32 = ElementKind.UINT32


def _eight_rows(builder: Any, words: Any, index: Any, bias: Lanes) -> Iterator[Lanes]:
    """Yield the numbers of eight rows, whose seven words follow one another from *index* on.

    The *bias* is what is added to a code that is not that of zero.
    """
    lanes = bias.lanes
    last: Lanes | None = None

    def number(code: Lanes) -> Lanes:
        is_zero = (code & MAGNITUDE_MASK).compare("==", 0)
        return is_zero.select(code, code + bias).as_float(FLOAT32)

    for row in range(WORDS):
        place = address(builder, words, offset(builder, index, row * lanes), UINT32)
        word = bias.like(load_vector(builder, place, UINT32, lanes))
        for down, mask in LAST_PIECES if row == WORDS - 1 else [PIECES[row]]:
            moved = word.shift_right(down) if down > 0 else word.shift_left(-down)
            last = moved & mask if last is None else last | (moved & mask)
        yield number(word & CODE_MASK)
    assert last is not None
    yield number(last)


def _bias(builder: Any, least: Any, lanes: int) -> Lanes:
    """Return what the *least* exponent, an int64, adds to codes, in all lanes."""
    bits = builder.shl(builder.trunc(least, I32), ir.Constant(I32, FRACTION_BITS))
    return Lanes(builder, splat_value(builder, bits, lanes), UINT32, lanes)


@intrinsic(prefer_literal=True)
def tile_dot_float28(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    stride: Any,
    words: Any,
    index: Any,
    panel: Any,
    least: Any,
    count: Any,
) -> Any:
    """``tile_dot_float28(t, x, i, stride, w, j, panel, least, count)``.

    ``t[r, v] += sum over c < count, f < 8 of x[i + r * stride + 8 * c + f] * n[v, c, f]`` for every
    row r and vector v, where ``n[v, c]`` are eight rows of numbers, as wide as a vector, in the
    words from ``w[j + v * panel + 7 * c * lanes]`` on. Literals are *stride* and *panel*.
    """
    pointers = isinstance(source, Pointer) and isinstance(words, Pointer)
    if not (isinstance(tile, RegisterTile) and pointers and words.kind is UINT32):
        return None
    if not are_literal(stride, panel):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, begin, exponent, length = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (2, 5, 7, 8)
        )
        bias = _bias(builder, exponent, tile.lanes)

        def left(x_at: Any, row: int, f: int) -> Any:
            at = offset(builder, x_at, row * literal(stride) + f)
            return PLAIN.left(
                builder, address(builder, arguments[1], at, source.kind), source, tile
            )

        total = cgutils.alloca_once(builder, tile.llvm)
        builder.store(arguments[0], total)
        with cgutils.for_range(builder, length, intp=INDEX) as loop:
            x_at, w_at = (
                builder.add(place, builder.mul(loop.index, ir.Constant(INDEX, size)))
                for place, size in ((first, TOGETHER), (begin, WORDS * tile.lanes))
            )
            value = builder.load(total)
            for v in range(tile.vectors):
                at = offset(builder, w_at, v * literal(panel))
                for f, numbers in enumerate(_eight_rows(builder, arguments[4], at, bias)):
                    for r in range(tile.rows):
                        part = r * tile.vectors + v
                        sum = numbers.like(builder.extract_value(value, part))
                        sum = PLAIN.add(sum, left(x_at, r, f), numbers.value)
                        value = builder.insert_value(value, sum.value, part)
            builder.store(value, total)
        return builder.load(total)

    return tile(tile, source, start, stride, words, index, panel, least, count), codegen


@intrinsic(prefer_literal=True)
def unpack_float28(
    typing: Any, dest: Any, start: Any, words: Any, index: Any, lanes: Any, least: Any
) -> Any:
    """``unpack_float28(p, i, w, j, lanes, least)``: write eight rows of numbers.

    Each has so many *lanes*; their words begin at ``w[j]``, and the first number is ``p[i]``.
    """
    is_known = isinstance(dest, Pointer) and isinstance(words, Pointer) and words.kind is UINT32
    if not (is_known and are_literal(lanes)):
        return None
    width = literal(lanes)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, begin, exponent = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (1, 3, 5)
        )
        bias = _bias(builder, exponent, width)
        for f, row in enumerate(_eight_rows(builder, arguments[2], begin, bias)):
            place = address(builder, arguments[0], offset(builder, to, f * width), dest.kind)
            store_vector(builder, place, row.value, dest.kind)
        return context.get_dummy_value()

    return types.void(dest, start, words, index, lanes, least), codegen
