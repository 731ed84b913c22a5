"""The inner loop of every matrix product: sums over neighbouring inputs in a register tile."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.alignment import CACHE_LINE_BYTES
from glow_nb.simd.memory import (
    address,
    are_literal,
    hint_second_level,
    literal,
    to_index,
)
from glow_nb.simd.outer_product import FORMS, MultiplyAdd, outer_product
from glow_nb.simd.types import INDEX, Pointer, RegisterTile

MEANING = """``{name}(t, x, i, stride, step, w, j, row, columns, count, ahead, pace)``.

``t[r, v] += sum over c < count, f < {factors} of x[i + r * stride + c * step + f] *
w[j + c * row + v * {factors} + f]`` for every row r and every column v below *columns*; nothing is
read for the others. Meanwhile each step brings the *pace* weights from ``w[ahead + c * pace]`` on,
which a later call reads, into the second-level cache. Literals are *stride*, *step*, *row*,
*columns* and *pace*.
"""


def dot_in(name: str, form: MultiplyAdd) -> Any:
    """Return the function *name*, with steps in *form*."""

    def tile_dot(
        typing: Any,
        tile: Any,
        source: Any,
        start: Any,
        stride: Any,
        step: Any,
        weights: Any,
        index: Any,
        row: Any,
        columns: Any,
        count: Any,
        ahead: Any,
        pace: Any,
    ) -> Any:
        if not (isinstance(tile, RegisterTile) and are_literal(stride, step, row, columns, pace)):
            return None
        if not (isinstance(source, Pointer) and isinstance(weights, Pointer)):
            return None
        operands = (
            *(tile, source, start, stride, step),
            *(weights, index, row, columns, count, ahead, pace),
        )

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first, place, length, later = (
                to_index(context, builder, arguments[number], signature.args[number])
                for number in (2, 6, 9, 10)
            )
            total = cgutils.alloca_once(builder, tile.llvm)
            builder.store(arguments[0], total)

            def ahead_of(begin: Any, each: Any, channel: Any) -> Any:
                return builder.add(begin, builder.mul(channel, ir.Constant(INDEX, literal(each))))

            with cgutils.for_range(builder, length, intp=INDEX) as loop:
                fetched = ahead_of(later, pace, loop.index)
                for offset in range(0, literal(pace), CACHE_LINE_BYTES // weights.kind.size_bytes):
                    line = builder.add(fetched, ir.Constant(INDEX, offset))
                    hint_second_level(builder, address(builder, arguments[5], line, weights.kind))
                left = (arguments[1], source, ahead_of(first, step, loop.index))
                right = (arguments[5], weights, ahead_of(place, row, loop.index))
                value = builder.load(total)
                value = outer_product(
                    builder, value, tile, left, right, literal(stride), literal(columns), form
                )
                builder.store(value, total)
            return builder.load(total)

        return tile(*operands), codegen

    tile_dot.__doc__ = MEANING.format(name=name, factors=form.factors)
    return intrinsic(prefer_literal=True)(tile_dot)


DOTS = {name: dot_in(name, form) for name, form in FORMS.items()}
"""The dots by their names, which tell the form of the steps."""
