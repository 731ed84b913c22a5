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
    down: Any,
    across: Any,
    outside: Any,
) -> Any:
    """``copy_patch(p, q, image, top, left, <sizes>, down, across, outside)``.

    Copy high x wide pixels, *down* rows and *across* columns apart, from row *top* and column
    *left* on, which may be negative, of image number *image* of
    ``q[images, height, width, channels]`` to p; outside the image is the number *outside*, which is
    0 but for bytes. Pixels of q that are neighbours lie *step* elements apart, those of p side by
    side. The sizes are height, width, channels, step, high and wide; height and width may be what
    only the run knows.
    """
    sizes = (height, width, channels, step, high, wide, down, across)
    is_known = are_literal(*sizes[2:], outside)
    if not (isinstance(dest, Pointer) and dest == source and is_known):
        return None
    if literal(outside) and dest.kind.size_bytes > 1:
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, first, column = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (2, 3, 4)
        )
        rows, columns = (
            to_index(context, builder, arguments[k], signature.args[k]) for k in (5, 6)
        )
        zero, depth, apart, lines, most, rows_apart, apart_across = (
            ir.Constant(INDEX, size) for size in (0, *map(literal, sizes[2:]))
        )
        step_across = literal(step) * literal(across)

        def clipped(pixel: Any) -> Any:
            """Return the place in the patch of a column of the image, clipped to it."""
            pixel = _choose(builder, ">", builder.sub(pixel, column), zero)
            rounded_up = builder.add(pixel, ir.Constant(INDEX, literal(across) - 1))
            return _choose(builder, "<", builder.udiv(rounded_up, apart_across), most)

        def clear(to: Any, count: Any) -> None:
            clear_elements(builder, arguments[0], dest, to, count, literal(outside))

        def copy(to: Any, start: Any, pixels: Any) -> None:
            """Copy pixels of one row, from element *start* of the image to *to* of the patch."""
            if step_across == literal(channels):
                size = builder.mul(pixels, depth)
                copy_elements(builder, arguments[0], to, arguments[1], start, dest, size)
                return
            with cgutils.for_range(builder, pixels, intp=INDEX) as each:
                place = builder.add(to, builder.mul(each.index, depth))
                found = builder.mul(each.index, ir.Constant(INDEX, step_across))
                found = builder.add(start, found)
                copy_elements(builder, arguments[0], place, arguments[1], found, dest, depth)

        first_pixel, end_pixel = clipped(zero), clipped(columns)
        begin, end = (builder.mul(pixel, depth) for pixel in (first_pixel, end_pixel))
        line = builder.mul(most, depth)
        with cgutils.for_range(builder, lines, intp=INDEX) as loop:
            row = builder.add(first, builder.mul(loop.index, rows_apart))
            place = builder.mul(loop.index, line)
            is_inside = builder.icmp_unsigned("<", row, rows)
            pixel = builder.mul(builder.add(builder.mul(number, rows), row), columns)
            pixel = builder.add(builder.add(pixel, column), builder.mul(first_pixel, apart_across))
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
