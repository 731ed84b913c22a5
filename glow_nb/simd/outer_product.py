"""One step of a matrix product in a register tile: left factors times a row of right ones.

A step multiplies one pair of factors for each sum, or a group of neighbouring ones. The factors of
a group lie side by side in memory, and together they are as long as a sum of 32 bits: one load
brings a group to all lanes, and one instruction multiplies the pairs of two groups and adds the
products to the sum. All forms are exact as long as the sums fit; larger ones wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.convert import convert
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import I32, Lanes, call_named, first_lanes, splat_value
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_scalar,
    load_vector,
    load_vector_masked,
    to_index,
)
from glow_nb.simd.tile import offset, read_vector
from glow_nb.simd.types import INDEX, Pointer, RegisterTile

INT16 = ElementKind.INT16

Place = tuple[Any, Pointer, Any]
"""Where operands lie: LLVM address, its type, and the index of the first element."""


class SinglePairs:
    """A step of one pair of factors for each sum, of any kind."""

    factors = 1

    def left(self, builder: Any, place: Any, memory: Pointer, tile: RegisterTile) -> Any:
        """Return the factor at the LLVM address *place* in all lanes."""
        vector = splat_value(builder, load_scalar(builder, place, memory.kind), tile.lanes)
        return convert(Lanes(builder, vector, memory.kind, tile.lanes), tile.kind).value

    def right(
        self, builder: Any, row: Place, tile: RegisterTile, v: int, columns: int | None
    ) -> Any:
        """Return the factors of vector *v* of a row of sums, of the row's first *columns* only."""
        pointer, memory, start = row
        left = None if columns is None else columns - v * tile.lanes
        place = offset(builder, start, v * tile.lanes)
        return read_vector(builder, pointer, place, memory, tile, left)

    def add(self, total: Lanes, x: Any, w: Any) -> Lanes:
        """Return the sums *total* with the products added."""
        return total.like(x).fma(total.like(w), total)


