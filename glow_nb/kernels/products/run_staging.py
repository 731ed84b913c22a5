"""Source text that copies the runs of a convolution to scratch (see :mod:`.matrix_rows`)."""

from __future__ import annotations

from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops, plane_elements
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


def write_run_staging(out: SourceWriter, nest: ProductNest, loops: Loops, input: str) -> None:
    """Copy the runs that ``count`` lines of image ``image`` read, from line ``first`` on.

    Each line of the input is copied between what counts as outside first, to the end of the
    scratch; of that, each output's run, with zeros after it.
    """
    shape, whole = nest.shape, nest.runs_of
    assert whole is not None
    rows = plus(times("(count - 1)", shape.stride[0]), shape.reach[0])
    line_at = nest.planes_per_group * plane_elements(nest, loops)
    with out.block(f"for row in range({rows}):"):
        out.line(f"y = {plus(times('first', shape.stride[0]), 'row', -shape.begins[0])}")
        with out.block(f"if 0 <= y < {shape.input[0]}:"):
            _write_line(out, nest, whole, input, line_at)
        with out.block("else:"):
            _write_outside(out, nest, str(line_at), whole.needed[-1] * whole.channels)
        run = whole.kernel[-1] * whole.channels
        with out.block(f"for near in range({shape.output[-1]}):"):
            to = times(f"(row * {shape.output[-1]} + near)", nest.staged_pixel)
            source = plus(times("near", whole.stride[-1] * whole.channels), line_at)
            piece = nest.plane_groups * nest.kinds.factors
            for plane in range(nest.planes_per_group):
                at = plus(to, plane * plane_elements(nest, loops))
                size = f"{nest.staged_pixel}, {min(piece, run - plane * piece)}"
                part = f"load_masked(rows, {plus(source, plane * piece)}, {size})"
                out.line(f"store(rows, {at}, {part})")


def _write_line(
    out: SourceWriter, nest: ProductNest, whole: ConvolutionShape, input: str, line_at: int
) -> None:
    """Copy line ``y`` of the input, as much as is needed, between what is outside."""
    channels, pixel, width = whole.channels, nest.left.pixel, whole.needed[-1]
    out.line(f"left = min({whole.begins[-1]}, {width})")
    out.line(f"kept = max(0, min({whole.input[-1]}, {width} - left))")
    _write_outside(out, nest, str(line_at), times("left", channels))
    source = plus(times("image", nest.left.image), times("y", whole.input[-1] * pixel))
    at = plus(times("left", channels), line_at)
    if pixel == channels:
        out.line(f"copy(rows, {at}, {input}, {source}, {times('kept', channels)})")
    else:
        with out.block("for near in range(kept):"):
            places = plus(at, times("near", channels)), plus(source, times("near", pixel))
            out.line(f"copy(rows, {places[0]}, {input}, {places[1]}, {channels})")
    end = plus(times("(left + kept)", channels), line_at)
    _write_outside(out, nest, end, times(f"({width} - left - kept)", channels))


def _write_outside(out: SourceWriter, nest: ProductNest, to: str, count: int | str) -> None:
    """Write the elements that lie outside the input."""
    if nest.outside:
        out.line(f"fill(rows, {to}, {nest.outside}, {count})")
    else:
        out.line(f"clear(rows, {to}, {count})")
