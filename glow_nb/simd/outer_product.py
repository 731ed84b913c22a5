"""One step of a matrix product in a register tile: left factors times a row of right ones.

A step multiplies one pair of factors for each sum, or a group of neighbouring ones. The factors of
a group lie side by side in memory: one load brings a group to all lanes, and one instruction
multiplies the pairs of two groups and adds the products to the sum. All forms of integers are exact
as long as the sums fit; larger ones wrap around.

A form is how a step of a row of :mod:`glow_nb.base.dot_instruction` is made. Its sums are those of
the tile; a form that keeps them in another order brings them into it before the first step
(``begin``) and back after the last one (``end``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.base.dot_instruction import SINGLE, DotInstruction
from glow_nb.simd.convert import convert
from glow_nb.simd.instruction_sets import has_instruction_set
from glow_nb.simd.lanes import Lanes, first_lanes, splat_value
from glow_nb.simd.memory import (
    Count,
    address,
    are_literal,
    further,
    literal,
    load_scalar,
    load_vector,
    load_vector_masked,
    offset,
    to_index,
)
from glow_nb.simd.multiply_adds import multiply_add_of
from glow_nb.simd.tile_memory import read_vector
from glow_nb.simd.types import INDEX, Pointer, RegisterTile, llvm_vector

Place = tuple[Any, Pointer, Any]
"""Where operands lie: LLVM address, its type, and the index of the first element."""


class InPlace:
    """What keeps the sums of a tile where they are."""

    def begin(self, builder: Any, value: Any, tile: RegisterTile) -> Any:  # noqa: ARG002
        """Return the sums of the tile *value* in the order of the steps."""
        return value

    def end(self, builder: Any, sums: Any, tile: RegisterTile) -> Any:  # noqa: ARG002
        """Return the tile of *sums* in the order of the steps."""
        return sums


class SinglePairs(InPlace):
    """A step of one pair of factors for each sum, of any kind."""

    dot = SINGLE

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
        return total.like(x).multiply_add(total.like(w), total)


@dataclass(frozen=True)
class Groups(InPlace):
    """A step of groups of neighbours, whose results are a vector of a row.

    Attributes:
        dot: The instruction that multiplies them.
    """

    dot: DotInstruction

    def left(self, builder: Any, place: Any, memory: Pointer, tile: RegisterTile) -> Any:
        """Return the group at the LLVM address *place* in all lanes."""
        kind, group = memory.kind, self.dot.group
        assert self.dot.staged_kind(kind) is kind, f"{self.dot.name} multiplies no {memory}"
        bits = builder.load(place, align=kind.size_bytes, typ=ir.IntType(kind.bits * group))
        vector = splat_value(builder, bits, tile.lanes)
        lanes = group * tile.lanes
        return Lanes(builder, builder.bitcast(vector, llvm_vector(kind, lanes)), kind, lanes)

    def right(
        self, builder: Any, row: Place, tile: RegisterTile, v: int, columns: int | None
    ) -> Any:
        """Return the groups of vector *v* of a row of sums, of the row's first *columns* only.

        Shorter elements than the instruction multiplies are widened.
        """
        first, left = v * tile.lanes, tile.lanes
        if columns is not None:
            left = min(max(0, columns - first), tile.lanes)
        return right_groups(builder, row, self.dot, (first, tile.lanes, left))

    def moved(self, groups: Lanes, places: int) -> Lanes:
        """Return *groups* with each factor this number of places further up in its group, above
        zeros.

        If *places* is negative, they come further down, below zeros.
        """
        if not places:
            return groups
        whole_bits = groups.kind.bits * self.dot.group
        form = ir.VectorType(ir.IntType(whole_bits), groups.lanes // self.dot.group)
        whole = groups.builder.bitcast(groups.value, form)
        bits = ir.Constant(form, [abs(places) * groups.kind.bits] * form.count)
        move = groups.builder.shl if places > 0 else groups.builder.lshr
        moved = move(whole, bits)
        return groups.like(groups.builder.bitcast(moved, groups.value.type))

    def add(self, total: Lanes, x: Any, w: Any) -> Lanes:
        """Return the sums *total* with the products added."""
        return multiply_add_of(self.dot, total.builder, total.lanes)(total, x, w)


def right_groups(
    builder: Any, row: Place, dot: DotInstruction, part: tuple[int, int, int]
) -> Lanes:
    """Load groups of a row: the number of the first one, how many, and how many are used.

    What is after those used is not read. Processors without masks of bytes read some that come
    before the first instead, as a vector that ends where the used ones end, and move these to its
    begin.
    """
    pointer, memory, start = row
    first, groups, used = part
    begin, lanes = dot.group * first, dot.group * groups
    kind, unused = memory.kind, dot.group * (groups - used)

    def place(element: int) -> Any:
        return address(builder, pointer, offset(builder, start, element), kind)

    if not unused:
        loaded = load_vector(builder, place(begin), kind, lanes)
    elif begin < unused or has_instruction_set(builder, "mask_bytes"):
        mask = first_lanes(builder, ir.Constant(INDEX, lanes - unused), lanes)
        loaded = load_vector_masked(builder, place(begin), kind, lanes, mask)
    else:
        vector = load_vector(builder, place(begin - unused), kind, lanes)
        order = [min(lane + unused, lanes - 1) for lane in range(lanes)]
        loaded = Lanes(builder, vector, kind, lanes).shuffle(order).value
    found = Lanes(builder, loaded, kind, lanes)
    multiplied = dot.staged_kind(kind)
    return found if multiplied is kind else convert(found, multiplied)


PLAIN = SinglePairs()

Form = SinglePairs | Groups
"""How a step whose sums are a vector of a row is made."""


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
    stride: Count,
    columns: int | None = None,
    form: Form = PLAIN,
) -> Any:
    """Add a column of inputs, *stride* elements apart, times a row of weights to the tile *value*.

    Of the row, only the weights of the first *columns* sums are read, by default of all.
    Of the inputs and the weights, the fewer are loaded first and stay in registers, the others
    are loaded one at a time: a tile of R x V needs R * V + min(R, V) + 1 registers.
    """

    def factor(r: int) -> Any:
        pointer, memory, first = column
        place = address(builder, pointer, further(builder, first, r, stride), memory.kind)
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
    form: Form = PLAIN,
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
