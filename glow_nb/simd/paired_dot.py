"""The inner loop of products of bytes in pairs that do not saturate.

See :mod:`glow_nb.kernels.operators.pairings` for what a step is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.dot_instruction import FOURS
from glow_nb.base.types import ElementKind
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import I32, REGISTER_BYTES, Lanes, call_named, splat_value
from glow_nb.simd.loops import turns
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_scalar,
    load_vector,
    offset,
    to_index,
)
from glow_nb.simd.outer_product import Groups, add_products
from glow_nb.simd.types import INDEX, Pointer, RegisterTile

UINT8, INT8 = ElementKind.UINT8, ElementKind.INT8
STEP_INPUTS = 4
TURNS = 2
"""Steps that are written in a row: see :data:`glow_nb.simd.dot.TURNS_OF_GROUPS`."""

SHUFFLE_NAMES = {4: "ssse3.pshuf.b.128", 8: "avx2.pshuf.b", 16: "avx512.pshuf.b.512"}
"""What LLVM calls ``vpshufb``, which takes bytes of each 16 by themselves, for this number of lanes
of 32 bits."""


@dataclass(frozen=True)
class Places:
    """The bytes of a window that a step takes, and how.

    Attributes:
        builder: Receives the instructions.
        memory: LLVM address of the place of the first factor.
        lanes: Sums in a vector.
    """

    builder: Any
    memory: Any
    lanes: int

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
        if not has_instruction_set(builder, f"pair_bytes_{count}"):
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


MULTIPLY_ADD = "vpmaddubsw ${4:c}($3), $2, $1; vpmaddwd $5, $1, $1; vpaddd $1, $0, $0"
"""Four neighbouring products of bytes at an address are added to each sum: ``$0 += $1``.

LLVM would load weights that several rows multiply into a register. As operands in memory they need
neither that register nor an instruction of their own: a tile holds up to a third more sums, and
takes fewer instructions for each. Tiles of 4 x 3 vectors take 0.82 to 0.98 of the time that tiles
of 3 x 3 take with weights in registers (docs/history.md)."""


def add_from_memory(total: Lanes, x: Lanes, weights: Any, offset: int) -> Lanes:
    """Multiply the unsigned bytes *x* by signed ones and add four products to each sum.

    The sums of two are of 16 bits, and saturate. The signed bytes lie *offset* bytes after the
    address *weights*.
    """
    builder, form = total.builder, total.value.type
    ones = ir.Constant(ir.VectorType(ir.IntType(16), 2 * total.lanes), [1] * 2 * total.lanes)
    operands = [x.value, weights, ir.Constant(I32, offset), ones, total.value]
    result = ir.LiteralStructType([form, form])
    kind = ir.FunctionType(result, [operand.type for operand in operands])
    # Registers of class v are all those of AVX-512. What was stored is in memory before.
    constraints = "=v,=&v,v,r,i,v,0,~{memory}"
    made = builder.asm(kind, MULTIPLY_ADD, constraints, operands, side_effect=False)
    return total.like(builder.extract_value(made, 0))


ANY_FORM = Groups(FOURS)
"""The form for processors that lack one of the instructions for these vectors."""


def _add_step(
    builder: Any, value: Any, tile: RegisterTile, factor: Callable[[int], Lanes], weights: Any
) -> Any:
    """Add the products of each row's *factor* and the weights at an address to the tile *value*."""
    if not has_instruction_set(builder, f"pair_bytes_{tile.lanes * STEP_INPUTS}"):
        return _add_step_one_by_one(builder, value, tile, factor, weights)
    for r in range(tile.rows):
        x = factor(r)
        for v in range(tile.vectors):
            part = r * tile.vectors + v
            total = Lanes(builder, builder.extract_value(value, part), tile.kind, tile.lanes)
            added = add_from_memory(total, x, weights, v * tile.lanes * STEP_INPUTS)
            value = builder.insert_value(value, added.value, part)
    return value


def _add_step_one_by_one(
    builder: Any, value: Any, tile: RegisterTile, factor: Callable[[int], Lanes], weights: Any
) -> Any:
    """Do the same on any processor."""
    lanes = tile.lanes * STEP_INPUTS

    def weight(v: int) -> Lanes:
        near = address(builder, weights, ir.Constant(INDEX, v * lanes), INT8)
        return Lanes(builder, load_vector(builder, near, INT8, lanes), INT8, lanes)

    return add_products(builder, value, tile, factor, weight, ANY_FORM)


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

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        window, steps_at, place, length = (
            to_index(context, builder, arguments[number], signature.args[number])
            for number in (2, 5, 7, 9)
        )
        total = cgutils.alloca_once(builder, tile.llvm)
        at = cgutils.alloca_once(builder, INDEX)
        builder.store(arguments[0], total)
        builder.store(window, at)
        with turns(builder, length, TURNS) as turn:
            number = builder.mul(turn, ir.Constant(INDEX, STEP_INPUTS))
            here = address(builder, arguments[4], builder.add(steps_at, number), UINT8)
            # A load of its own, before that of all four: else these go through another register.
            first_byte = builder.zext(load_scalar(builder, here, UINT8), INDEX)
            moved = builder.and_(first_byte, ir.Constant(INDEX, REGISTER_BYTES))
            begin = builder.add(builder.load(at), moved)
            builder.store(begin, at)
            places = Places(builder, here, tile.lanes)
            step = builder.mul(turn, ir.Constant(INDEX, literal(row)))

            def factor(r: int) -> Any:
                index = offset(builder, begin, r * literal(stride))
                return places.of(address(builder, arguments[1], index, UINT8))

            near = address(builder, arguments[6], builder.add(place, step), INT8)
            builder.store(_add_step(builder, builder.load(total), tile, factor, near), total)
        return builder.load(total)

    operands = (tile, source, start, stride, order, first, weights, index, row, count)
    return tile(*operands), codegen
