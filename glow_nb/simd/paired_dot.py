"""The inner loop of products of bytes in pairs that do not saturate.

See :mod:`glow_nb.kernels.operators.pairings` for what a step is.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.simd.lanes import I32, REGISTER_BYTES, Lanes, call_named, splat_value
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_scalar,
    load_vector,
    to_index,
)
from glow_nb.simd.outer_product import PAIR_NAMES, Groups, add_products
from glow_nb.simd.tile import offset
from glow_nb.simd.types import INDEX, Pointer, RegisterTile
from glow_nb.types import ElementKind

UINT8, INT8 = ElementKind.UINT8, ElementKind.INT8
FACTORS = 4
MULTIPLY_NAMES = {
    4: "ssse3.pmadd.ub.sw.128",
    8: "avx2.pmadd.ub.sw",
    16: "avx512.pmaddubs.w.512",
}
"""What LLVM calls ``vpmaddubsw`` for so many lanes of 32 bits."""

SHUFFLE_NAMES = {4: "ssse3.pshuf.b.128", 8: "avx2.pshuf.b", 16: "avx512.pshuf.b.512"}
"""Likewise ``vpshufb``, which takes bytes of each 16 by themselves."""


def by_vpmaddubsw(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
    """Multiply unsigned bytes by signed ones and add four neighbouring products to each sum.

    The sums of two are of 16 bits, and saturate.
    """
    builder, pairs = total.builder, ir.VectorType(ir.IntType(16), 2 * total.lanes)
    name = f"llvm.x86.{MULTIPLY_NAMES[total.lanes]}"
    sums = call_named(builder, name, pairs, [x.value, w.value])
    ones = ir.Constant(pairs, [1] * pairs.count)
    name = f"llvm.x86.{PAIR_NAMES[total.lanes]}"
    return total + total.like(call_named(builder, name, total.value.type, [sums, ones]))


FORM = Groups(FACTORS, by_vpmaddubsw)


@intrinsic(prefer_literal=True)
def tile_dot_paired(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    stride: Any,
    order: Any,
    first: Any,
    weights: Any,
    index: Any,
    row: Any,
    count: Any,
) -> Any:
    """``tile_dot_paired(t, x, i, stride, order, k, w, j, row, count)``.

    ``t[r, v] += sum over c < count, f < 4 of x[i + r * stride + window + order[k + 4 * c + f] % 16]
    * w[j + c * row + v * 4 + f]`` for every row r and every column v: bit 4 of ``order[k + 4 * c]``
    is what the window moves on by before step c. All 16 bytes of each window are read. Sums of
    neighbouring two of the products must fit into 16 bits. Literals are *stride* and *row*.
    """
    pointers = (source, order, weights)
    if not (isinstance(tile, RegisterTile) and all(isinstance(p, Pointer) for p in pointers)):
        return None
    kinds = tuple(pointer.kind for pointer in pointers)
    if kinds != (UINT8, UINT8, INT8) or not are_literal(stride, row):
        return None
    lanes = tile.lanes * FACTORS
    bytes_of_lanes = ir.VectorType(ir.IntType(8), lanes)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        window, steps_at, place, length = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (2, 5, 7, 9)
        )
        total = cgutils.alloca_once(builder, tile.llvm)
        at = cgutils.alloca_once(builder, INDEX)
        builder.store(arguments[0], total)
        builder.store(window, at)
        with cgutils.for_range(builder, length, intp=INDEX) as loop:
            number = builder.mul(loop.index, ir.Constant(INDEX, FACTORS))
            here = address(builder, arguments[4], builder.add(steps_at, number), UINT8)
            # A load of its own, before that of all four: else these go through another register.
            first_byte = builder.zext(load_scalar(builder, here, UINT8), INDEX)
            moved = builder.and_(first_byte, ir.Constant(INDEX, REGISTER_BYTES))
            begin = builder.add(builder.load(at), moved)
            builder.store(begin, at)
            four = builder.load(here, align=FACTORS, typ=I32)
            places = builder.bitcast(splat_value(builder, four, tile.lanes), bytes_of_lanes)
            step = builder.mul(loop.index, ir.Constant(INDEX, literal(row)))
            row_at = builder.add(place, step)

            def factor(r: int) -> Any:
                index = offset(builder, begin, r * literal(stride))
                near = address(builder, arguments[1], index, UINT8)
                found = load_vector(builder, near, UINT8, REGISTER_BYTES)
                whole = Lanes(builder, found, UINT8, REGISTER_BYTES).shuffle(
                    [lane % REGISTER_BYTES for lane in range(lanes)]
                )
                name = f"llvm.x86.{SHUFFLE_NAMES[tile.lanes]}"
                picked = call_named(builder, name, bytes_of_lanes, [whole.value, places])
                return Lanes(builder, picked, UINT8, lanes)

            def weight(v: int) -> Any:
                index = offset(builder, row_at, v * lanes)
                near = address(builder, arguments[6], index, INT8)
                return Lanes(builder, load_vector(builder, near, INT8, lanes), INT8, lanes)

            value = add_products(builder, builder.load(total), tile, factor, weight, FORM)
            builder.store(value, total)
        return builder.load(total)

    operands = (tile, source, start, stride, order, first, weights, index, row, count)
    return tile(*operands), codegen
