"""The transforms of Winograd's convolutions on the rows of a register tile, and the taps back.

The matrices have zeros, ones, and rows (or columns) in pairs that differ in the signs of some
elements; so a pair costs the sum and the difference of an even and an odd part. Tiles of
integers are transformed by matrices of integers, and wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.base.types import Array
from glow_nb.numerics.cook_toom import (
    ShortConvolution,
    inputs_of,
    is_known,
    short_convolution,
    tap_noise,
)
from glow_nb.simd.arithmetic import largest
from glow_nb.simd.convert import convert
from glow_nb.simd.lanes import Lanes
from glow_nb.simd.memory import (
    address,
    are_literal,
    literal,
    load_vector,
    store_vector,
    to_index,
)
from glow_nb.simd.types import INDEX, Pointer, RegisterTile


@intrinsic(prefer_literal=True)
def tile_winograd_input(typing: Any, tile: Any, outputs: Any, taps: Any, stride: Any) -> Any:
    """``tile_winograd_input(t, m, r, s)``: ``B t``, for m outputs of r taps with stride s.

    Row i of t is input i, of ``(m - 1) s + r``; row j of the result is a factor of product j.
    """
    if not _fits(tile, outputs, taps, stride):
        return None
    each = _algorithm(tile, outputs, taps, stride)
    transform = partial(_times_paired_rows, each.input, each.groups)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _by_columns(builder, arguments[0], tile, tile, transform)

    return tile(tile, outputs, taps, stride), codegen


@intrinsic(prefer_literal=True)
def winograd_weights(
    typing: Any,
    dest: Any,
    to: Any,
    plane: Any,
    filter: Any,
    index: Any,
    row: Any,
    high: Any,
    wide: Any,
    kernel_high: Any,
    kernel_wide: Any,
    pair: Any,
    lanes: Any,
) -> Any:
    """``winograd_weights(p, to, plane, w, i, row, high, wide, kernel_high, kernel_wide, pair, n)``.

    Transform n filters side by side for one pair of rows of the elements of tiles of high x wide
    outputs (:func:`glow_nb.numerics.cook_toom.row_pairs`): ``p[to + e * plane]`` becomes element e
    of these rows of ``q G g G^T``, where tap t of g is ``w[i + t * row]``. This is for integers,
    which are converted to the kind of p. Literals are all but *to* and *i*.
    """
    literals = (plane, row, high, wide, kernel_high, kernel_wide, pair, lanes)
    if not (isinstance(dest, Pointer) and isinstance(filter, Pointer) and are_literal(*literals)):
        return None
    gap, step, *sizes, rows, count = map(literal, literals)
    algorithms = list(zip(sizes[:2], sizes[2:], strict=True))
    if not all(is_known(outputs, taps, whole=True) for outputs, taps in algorithms):
        return None
    down, across = (short_convolution(*each, whole=True) for each in algorithms)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, start = (
            to_index(context, builder, arguments[operand], signature.args[operand])
            for operand in (1, 4)
        )

        def place(pointer: Any, kind: Any, first: Any, distance: int) -> Any:
            return address(builder, pointer, builder.add(first, ir.Constant(INDEX, distance)), kind)

        places = [
            place(arguments[3], filter.kind, start, tap * step)
            for tap in range(down.taps * across.taps)
        ]
        loaded = [load_vector(builder, each, filter.kind, count) for each in places]
        taps = [convert(Lanes(builder, tap, filter.kind, count), dest.kind) for tap in loaded]
        pair = down.filter[list(down.groups[rows])]
        columns = [_group(pair, taps[j :: across.taps]) for j in range(across.taps)]
        for begin, vectors in enumerate(zip(*columns, strict=True)):
            for element, made in _rows(across.filter, across.groups, vectors):
                distance = (begin * across.size + element) * gap
                pointer = place(arguments[0], dest.kind, to, distance)
                store_vector(builder, pointer, made.value, dest.kind)
        return context.get_dummy_value()

    operands = (dest, to, plane, filter, index, row, *literals[2:])
    return types.void(*operands), codegen


@intrinsic(prefer_literal=True)
def tile_winograd_output(
    typing: Any, tile: Any, outputs: Any, taps: Any, stride: Any, count: Any
) -> Any:
    """``tile_winograd_output(t, m, r, s, count)``: the first *count* rows of ``A t``.

    Row j of t is product j, of ``(m - 1) s + r``; row i of the result is output i of m, of integers
    a multiple of it (:attr:`glow_nb.numerics.cook_toom.ShortConvolution.scale`).
    """
    if not (_fits(tile, outputs, taps, stride) and are_literal(count)):
        return None
    each = _algorithm(tile, outputs, taps, stride)
    result = RegisterTile(tile.kind, tile.lanes, literal(count), tile.vectors)
    transform = partial(_times_paired_columns, each.output[: literal(count)], each.groups)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _by_columns(builder, arguments[0], tile, result, transform)

    return result(tile, outputs, taps, stride, count), codegen


@intrinsic(prefer_literal=True)
def winograd_taps(
    typing: Any,
    dest: Any,
    filter: Any,
    index: Any,
    size: Any,
    high: Any,
    wide: Any,
    kernel_high: Any,
    kernel_wide: Any,
    stride_high: Any,
    stride_wide: Any,
    lanes: Any,
) -> Any:
    """``winograd_taps(p, u, i, size, high, wide, kernel_high, kernel_wide, down, across, lanes)``.

    Recover the taps ``[*kernel, size]`` from a transformed filter ``[*n, size]`` at element i of u,
    made for tiles of high x wide outputs, with strides *down* and *across*. What is mere rounding
    error beside the largest tap of its column becomes zero, which most such taps were. *size* is a
    multiple of *lanes*.
    """
    sizes = (high, wide, kernel_high, kernel_wide, stride_high, stride_wide)
    if not (isinstance(dest, Pointer) and dest == filter and are_literal(size, *sizes, lanes)):
        return None
    step, count = literal(size), literal(lanes)
    axes = [tuple(map(literal, sizes[axis::2])) for axis in (0, 1)]
    if not all(is_known(*axis) for axis in axes):
        return None
    down, across = transforms = [short_convolution(*axis) for axis in axes]
    noise = tap_noise(transforms, dest.kind)

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = to_index(context, builder, arguments[2], signature.args[2])
        bounds = [ir.Constant(INDEX, number) for number in (0, step, count)]

        def place(pointer: Any, start: Any, plane: int) -> Any:
            index = builder.add(start, ir.Constant(INDEX, plane * step))
            return address(builder, pointer, index, dest.kind)

        with cgutils.for_range_slice(builder, *bounds, INDEX) as (column, _):
            start = builder.add(first, column)
            planes = [
                load_vector(builder, place(arguments[1], start, plane), dest.kind, count)
                for plane in range(down.size * across.size)
            ]
            factors = [Lanes(builder, plane, dest.kind, count) for plane in planes]
            columns = [_times(down.recovery, factors[j :: across.size]) for j in range(across.size)]
            rows = [_times(across.recovery, row) for row in zip(*columns, strict=True)]
            for plane, tap in enumerate(
                _without_noise([tap for row in rows for tap in row], noise)
            ):
                store_vector(builder, place(arguments[0], column, plane), tap.value, dest.kind)
        return context.get_dummy_value()

    return types.void(dest, filter, index, size, *sizes, lanes), codegen


def _without_noise(taps: list[Lanes], noise: float) -> list[Lanes]:
    """Return *taps* with zero instead of what is less than *noise* times the largest."""
    sizes = [tap.call("fabs") for tap in taps]
    limit = reduce(largest, sizes) * noise
    return [(size < limit).select(0.0, tap) for size, tap in zip(sizes, taps, strict=True)]


def _fits(tile: Any, *sizes: Any) -> bool:
    """Return whether *tile* has the inputs of these outputs, taps and stride."""
    if not (isinstance(tile, RegisterTile) and are_literal(*sizes)):
        return False
    numbers = tuple(map(literal, sizes))
    is_whole = not tile.kind.is_float
    return is_known(*numbers, whole=is_whole) and tile.rows == inputs_of(*numbers)


def _algorithm(tile: RegisterTile, *sizes: Any) -> ShortConvolution:
    """Return the matrices for elements like those of *tile*."""
    return short_convolution(*map(literal, sizes), whole=not tile.kind.is_float)


def _by_columns(
    builder: Any,
    value: Any,
    tile: RegisterTile,
    result: RegisterTile,
    transform: Callable[[Sequence[Lanes]], list[Lanes]],
) -> Any:
    """Apply *transform* to each column of vectors of the tile *value*."""
    made = ir.Constant(result.llvm, ir.Undefined)
    for column in range(tile.vectors):
        parts = [row * tile.vectors + column for row in range(tile.rows)]
        rows = [
            Lanes(builder, builder.extract_value(value, part), tile.kind, tile.lanes)
            for part in parts
        ]
        for row, vector in enumerate(transform(rows)):
            made = builder.insert_value(made, vector.value, row * tile.vectors + column)
    return made


def _times_paired_rows(
    matrix: Array, groups: Sequence[Sequence[int]], vectors: Sequence[Lanes]
) -> list[Lanes]:
    """Return ``matrix @ vectors``, some of whose *groups* of rows are an even +- an odd part."""
    results = dict(_rows(matrix, groups, vectors))
    return [results[row] for row in range(len(matrix))]


def _rows(
    matrix: Array, groups: Sequence[Sequence[int]], vectors: Sequence[Lanes]
) -> Iterator[tuple[int, Lanes]]:
    """Yield the rows of ``matrix @ vectors`` and their numbers, each as soon as it is computed."""
    for rows in groups:
        yield from zip(rows, _group(matrix[list(rows)], vectors), strict=True)


def _group(rows: Array, vectors: Sequence[Lanes]) -> list[Lanes]:
    """Return ``rows @ vectors``; two rows that differ in signs alone share most of the work."""
    if not _are_opposite(rows):
        return _times(rows, vectors)
    plus, minus = rows
    even = _scaled(*_form((plus + minus) / 2, vectors))
    if not (plus - minus).any():  # a single tap has no odd part
        return [even, even]
    odd, odd_scale = _form((plus - minus) / 2, vectors)
    return [_add(even, odd, odd_scale), _add(even, odd, -odd_scale)]


def _times_paired_columns(
    matrix: Array, groups: Sequence[Sequence[int]], vectors: Sequence[Lanes]
) -> list[Lanes]:
    """Return ``matrix @ vectors``; some *groups* of columns are equal or opposite in each row."""
    matrix, vectors = matrix.copy(), list(vectors)
    for group in groups:
        if not _are_opposite(matrix[:, list(group)].T):
            continue
        first, second = group
        plus, minus = matrix[:, first].copy(), matrix[:, second].copy()
        matrix[:, first], matrix[:, second] = (plus + minus) / 2, (plus - minus) / 2
        left, right = vectors[first], vectors[second]
        vectors[first], vectors[second] = left + right, left - right
    return _times(matrix, vectors)


def _are_opposite(rows: Array) -> bool:
    """Return whether these are two rows that differ in the signs of some elements, not of all."""
    return len(rows) == 2 and np.array_equal(*np.abs(rows)) and bool(np.sum(rows, axis=0).any())


def _times(matrix: Array, vectors: Sequence[Lanes]) -> list[Lanes]:
    """Return ``matrix @ vectors``."""
    return [_scaled(*_form(row, vectors)) for row in matrix]


def _form(coefficients: Array, vectors: Sequence[Lanes]) -> tuple[Lanes, float]:
    """Return ``v`` and ``s`` such that ``s v`` is the sum of *coefficients* times *vectors*.

    One coefficient of v is 1: that of s v which is nearest to 1 in magnitude.
    """
    used = [index for index in range(len(vectors)) if coefficients[index]]
    start = min(used, key=lambda index: abs(abs(np.log2(abs(coefficients[index])))))
    scale = float(coefficients[start])
    total = vectors[start]
    for index in used:
        if index != start:
            total = _add(total, vectors[index], float(coefficients[index]) / scale)
    return total, scale


def _scaled(vector: Lanes, scale: float) -> Lanes:
    return vector if scale == 1.0 else vector * scale


def _add(total: Lanes, vector: Lanes, factor: float) -> Lanes:
    """Return ``total + factor * vector``."""
    if factor == 1.0:
        return total + vector
    if factor == -1.0:
        return total - vector
    return vector.multiply_add(factor, total)
