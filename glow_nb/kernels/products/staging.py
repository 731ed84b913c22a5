"""Source text that copies what one block reads of the left operand to scratch.

*Staging* copies the input of a convolution once for each block of units, between what counts as
outside, which is mostly zeros, and widens it if it is multiplied as a wider kind; for matrix
registers, the copy has a plane for each cache line of a pixel. *Packing* copies
what the pixels of a block read in one inner block of the sum, pixel after pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from math import prod

from glow_nb.base.size import symbols_of
from glow_nb.kernels.products.inner_blocks import input_distances
from glow_nb.kernels.products.loops import Loops, block_pixels, plane_elements
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


def write_staging(out: SourceWriter, nest: ProductNest, loops: Loops, input: str) -> None:
    """Copy what ``count`` units of image ``image`` read, from unit ``first`` on, to ``rows``.

    Args:
        out: Receives the lines.
        nest: The convolution.
        loops: The loops.
        input: Name of the pointer to the input.
    """
    if nest.shape.rank == 1:
        _write_line(out, nest, loops, input)
        return
    shape = nest.shape
    low, size = shape.begins[0], shape.input[0]
    rows = plus(times("(count - 1)", shape.stride[0]), shape.reach[0])
    with out.block(f"for row in range({rows}):"):
        out.line(f"y = {plus(times('first', shape.stride[0]), 'row', -low)}")
        inside = f"0 <= y < {size}"
        if shape.rank == 2:
            _write_row(out, nest, loops, input, inside, "row", "y")
            return
        with out.block(f"for column in range({shape.needed[1]}):"):
            out.line(f"z = {plus('column', -shape.begins[1])}")
            inside += f" and 0 <= z < {shape.input[1]}"
            place = f"(row * {shape.needed[1]} + column)"
            _write_row(out, nest, loops, input, inside, place, f"(y * {shape.input[1]} + z)")


def _write_row(
    out: SourceWriter,
    nest: ProductNest,
    loops: Loops,
    input: str,
    inside: str,
    place: str,
    origin: str,
) -> None:
    """Copy row *origin* of an image to row *place* of the scratch, or write what is outside."""
    shape, pixel = nest.shape, nest.staged_pixel
    width = shape.needed[-1]
    out.line(f"to = {times(place, width * pixel)}")
    if symbols_of(width):
        _write_open_row(out, nest, loops, input, inside, origin)
        return
    left = min(shape.begins[-1], width)
    kept = max(0, min(shape.input[-1], width - left))
    right = width - left - kept
    with out.block(f"if {inside}:"):
        if left:
            _write_outside(out, nest, loops, "to", str(left))
        if kept:
            image = times("image", nest.left.image)
            source = plus(image, times(origin, shape.input[-1] * nest.left.pixel))
            _write_copy(out, nest, loops, input, plus("to", left * pixel), source, str(kept))
        if right:
            _write_outside(out, nest, loops, f"to + {(left + kept) * pixel}", str(right))
    with out.block("else:"):
        _write_outside(out, nest, loops, "to", f"{width}")


def _write_open_row(
    out: SourceWriter, nest: ProductNest, loops: Loops, input: str, inside: str, origin: str
) -> None:
    """Copy a row to ``to`` where only the run knows how much of it is needed."""
    shape, pixel = nest.shape, nest.staged_pixel
    width = shape.needed[-1]
    out.line(f"left = min({shape.begins[-1]}, {width})")
    out.line(f"kept = max(0, min({shape.input[-1]}, {width} - left))")
    out.line(f"right = {width} - left - kept")
    with out.block(f"if {inside}:"):
        _write_outside(out, nest, loops, "to", "left")
        source = plus(
            times("image", nest.left.image), times(origin, shape.input[-1] * nest.left.pixel)
        )
        _write_copy(out, nest, loops, input, plus("to", times("left", pixel)), source, "kept")
        end = plus("to", times("(left + kept)", pixel))
        _write_outside(out, nest, loops, end, "right")
    with out.block("else:"):
        _write_outside(out, nest, loops, "to", f"{width}")


def _write_line(out: SourceWriter, nest: ProductNest, loops: Loops, input: str) -> None:
    """Copy a part of the only line, whose ends may lie outside of it."""
    shape = nest.shape
    size, stride, staged = shape.input[0], shape.stride[0], nest.staged_pixel
    out.line(f"pixel_end = {loops.cut.start('(first + count)')}")
    out.line(f"y = {plus(times('pixel', stride), -shape.begins[0])}")
    out.line(f"length = {plus(times('(pixel_end - pixel - 1)', stride), shape.reach[0])}")
    out.line("left = min(max(-y, 0), length)")
    out.line(f"kept = max(min(y + length, {size}) - max(y, 0), 0)")
    if shape.is_padded:
        _write_outside(out, nest, loops, "0", "left")
    source = plus(times("image", nest.left.image), times("max(y, 0)", nest.left.pixel))
    with out.block("if kept > 0:"):
        _write_copy(out, nest, loops, input, times("left", staged), source, "kept")
    if shape.is_padded:
        end = times("(left + kept)", staged)
        _write_outside(out, nest, loops, end, "(length - left - kept)")


def _write_outside(
    out: SourceWriter, nest: ProductNest, loops: Loops, to: str, pixels: str
) -> None:
    """Write *pixels* pixels that lie outside the input."""
    count = times(pixels, nest.staged_pixel)
    with _each_plane(out, nest, loops) as (place, _):
        if nest.outside:
            out.line(f"fill(rows, {plus(to, place)}, {nest.outside}, {count})")
        else:
            out.line(f"clear(rows, {plus(to, place)}, {count})")


def _write_copy(
    out: SourceWriter,
    nest: ProductNest,
    loops: Loops,
    input: str,
    to: str,
    source: str,
    pixels: str,
) -> None:
    """Copy *pixels* neighbouring pixels, which may have gaps between them in the input only."""
    channels, pixel = nest.shape.channels, nest.left.pixel
    if pixel == channels == nest.staged_pixel and _planes(nest) == 1:
        out.line(f"copy(rows, {to}, {input}, {source}, {times(pixels, channels)})")
        return
    count = nest.plane_groups * nest.kinds.factors if nest.is_in_planes else channels
    with out.block(f"for near in range({pixels}):"):
        at = plus(to, times("near", nest.staged_pixel))
        origin = plus(source, times("near", pixel))
        with _each_plane(out, nest, loops) as (place, number):
            places = plus(at, place), plus(origin, times(number, count))
            out.line(f"copy(rows, {places[0]}, {input}, {places[1]}, {count})")


@contextmanager
def _each_plane(out: SourceWriter, nest: ProductNest, loops: Loops) -> Iterator[tuple[str, str]]:
    """Write the loop over the planes of the copy; yield where one begins, and its number."""
    planes = _planes(nest)
    if planes == 1:
        yield "0", "0"
        return
    with out.block(f"for plane in range({planes}):"):
        yield f"plane * {plane_elements(nest, loops)}", "plane"


def _planes(nest: ProductNest) -> int:
    """Return the planes of the copy: those of each group of channels, or a single one."""
    return nest.shape.group * nest.planes_per_group if nest.is_in_planes else 1


def write_packing(
    out: SourceWriter, nest: ProductNest, loops: Loops, source: str, length: str
) -> None:
    """Copy what ``count`` units read in the inner block that begins at ``shift`` to ``packed``.

    Args:
        out: Receives the lines.
        nest: The product.
        loops: The loops.
        source: Name of the pointer to the left operand or its padded copy.
        length: Expression of the steps of a dot.
    """
    shape, step = nest.shape, 1 if loops.is_staged else nest.left.step
    factors = nest.kinds.factors
    distances = [s * d for s, d in zip(shape.stride, input_distances(nest), strict=True)]
    image = "0" if loops.is_staged else times("image", nest.left.image)
    first = "0" if loops.is_staged else "pixel" if shape.rank == 1 else "first"
    if shape.rank == 1:
        out.line(f"pixels = {loops.cut.start('(first + count)')} - pixel")
    else:
        out.line(f"pixels = count * {prod(shape.output[1:])}")
    if step > 1:  # neighbours in memory are pixels: so they are in the copy
        x = plus(image, times(first, distances[0]), "shift", times("near", step))
        with out.block(f"for near in range({length}):"):
            to = times("near", block_pixels(shape, loops))
            out.line(f"copy(packed, {to}, {source}, {x}, pixels)")
        return
    with out.block("for near in range(pixels):"):
        terms = [image, times(first, distances[0]), "shift"]
        for axis, distance in enumerate(distances):
            inside = prod(shape.output[axis + 1 :])
            number = f"near // {inside}" if inside != 1 else "near"
            number += f" % {shape.output[axis]}" if axis else ""
            terms.append(times(f"({number})", distance))
        out.line(f"x = {plus(*terms)}")
        out.line(f"to = near * {loops.sum.block_products * factors}")
        x, to = "x", "to"
        with ExitStack() as stack:
            for depth, loop in enumerate(loops.sum.inner):
                tap = f"tap{depth}"
                stack.enter_context(out.block(f"for {tap} in range({loop.count}):"))
                x, to = plus(x, times(tap, loop.left)), plus(to, times(tap, loop.right * factors))
            out.line(f"copy(packed, {to}, {source}, {x}, {times(length, factors)})")
