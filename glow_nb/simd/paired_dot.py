"""The inner loop of products of bytes in pairs that do not saturate.

See :mod:`glow_nb.kernels.operators.pairings` for what a step is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import I32, REGISTER_BYTES, Lanes, call_named, splat_value
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_scalar,
    load_vector,
    to_index,
)
from glow_nb.simd.outer_product import PAIR_NAMES, Groups, add_products, in_any_way
from glow_nb.simd.tile import offset
from glow_nb.simd.types import INDEX, Pointer, RegisterTile
from glow_nb.types import ElementKind

UINT8, INT8 = ElementKind.UINT8, ElementKind.INT8
STEP_INPUTS = 4
MULTIPLY_NAMES = {
    4: "ssse3.pmadd.ub.sw.128",
    8: "avx2.pmadd.ub.sw",
    16: "avx512.pmaddubs.w.512",
}
"""What LLVM calls ``vpmaddubsw`` for so many lanes of 32 bits."""

SHUFFLE_NAMES = {4: "ssse3.pshuf.b.128", 8: "avx2.pshuf.b", 16: "avx512.pshuf.b.512"}
"""Likewise ``vpshufb``, which takes bytes of each 16 by themselves."""


@dataclass(frozen=True)
class Places:
    """Which bytes of a window a step takes, and how.

    Attributes:
        builder: Receives the instructions.
        memory: LLVM address of the place of the first factor.
        lanes: Sums in a vector.
        shuffles: The processor shuffles bytes of vectors of so many sums.
    """

    builder: Any
    memory: Any
    lanes: int
    shuffles: bool

    @cached_property
    def _controls(self) -> Any:
        """The four places in each sum's lanes."""
        four = self.builder.load(self.memory, align=STEP_INPUTS, typ=I32)
        return self.builder.bitcast(splat_value(self.builder, four, self.lanes), self._form)

    @property
    def _form(self) -> Any:
        return ir.VectorType(ir.IntType(8), STEP_INPUTS * self.lanes)

    def of(self, window: Any) -> Lanes:
        """Return the bytes of the window at an LLVM address, the same for each sum."""
        builder, count = self.builder, STEP_INPUTS * self.lanes
        if not self.shuffles:
            return Lanes(builder, self._one_by_one(window), UINT8, count)
        found = load_vector(builder, window, UINT8, REGISTER_BYTES)
        order = [lane % REGISTER_BYTES for lane in range(count)]
        whole = Lanes(builder, found, UINT8, REGISTER_BYTES).shuffle(order)
        name = f"llvm.x86.{SHUFFLE_NAMES[self.lanes]}"
        picked = call_named(builder, name, self._form, [whole.value, self._controls])
        return Lanes(builder, picked, UINT8, count)

    def _one_by_one(self, window: Any) -> Any:
        """Return the same with a load for each byte."""
        builder, group = self.builder, ir.Constant(I32, 0)
        for number in range(STEP_INPUTS):
            at = address(builder, self.memory, ir.Constant(INDEX, number), UINT8)
            place = builder.zext(load_scalar(builder, at, UINT8), INDEX)
            place = builder.and_(place, ir.Constant(INDEX, REGISTER_BYTES - 1))
            byte = load_scalar(builder, address(builder, window, place, UINT8), UINT8)
            moved = builder.shl(builder.zext(byte, I32), ir.Constant(I32, 8 * number))
            group = builder.or_(group, moved)
        return builder.bitcast(splat_value(builder, group, self.lanes), self._form)


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


FORM, ANY_FORM = Groups(STEP_INPUTS, by_vpmaddubsw), Groups(STEP_INPUTS, in_any_way)
"""Of processors that have ``vpshufb`` for these vectors, which have ``vpmaddubsw`` as well, and of
any others."""


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
    lanes = tile.lanes * STEP_INPUTS

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        window, steps_at, place, length = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (2, 5, 7, 9)
        )
        has_shuffle = has_instruction_set(builder, f"shuffle_bytes_{lanes}")
        form = FORM if has_shuffle else ANY_FORM
        total = cgutils.alloca_once(builder, tile.llvm)
        at = cgutils.alloca_once(builder, INDEX)
        builder.store(arguments[0], total)
        builder.store(window, at)
        with cgutils.for_range(builder, length, intp=INDEX) as loop:
            number = builder.mul(loop.index, ir.Constant(INDEX, STEP_INPUTS))
            here = address(builder, arguments[4], builder.add(steps_at, number), UINT8)
            # A load of its own, before that of all four: else these go through another register.
            first_byte = builder.zext(load_scalar(builder, here, UINT8), INDEX)
            moved = builder.and_(first_byte, ir.Constant(INDEX, REGISTER_BYTES))
            begin = builder.add(builder.load(at), moved)
            builder.store(begin, at)
            places = Places(builder, here, tile.lanes, has_shuffle)
            step = builder.mul(loop.index, ir.Constant(INDEX, literal(row)))
            row_at = builder.add(place, step)

            def factor(r: int) -> Any:
                index = offset(builder, begin, r * literal(stride))
                return places.of(address(builder, arguments[1], index, UINT8))

            def weight(v: int) -> Any:
                index = offset(builder, row_at, v * lanes)
                near = address(builder, arguments[6], index, INT8)
                return Lanes(builder, load_vector(builder, near, INT8, lanes), INT8, lanes)

            value = add_products(builder, builder.load(total), tile, factor, weight, form)
            builder.store(value, total)
        return builder.load(total)

    operands = (tile, source, start, stride, order, first, weights, index, row, count)
    return tile(*operands), codegen
