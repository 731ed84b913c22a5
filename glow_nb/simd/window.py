"""Register tiles of channel-wise products: each channel has its own weight and its own input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.base.types import ElementKind
from glow_nb.simd.lanes import Lanes, constant_vector
from glow_nb.simd.memory import Count, are_literal, count_of, literal, to_index, used_in
from glow_nb.simd.tile import accumulator
from glow_nb.simd.tile_memory import read_elements, read_vector
from glow_nb.simd.types import INDEX, Pointer, RegisterTile, llvm_vector

WINDOW_REGISTERS = 14
"""Accumulators and weights of a window that stay in registers; one more holds the input."""


@intrinsic(prefer_literal=True)
def tile_bias_masked(
    typing: Any, pointer: Any, index: Any, rows: Any, vectors: Any, lanes: Any, columns: Any
) -> Any:
    """``tile_bias_masked(p, i, rows, vectors, lanes, n)``: tile_bias that reads n elements only."""
    if not (isinstance(pointer, Pointer) and are_literal(rows, vectors, lanes)):
        return None
    tile = RegisterTile(accumulator(pointer.kind), literal(lanes), literal(rows), literal(vectors))

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index = to_index(context, builder, arguments[1], signature.args[1])
        count = count_of(context, builder, arguments[5], signature.args[5])
        row = _load_columns(builder, arguments[0], index, pointer, tile, count)
        vector = llvm_vector(tile.kind, tile.lanes)
        result = ir.Constant(ir.ArrayType(vector, tile.rows * tile.vectors), ir.Undefined)
        for part in range(tile.rows * tile.vectors):
            result = builder.insert_value(result, row[part % tile.vectors], part)
        return result

    return tile(pointer, index, rows, vectors, lanes, columns), codegen


@intrinsic(prefer_literal=True)
def tile_slide(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    step: Any,
    weights: Any,
    index: Any,
    channels: Any,
    taps: Any,
    stride: Any,
    dilation: Any,
    columns: Any,
    begin: Any,
    end: Any,
    times: Any,
    first: Any,
) -> Any:
    """``tile_slide(t, x, i, step, w, j, channels, taps, stride, dilation, n, begin, end, m, o)``.

    Slide one line of a window over the pixels of a tile:
    ``t[r, c] += x[i + p * step + (o + c) // m] * w[j + k * channels + c]`` for every row r and tap
    k, where ``p = r * stride + k * dilation``, if ``begin <= p < end``, for the first n columns c.
    Nothing else is read. Where the run says *begin* and *end*, other pixels count as zeros.
    """
    literals = (step, channels, taps, stride, dilation, columns, times, first)
    if not (isinstance(tile, RegisterTile) and are_literal(*literals)):
        return None
    pairs = _pairs(tile, taps, stride, dilation, begin, end)
    if (literal(taps) + tile.rows) * tile.vectors <= WINDOW_REGISTERS:
        # All weights stay in registers, and each pixel is loaded once.
        pairs.sort(key=lambda pair: (pair[2], pair[0]))
    else:
        # Each weight is loaded once, and the pixels are operands in memory.
        pairs.sort(key=lambda pair: (pair[1], pair[0]))

    order = [(literal(first) + column) // literal(times) for column in range(literal(columns))]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = to_index(context, builder, arguments[5], signature.args[5])
        line = _Line.of(context, builder, arguments, signature.args, ends=11)

        @cache
        def pixel(p: int) -> list[Any]:
            at = line.place(p)
            if literal(times) > 1:
                loaded = _load_repeated(builder, arguments[1], at, source, tile, order)
            else:
                loaded = _load_columns(builder, arguments[1], at, source, tile, literal(columns))
            return line.only_inside(p, loaded)

        @cache
        def weight(k: int) -> list[Any]:
            at = builder.add(place, ir.Constant(INDEX, k * literal(channels)))
            return _load_columns(builder, arguments[4], at, weights, tile, literal(columns))

        value = arguments[0]
        for r, k, p in pairs:
            for v, (x, w) in enumerate(zip(pixel(p), weight(k), strict=True)):
                value = _accumulate(builder, tile, value, r * tile.vectors + v, x, w)
        return value

    operands = (tile, source, start, step, weights, index, channels, taps, stride, dilation)
    return tile(*operands, columns, begin, end, times, first), codegen


@intrinsic(prefer_literal=True)
def tile_slide_groups(
    typing: Any,
    tile: Any,
    source: Any,
    start: Any,
    step: Any,
    weights: Any,
    index: Any,
    channels: Any,
    size: Any,
    taps: Any,
    stride: Any,
    dilation: Any,
    columns: Any,
    begin: Any,
    end: Any,
) -> Any:
    """``tile_slide_groups(t, x, i, step, w, j, channels, m, taps, stride, ...)``.

    Like tile_slide, for groups of m channels, which lie in one vector:
    ``t[r, c] += x[i + p * step + c - c % m + g] * w[j + (k * m + g) * channels + c]`` for
    every row r, tap k and channel g of a group. Each pixel is loaded once, each of its channels
    spread over its group once, and the weights are operands in memory.
    """
    literals = (step, channels, size, taps, stride, dilation, columns)
    if not (isinstance(tile, RegisterTile) and are_literal(*literals)):
        return None
    group = literal(size)
    pairs = _pairs(tile, taps, stride, dilation, begin, end)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = to_index(context, builder, arguments[5], signature.args[5])
        line = _Line.of(context, builder, arguments, signature.args, ends=12)

        @cache
        def weight(k: int, g: int) -> list[Any]:
            offset = (k * group + g) * literal(channels)
            at = builder.add(place, ir.Constant(INDEX, offset))
            return _load_columns(builder, arguments[4], at, weights, tile, literal(columns))

        value = arguments[0]
        for p in sorted({p for _, _, p in pairs}):
            here = [(r, k) for r, k, pixel in pairs if pixel == p]
            at = line.place(p)
            vectors = _load_columns(builder, arguments[1], at, source, tile, literal(columns))
            vectors = line.only_inside(p, vectors)
            for g in range(group):
                lanes = [lane - lane % group + g for lane in range(tile.lanes)]
                spread = [_shuffled(builder, vector, lanes) for vector in vectors]
                for r, k in here:
                    for v, (x, w) in enumerate(zip(spread, weight(k, g), strict=True)):
                        value = _accumulate(builder, tile, value, r * tile.vectors + v, x, w)
        return value

    operands = (tile, source, start, step, weights, index, channels, size, taps, stride, dilation)
    return tile(*operands, columns, begin, end), codegen


@dataclass(frozen=True)
class _Line:
    """The pixels under a tile, as LLVM values.

    Attributes:
        builder: Where instructions go.
        first: Where the first one lies.
        step: Elements from one to the next.
        ends: The first that is read and the one after the last, if the run says which.
    """

    builder: Any
    first: Any
    step: int
    ends: tuple[Any, Any] | None

    @classmethod
    def of(cls, context: Any, builder: Any, arguments: Any, kinds: Any, *, ends: int) -> _Line:
        """Return that of the arguments of an intrinsic, of which number *ends* is the begin."""
        first = to_index(context, builder, arguments[2], kinds[2])
        found = None
        if not are_literal(*kinds[ends : ends + 2]):
            begin, end = (
                to_index(context, builder, arguments[n], kinds[n]) for n in (ends, ends + 1)
            )
            found = begin, end
        return cls(builder, first, literal(kinds[3]), found)

    def place(self, pixel: int) -> Any:
        """Return where a *pixel* lies, or the nearest one that may be read."""
        builder = self.builder
        if self.ends is None:
            return builder.add(self.first, ir.Constant(INDEX, pixel * self.step))
        begin, end = self.ends
        number, last = ir.Constant(INDEX, pixel), builder.sub(end, ir.Constant(INDEX, 1))
        number = builder.select(builder.icmp_signed("<", number, last), number, last)
        number = builder.select(builder.icmp_signed(">", number, begin), number, begin)
        return builder.add(self.first, builder.mul(number, ir.Constant(INDEX, self.step)))

    def only_inside(self, pixel: int, vectors: list[Any]) -> list[Any]:
        """Return what was loaded of a *pixel*, zeros if it is not inside."""
        if self.ends is None:
            return vectors
        builder, number = self.builder, ir.Constant(INDEX, pixel)
        begin, end = self.ends
        inside = builder.and_(
            builder.icmp_signed(">=", number, begin), builder.icmp_signed("<", number, end)
        )
        return [builder.select(inside, v, ir.Constant(v.type, None)) for v in vectors]


def _pairs(
    tile: RegisterTile, taps: Any, stride: Any, dilation: Any, begin: Any, end: Any
) -> list[tuple[int, int, int]]:
    """Return row, tap and pixel of all products of a tile whose pixel may be inside."""
    is_known = are_literal(begin, end)
    places = (
        (r, k, r * literal(stride) + k * literal(dilation))
        for r in range(tile.rows)
        for k in range(literal(taps))
    )
    return [(r, k, p) for r, k, p in places if not is_known or literal(begin) <= p < literal(end)]


def _shuffled(builder: Any, vector: Any, lanes: list[int]) -> Any:
    """Return the *lanes* of an LLVM vector."""
    numbers = constant_vector(ElementKind.INT32, lanes)
    return builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), numbers)


def _accumulate(builder: Any, tile: RegisterTile, value: Any, part: int, x: Any, w: Any) -> Any:
    """Return the tile *value* with ``x * w`` added to one of its vectors."""
    total = Lanes(builder, builder.extract_value(value, part), tile.kind, tile.lanes)
    total = total.like(x).multiply_add(total.like(w), total)
    return builder.insert_value(value, total.value, part)


def _load_columns(
    builder: Any, pointer: Any, index: Any, memory: Pointer, tile: RegisterTile, columns: Count
) -> list[Any]:
    """Load the vectors of one row, reading the first *columns* elements only."""
    vectors = []
    for column in range(tile.vectors):
        place = builder.add(index, ir.Constant(INDEX, column * tile.lanes))
        used = used_in(builder, columns, column, tile.lanes, tile.vectors)
        vectors.append(read_vector(builder, pointer, place, memory, tile, used))
    return vectors


def _load_repeated(
    builder: Any, pointer: Any, index: Any, memory: Pointer, tile: RegisterTile, order: list[int]
) -> list[Any]:
    """Load elements, of which column c is number ``order[c]``, in vectors of a row.

    The numbers ascend from 0. Elements after the last one are not read.
    """
    count = order[-1] + 1
    width = 1 << (count - 1).bit_length()
    loaded = read_elements(builder, pointer, index, memory, tile.kind, width, count)
    order = order + order[-1:] * (-len(order) % tile.lanes)
    return [
        _shuffled(builder, loaded, order[column : column + tile.lanes])
        for column in range(0, len(order), tile.lanes)
    ]
