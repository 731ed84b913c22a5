"""Products of channels by themselves in groups of factors: one line of weights for a register tile.

The factors of each channel lie side by side, in memory and in a vector, beside those of the next
channel: what a dot brings to all lanes (:mod:`glow_nb.simd.dot`) is here another one in each.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from glow_nb.simd.lanes import Lanes
from glow_nb.simd.memory import are_literal, literal, offset, to_index
from glow_nb.simd.outer_product import Groups
from glow_nb.simd.types import INDEX, Pointer, RegisterTile, Vec

MEANING = """``{name}(t, x, i, stride, phase, phases, w, j, shift)``.

``t[r * phases + phase, v] += sum over f < {factors} of
x[i + r * stride + v * {factors} + f] * w[j + v * {factors} + f - shift]``, as far as
``0 <= f - shift < {factors}``, for every such row of t and every column v. Literals are *stride*,
*phase*, *phases* and *shift*.
"""


def taps_in(name: str, form: Groups) -> Any:
    """Return the function *name*, with products in *form*."""

    def tile_taps(
        typing: Any,
        tile: Any,
        source: Any,
        start: Any,
        stride: Any,
        phase: Any,
        phases: Any,
        weights: Any,
        index: Any,
        shift: Any,
    ) -> Any:
        if not (isinstance(tile, RegisterTile) and are_literal(stride, phase, phases, shift)):
            return None
        if not (isinstance(source, Pointer) and isinstance(weights, Pointer)):
            return None
        operands = (tile, source, start, stride, phase, phases, weights, index, shift)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = to_index(context, builder, arguments[2], signature.args[2])
            place = to_index(context, builder, arguments[7], signature.args[7])

            def vector(pointer: Any, memory: Pointer, begin: Any, column: int) -> Any:
                at = offset(builder, begin, column * tile.lanes * form.dot.group)
                return form.right(builder, (pointer, memory, at), tile, 0, None)

            value, columns = arguments[0], range(tile.vectors)
            factors = [
                form.moved(vector(arguments[6], weights, place, column), literal(shift))
                for column in columns
            ]
            for number, row in enumerate(range(literal(phase), tile.rows, literal(phases))):
                begin = builder.add(first, ir.Constant(INDEX, number * literal(stride)))
                for column in columns:
                    part = row * tile.vectors + column
                    x = vector(arguments[1], source, begin, column)
                    total = builder.extract_value(value, part)
                    total = Lanes(builder, total, tile.kind, tile.lanes)
                    total = form.add(total, x, factors[column])
                    value = builder.insert_value(value, total.value, part)
            return value

        return tile(*operands), codegen

    tile_taps.__doc__ = MEANING.format(name=name, factors=form.dot.group)
    return intrinsic(prefer_literal=True)(tile_taps)


@intrinsic
def interleave(typing: Any, left: Any, right: Any) -> Any:
    """``interleave(a, b)``: the elements of two vectors in turn, a0, b0, a1, b1, ..."""
    if not (isinstance(left, Vec) and isinstance(right, Vec) and left.name == right.name):
        return None
    lanes = left.lanes

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, second = (Lanes(builder, value, left.kind, lanes) for value in arguments)
        order = [lane // 2 + lane % 2 * lanes for lane in range(2 * lanes)]
        return first.join(second).shuffle(order).value

    return Vec(left.kind, 2 * lanes)(left, right), codegen


@intrinsic(prefer_literal=True)
def spread(typing: Any, vector: Any, size: Any, factors: Any, part: Any) -> Any:
    """``spread(v, size, factors, part)``: for each channel, of groups of *size*, some of its group.

    Elements ``k * factors + f`` of the result are ``v[k - k % size + part * factors + f]``.
    """
    if not (isinstance(vector, Vec) and are_literal(size, factors, part)):
        return None
    count, begin = literal(factors), literal(part) * literal(factors)
    order = [
        lane - lane % literal(size) + begin + factor
        for lane in range(vector.lanes)
        for factor in range(count)
    ]

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Lanes(builder, arguments[0], vector.kind, vector.lanes).shuffle(order).value

    return Vec(vector.kind, vector.lanes * count)(vector, size, factors, part), codegen
