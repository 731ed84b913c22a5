"""Copying a rectangle of pixels out of an image, with zeros around it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.simd.memory import are_literal, clear_elements, copy_elements, literal, to_index
from glow_nb.simd.types import INDEX, Pointer


@intrinsic(prefer_literal=True)
def copy_patch(
    typing: Any,
    dest: Any,
    source: Any,
    image: Any,
    top: Any,
    left: Any,
    height: Any,
    width: Any,
    channels: Any,
    high: Any,
    wide: Any,
) -> Any:
    """``copy_patch(p, q, image, top, left, height, width, channels, high, wide)``.

    Copy the high x wide pixels at row *top* and column *left*, which may be negative, of image
    number *image* of ``q[images, height, width, channels]`` to p; outside the image are zeros.
    """
    sizes = (height, width, channels, high, wide)
    if not (isinstance(dest, Pointer) and dest == source and are_literal(*sizes)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, first, column = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (2, 3, 4)
        )
        zero, rows, columns, depth, *window = (
            ir.Constant(INDEX, size) for size in (0, *map(literal, sizes))
        )

        def clipped(pixel: Any) -> Any:
            """Clip a column of the image to the patch, and return its first element there."""
            pixel = _choose(builder, ">", builder.sub(pixel, column), zero)
            return builder.mul(_choose(builder, "<", pixel, window[1]), depth)

        begin, end = clipped(zero), clipped(columns)
        line = builder.mul(window[1], depth)
        with cgutils.for_range(builder, window[0], intp=INDEX) as loop:
            row = builder.add(first, loop.index)
            place = builder.mul(loop.index, line)
            is_inside = builder.icmp_unsigned("<", row, rows)
            pixel = builder.mul(builder.add(builder.mul(number, rows), row), columns)
            start = builder.add(builder.mul(builder.add(pixel, column), depth), begin)
            with builder.if_else(is_inside) as (inside, outside):
                with inside:
                    to, after = builder.add(place, begin), builder.add(place, end)
                    clear_elements(builder, arguments[0], dest, place, begin)
                    size = builder.sub(end, begin)
                    copy_elements(builder, arguments[0], to, arguments[1], start, dest, size)
                    clear_elements(builder, arguments[0], dest, after, builder.sub(line, end))
                with outside:
                    clear_elements(builder, arguments[0], dest, place, line)
        return context.get_dummy_value()

    return types.void(dest, source, image, top, left, *sizes), codegen


def _choose(builder: Any, sign: str, lhs: Any, rhs: Any) -> Any:
    return builder.select(builder.icmp_signed(sign, lhs, rhs), lhs, rhs)
