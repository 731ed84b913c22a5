"""Source text that copies what one block reads of the left operand to scratch.

*Staging* copies the input of a convolution once for each block of units, between what counts as
outside, which is mostly zeros, and widens it if it is multiplied as a wider kind. *Packing* copies
what the pixels of a block read in one inner block of the sum, pixel after pixel.
"""

from __future__ import annotations

from contextlib import ExitStack
from math import prod

from glow_nb.base.size import symbols_of
from glow_nb.kernels.products.inner_blocks import input_distances
from glow_nb.kernels.products.loops import Loops, block_pixels
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


def write_staging(out: SourceWriter, nest: ProductNest, loops: Loops, input: str) -> None:
    """Copy what ``count`` units of image ``image`` read, from unit ``first`` on, to ``rows``.

    Args:
        out: Receives the lines.
        nest: The convolution.
        loops: How it is cut up.
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
            _write_row(out, nest, input, inside, "row", "y")
            return
        with out.block(f"for column in range({shape.needed[1]}):"):
            out.line(f"z = {plus('column', -shape.begins[1])}")
            inside += f" and 0 <= z < {shape.input[1]}"
            place = f"(row * {shape.needed[1]} + column)"
            _write_row(out, nest, input, inside, place, f"(y * {shape.input[1]} + z)")


def _write_row(
    out: SourceWriter, nest: ProductNest, input: str, inside: str, place: str, origin: str
) -> None:
    """Copy row *origin* of an image to row *place* of the scratch, or write what is outside."""
    shape, channels = nest.shape, nest.shape.channels
    width = shape.needed[-1]
    out.line(f"to = {times(place, width * channels)}")
    if symbols_of(width):
        _write_open_row(out, nest, input, inside, origin)
        return
    left = min(shape.begins[-1], width)
    kept = max(0, min(shape.input[-1], width - left))
    right = width - left - kept
    with out.block(f"if {inside}:"):
        if left:
            _write_outside(out, nest, "to", str(left * channels))
        if kept:
            image = times("image", nest.left.image)
            source = plus(image, times(origin, shape.input[-1] * nest.left.pixel))
            _write_copy(out, nest, input, plus("to", left * channels), source, str(kept))
        if right:
            _write_outside(out, nest, f"to + {(left + kept) * channels}", str(right * channels))
    with out.block("else:"):
        _write_outside(out, nest, "to", f"{width * channels}")


def _write_open_row(
    out: SourceWriter, nest: ProductNest, input: str, inside: str, origin: str
) -> None:
    """Copy a row to ``to`` where only the run knows how much of it is needed."""
    shape, channels = nest.shape, nest.shape.channels
    width = shape.needed[-1]
    out.line(f"left = min({shape.begins[-1]}, {width})")
    out.line(f"kept = max(0, min({shape.input[-1]}, {width} - left))")
    out.line(f"right = {width} - left - kept")
    with out.block(f"if {inside}:"):
        _write_outside(out, nest, "to", times("left", channels))
        source = plus(
            times("image", nest.left.image), times(origin, shape.input[-1] * nest.left.pixel)
        )
        _write_copy(out, nest, input, plus("to", times("left", channels)), source, "kept")
        end = plus("to", times("(left + kept)", channels))
        _write_outside(out, nest, end, times("right", channels))
    with out.block("else:"):
        _write_outside(out, nest, "to", f"{width * channels}")


def _write_line(out: SourceWriter, nest: ProductNest, loops: Loops, input: str) -> None:
    """Copy a part of the only line, whose ends may lie outside of it."""
    shape = nest.shape
    size, channels, stride = shape.input[0], shape.channels, shape.stride[0]
    out.line(f"pixel_end = {loops.cut.start('(first + count)')}")
    out.line(f"y = {plus(times('pixel', stride), -shape.begins[0])}")
    out.line(f"length = {plus(times('(pixel_end - pixel - 1)', stride), shape.reach[0])}")
    out.line("left = min(max(-y, 0), length)")
    out.line(f"kept = max(min(y + length, {size}) - max(y, 0), 0)")
    left = times("left", channels)
    if shape.is_padded:
        _write_outside(out, nest, "0", left)
    source = plus(times("image", nest.left.image), times("max(y, 0)", nest.left.pixel))
    with out.block("if kept > 0:"):
        _write_copy(out, nest, input, left, source, "kept")
    if shape.is_padded:
        end, rest = times("(left + kept)", channels), times("(length - left - kept)", channels)
        _write_outside(out, nest, end, rest)


def _write_outside(out: SourceWriter, nest: ProductNest, to: str, count: str) -> None:
    """Write *count* elements that lie outside the input."""
    if nest.outside:
        out.line(f"fill(rows, {to}, {nest.outside}, {count})")
    else:
        out.line(f"clear(rows, {to}, {count})")


def _write_copy(
    out: SourceWriter, nest: ProductNest, input: str, to: str, source: str, pixels: str
) -> None:
    """Copy so many neighbouring pixels, which may have gaps between them in the input only."""
    channels, pixel = nest.shape.channels, nest.left.pixel
    if pixel == channels:
        out.line(f"copy(rows, {to}, {input}, {source}, {times(pixels, channels)})")
        return
    with out.block(f"for near in range({pixels}):"):
        places = (plus(to, times("near", channels)), plus(source, times("near", pixel)))
        out.line(f"copy(rows, {places[0]}, {input}, {places[1]}, {channels})")


def write_packing(
    out: SourceWriter, nest: ProductNest, loops: Loops, source: str, length: str
) -> None:
    """Copy what ``count`` units read in the inner block that begins at ``shift`` to ``packed``.

    Args:
        out: Receives the lines.
        nest: The product.
        loops: How it is cut up.
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