@dataclass(frozen=True)
class Groups:
    """A step of groups of neighbouring integers.

    Attributes:
        factors: Pairs of factors of a sum: four of bytes, or two of 16 bits.
        multiply_add: Adds the products of two vectors of groups, ``<n x i8>`` or ``<n x i16>``, the
            left one of *kind*, to sums.
    """

    factors: int
    multiply_add: Callable[[Lanes, Lanes, Lanes], Lanes]

    @property
    def bits(self) -> int:
        """Bits of a factor."""
        return 32 // self.factors

    def left(self, builder: Any, place: Any, memory: Pointer, tile: RegisterTile) -> Any:
        """Return the group at the LLVM address *place* in all lanes."""
        assert memory.kind.bits == self.bits, f"{memory} holds no groups of {self.factors}"
        group = builder.load(place, align=memory.kind.size_bytes, typ=I32)
        vector = splat_value(builder, group, tile.lanes)
        form = ir.VectorType(ir.IntType(self.bits), self.factors * tile.lanes)
        return self._lanes(builder, builder.bitcast(vector, form), memory.kind)

    def right(
        self, builder: Any, row: Place, tile: RegisterTile, v: int, columns: int | None
    ) -> Any:
        """Return the groups of vector *v* of a row of sums, of the row's first *columns* only.

        Bytes are widened where groups are of 16 bits.
        """
        first, left = v * tile.lanes, tile.lanes
        if columns is not None:
            left = min(max(0, columns - first), tile.lanes)
        loaded = self._first_groups(builder, row, first, tile.lanes, left)
        return loaded if row[1].kind.bits == self.bits else convert(loaded, INT16)

    def _first_groups(self, builder: Any, row: Place, first: int, groups: int, used: int) -> Lanes:
        """Load *groups* of a row from the *first* on; what is behind those *used* is not read.

        Processors without masks of bytes read some that come before the first instead, as a vector
        that ends where the used ones end, and move these to its begin.
        """
        pointer, memory, start = row
        begin, lanes = self.factors * first, self.factors * groups
        kind, unused = memory.kind, self.factors * (groups - used)

        def place(element: int) -> Any:
            return address(builder, pointer, offset(builder, start, element), kind)

        if not unused:
            return self._lanes(builder, load_vector(builder, place(begin), kind, lanes), kind)
        if begin < unused or has_instruction_set(builder, "mask_bytes"):
            mask = first_lanes(builder, ir.Constant(INDEX, lanes - unused), lanes)
            vector = load_vector_masked(builder, place(begin), kind, lanes, mask)
            return self._lanes(builder, vector, kind)
        vector = load_vector(builder, place(begin - unused), kind, lanes)
        order = [min(lane + unused, lanes - 1) for lane in range(lanes)]
        return self._lanes(builder, vector, kind).shuffle(order)

    def moved(self, groups: Lanes, places: int) -> Lanes:
        """Return *groups* with each factor so many places further up in its group, above zeros.

        If *places* is negative, they come further down, below zeros.
        """
        if not places:
            return groups
        form = ir.VectorType(I32, groups.lanes // self.factors)
        whole = groups.builder.bitcast(groups.value, form)
        bits = ir.Constant(form, [abs(places) * self.bits] * form.count)
        move = groups.builder.shl if places > 0 else groups.builder.lshr
        moved = move(whole, bits)
        return groups.like(groups.builder.bitcast(moved, groups.value.type))

    def add(self, total: Lanes, x: Any, w: Any) -> Lanes:
        """Return the sums *total* with the products added."""
        return self.multiply_add(total, x, w)

    def _lanes(self, builder: Any, value: Any, kind: ElementKind) -> Lanes:
        return Lanes(builder, value, kind, value.type.count)


MultiplyAdd = SinglePairs | Groups
"""A form of a step."""


def in_any_way(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
    """Add products of groups by multiplications of single pairs, which every processor has."""
    factors = x.lanes // total.lanes
    for number in range(factors):
        lanes = range(number, x.lanes, factors)
        left, right = (convert(each.shuffle(lanes), total.kind) for each in (x, w))
        total = total + left * right
    return total


def by_vnni(name: str) -> Callable[[Lanes, Lanes, Lanes], Lanes]:
    """Return the multiply-add by the instruction *name* of VNNI, of 128, 256 or 512 bits."""

    def multiply_add(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
        builder, form = total.builder, total.value.type
        operands = [total.value, *(builder.bitcast(each.value, form) for each in (x, w))]
        full_name = f"llvm.x86.avx512.{name}.{32 * total.lanes}"
        return total.like(call_named(builder, full_name, form, operands))

    return multiply_add


PAIR_NAMES = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""What LLVM calls ``vpmaddwd`` for so many lanes of 32 bits."""


def by_vpmaddwd(total: Lanes, x: Lanes, w: Lanes) -> Lanes:
    """Multiply pairs of 16 bits and add the products of two neighbours, then add these.

    The largest sum, that of two products of the least integers, wraps around as it should.
    """
    name = f"llvm.x86.{PAIR_NAMES[total.lanes]}"
    operands = [each.value for each in (x, w)]
    return total + total.like(call_named(total.builder, name, total.value.type, operands))


PLAIN = SinglePairs()

FORMS: dict[str, MultiplyAdd] = {
    "tile_dot": PLAIN,
    "tile_dot_pairs": Groups(2, in_any_way),
    "tile_dot_fours": Groups(4, in_any_way),
    "tile_dot_vpmaddwd": Groups(2, by_vpmaddwd),
    "tile_dot_vpdpwssd": Groups(2, by_vnni("vpdpwssd")),
    "tile_dot_vpdpbusd": Groups(4, by_vnni("vpdpbusd")),
}
"""The forms of a step by the name of the dot that takes it.

``vpdpbusd`` multiplies unsigned bytes by signed ones; it does not saturate.
"""


@intrinsic(prefer_literal=True)
def tile_fma(
    typing: Any, tile: Any, column: Any, start: Any, stride: Any, row: Any, index: Any
) -> Any:
    """``tile_fma(t, x, i, stride, w, j)``: ``t[r, v] += x[i + r * stride] * w[j + v * lanes ...]``.

    One column of inputs times one row of weights.
    """
    if not (
        isinstance(tile, RegisterTile) and isinstance(column, Pointer) and isinstance(row, Pointer)
    ):
        return None
    if not are_literal(stride):
        return None
    step = literal(stride)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[2], signature.args[2])
        weights = to_index(context, builder, arguments[5], signature.args[5])

        factors, row_weights = (arguments[1], column, first), (arguments[4], row, weights)
        return outer_product(builder, arguments[0], tile, factors, row_weights, step)

    return tile(tile, column, start, stride, row, index), codegen


def outer_product(
    builder: Any,
    value: Any,
    tile: RegisterTile,
    column: Place,
    row: Place,
    stride: int,
    columns: int | None = None,
    form: MultiplyAdd = PLAIN,
) -> Any:
    """Add a column of inputs, *stride* elements apart, times a row of weights to the tile *value*.

    Of the row, only the weights of the first *columns* sums are read, by default of all.
    Of the inputs and the weights, the fewer are loaded first and stay in registers, the others
    are loaded one at a time: a tile of R x V needs R * V + min(R, V) + 1 registers.
    """

    def factor(r: int) -> Any:
        pointer, memory, first = column
        place = address(builder, pointer, offset(builder, first, r * stride), memory.kind)
        return form.left(builder, place, memory, tile)

    def weight(v: int) -> Any:
        return form.right(builder, row, tile, v, columns)

    return add_products(builder, value, tile, factor, weight, form)


def add_products(
    builder: Any,
    value: Any,
    tile: RegisterTile,
    factor: Callable[[int], Any],
    weight: Callable[[int], Any],
    form: MultiplyAdd = PLAIN,
) -> Any:
    """Add the products of each row's *factor* and each vector's *weight* to the tile *value*."""

    def add(r: int, v: int, x: Any, w: Any) -> None:
        nonlocal value
        part = r * tile.vectors + v
        total = Lanes(builder, builder.extract_value(value, part), tile.kind, tile.lanes)
        value = builder.insert_value(value, form.add(total, x, w).value, part)

    if tile.vectors <= tile.rows:
        weights = [weight(v) for v in range(tile.vectors)]
        for r in range(tile.rows):
            x = factor(r)
            for v, w in enumerate(weights):
                add(r, v, x, w)
        return value
    factors = [factor(r) for r in range(tile.rows)]
    for v in range(tile.vectors):
        w = weight(v)
        for r, x in enumerate(factors):
            add(r, v, x, w)
    return value
