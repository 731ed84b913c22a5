"""Copying a rectangle of pixels out of an image, with zeros or another number around it."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from glow_nb.simd.copies import clear_elements, copy_elements
from glow_nb.simd.memory import are_literal, literal, to_index
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
    step: Any,
    high: Any,
    wide: Any,
    outside: Any,
) -> Any:
    """``copy_patch(p, q, image, top, left, height, width, channels, step, high, wide, outside)``.

    Copy the high x wide pixels at row *top* and column *left*, which may be negative, of image
    number *image* of ``q[images, height, width, channels]`` to p; outside the image is the number
    *outside*, which is 0 but for bytes. The pixels of q lie *step* elements apart, those of p side
    by side.
    """
    sizes = (height, width, channels, step, high, wide)
    if not (isinstance(dest, Pointer) and dest == source and are_literal(*sizes, outside)):
        return None
    if literal(outside) and dest.kind.size_bytes > 1:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, first, column = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (2, 3, 4)
        )
        zero, rows, columns, depth, apart, *window = (
            ir.Constant(INDEX, size) for size in (0, *map(literal, sizes))
        )

        def clipped(pixel: Any) -> Any:
            """Return the place in the patch of a column of the image, clipped to it."""
            pixel = _choose(builder, ">", builder.sub(pixel, column), zero)
            return _choose(builder, "<", pixel, window[1])

        def clear(to: Any, count: Any) -> None:
            clear_elements(builder, arguments[0], dest, to, count, literal(outside))

        def copy(to: Any, start: Any, pixels: Any) -> None:
            """Copy pixels of one row, from element *start* of the image to *to* of the patch."""
            if literal(step) == literal(channels):
                size = builder.mul(pixels, depth)
                copy_elements(builder, arguments[0], to, arguments[1], start, dest, size)
                return
            with cgutils.for_range(builder, pixels, intp=INDEX) as each:
                place = builder.add(to, builder.mul(each.index, depth))
                found = builder.add(start, builder.mul(each.index, apart))
                copy_elements(builder, arguments[0], place, arguments[1], found, dest, depth)

        first_pixel, end_pixel = clipped(zero), clipped(columns)
        begin, end = (builder.mul(pixel, depth) for pixel in (first_pixel, end_pixel))
        line = builder.mul(window[1], depth)
        with cgutils.for_range(builder, window[0], intp=INDEX) as loop:
            row = builder.add(first, loop.index)
            place = builder.mul(loop.index, line)
            is_inside = builder.icmp_unsigned("<", row, rows)
            pixel = builder.mul(builder.add(builder.mul(number, rows), row), columns)
            pixel = builder.add(builder.add(pixel, column), first_pixel)
            with builder.if_else(is_inside) as (inside, beyond):
                with inside:
                    to, after = builder.add(place, begin), builder.add(place, end)
                    clear(place, begin)
                    count = builder.sub(end_pixel, first_pixel)
                    copy(to, builder.mul(pixel, apart), count)
                    clear(after, builder.sub(line, end))
                with beyond:
                    clear(place, line)
        return context.get_dummy_value()

    return types.void(dest, source, image, top, left, *sizes, outside), codegen


def _choose(builder: Any, sign: str, lhs: Any, rhs: Any) -> Any:
    return builder.select(builder.icmp_signed(sign, lhs, rhs), lhs, rhs)
