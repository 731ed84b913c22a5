"""Source text of the loops over chunks of pixels, and over the lines that a chunk reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from glow_nb.base.size import symbols_of
from glow_nb.kernels.products.filter_gradient_plan import TapAxis
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


class ChunkWriter:
    """Writes loops over the chunks of a gradient ``[image, z, y, x, channel]``.

    A *plane* is one z of an image. The names ``line`` and ``stop`` are the lines of a chunk among
    those of all planes, ``x_begin`` and ``x_end`` its pixels of a line; ``first_pixel`` and
    ``pixels`` say where it lies in memory.
    """

    def __init__(
        self, out: SourceWriter, axes: Sequence[TapAxis], chunk_lines: int, pieces: int
    ) -> None:
        self.out, self.chunk_lines, self.pieces = out, chunk_lines, pieces
        self.deep, self.high, self.wide = axes
        self.planes = 1  # of open heights chunks end with their plane
        if not symbols_of(self.high.outputs):
            self.planes = max(1, chunk_lines // max(1, self.high.outputs))

    @property
    def plane_lines(self) -> int:
        """The most input lines of a plane that a chunk meets."""
        high = self.high
        return _at_most(high.inputs, high.needed(_at_most(high.outputs, self.chunk_lines)))

    @property
    def slab_lines(self) -> int:
        """The most input lines that a chunk meets."""
        return self.planes * self.plane_lines

    def slab_width(self, *, pads: bool) -> int:
        """Return the most inputs of a line that a chunk meets, with those in padding if *pads*."""
        needed = self.wide.needed(-(-self.wide.outputs // self.pieces))
        return needed if pads else _at_most(self.wide.inputs, needed)

    @property
    def input_width(self) -> int:
        """Inputs of a line in memory."""
        return self.wide.memory

    @contextmanager
    def each(self, begin: str, end: str) -> Iterator[None]:
        """Loop over the chunks of the lines from *begin* to *end*."""
        out, high, width = self.out, self.high.outputs, self.wide.outputs
        out.line(f"line = {begin}\nline_end = {end}")
        with out.block("while line < line_end:"):
            whole = f"(line // {high} + {self.planes}) * {high}"
            out.line(f"stop = min(min(line + {self.chunk_lines}, {whole}), line_end)")
            out.line(f"plane_begin = line // {high}\nplane_end = (stop - 1) // {high} + 1")
            if self.pieces == 1:
                out.line(f"x_begin = 0\nx_end = {width}")
                out.line(f"first_pixel = line * {width}\npixels = (stop - line) * {width}")
                yield
            else:
                with out.block(f"for piece in range({self.pieces}):"):
                    out.line(f"x_begin = piece * {width} // {self.pieces}")
                    out.line(f"x_end = (piece + 1) * {width} // {self.pieces}")
                    out.line(f"first_pixel = line * {width} + x_begin\npixels = x_end - x_begin")
                    yield
            out.line("line = stop")

    @property
    def inputs_met(self) -> tuple[str, str]:
        """The first input of a line that the chunk meets and the one after the last."""
        return _inputs(self.wide, "x_begin", "x_end", is_whole=self.pieces == 1)

    @contextmanager
    def input_lines(self) -> Iterator[None]:
        """Loop over the input lines that the chunk meets; find ``slab_line`` and ``input_line``."""
        out = self.out
        with self._planes(), out.block("for y in range(y_begin, y_end):"):
            out.line(f"slab_line = (plane - plane_begin) * {self.plane_lines} + y - y_begin")
            out.line(f"input_line = {self._input_line('y')}")
            yield

    def _input_line(self, y: str) -> str:
        """Return which line of the input in memory is line *y* of the plane."""
        deep, high = self.deep, self.high
        plane = f"(plane // {deep.outputs} * {deep.memory} + z)" if self._has_depth else "plane"
        return plus(times(plane, high.memory), times(y, high.step), high.offset)

    @contextmanager
    def output_lines(self) -> Iterator[None]:
        """Loop over the lines of the chunk that meet ``tap1``; find the inputs that they meet.

        These are line ``slab_line`` of what :meth:`input_lines` runs over, and ``input_line`` of
        the input; ``chunk_line`` is the number of the line in the chunk.
        """
        out, high = self.out, self.high
        with self._planes():
            self.write_outputs(1)
            with out.block("for o in range(low, high):"):
                y = plus(times("o", high.stride), times("tap1", high.dilation), -high.begin)
                out.line(f"y = {y}")
                out.line(f"slab_line = (plane - plane_begin) * {self.plane_lines} + y - y_begin")
                out.line(f"input_line = {self._input_line('y')}")
                out.line(f"chunk_line = plane * {high.outputs} + o - line")
                yield

    @property
    def _has_depth(self) -> bool:
        return not (self.deep.is_plain and self.deep.outputs == 1)

    @contextmanager
    def _planes(self) -> Iterator[None]:
        """Loop over the planes of the chunk that meet ``tap0``; find the lines of inputs."""
        out, deep, high = self.out, self.deep, self.high
        with out.block("for plane in range(plane_begin, plane_end):"):
            if self._has_depth:
                z = times(f"(plane % {deep.outputs})", deep.stride)
                out.line(f"z = {plus(z, times('tap0', deep.dilation), -deep.begin)}")
                with out.block(f"if not 0 <= z < {deep.inputs}:"):
                    out.line("continue")
                out.line(f"z = {plus(times('z', deep.step), deep.offset)}")
            out.line(f"top = max(line - plane * {high.outputs}, 0)")
            out.line(f"bottom = min(stop - plane * {high.outputs}, {high.outputs})")
            begin, end = _inputs(high, "top", "bottom", is_whole=False)
            out.line(f"y_begin = {begin}\ny_end = {end}")
            yield

    def write_outputs(self, axis: int) -> None:
        """Write which outputs of the chunk meet a tap: ``o_begin`` and ``o_end``, or of lines."""
        along, low, high, begin, end = (
            (self.high, "low", "high", "top", "bottom")
            if axis == 1
            else (self.wide, "o_begin", "o_end", "x_begin", "x_end")
        )
        shift = plus(times(f"tap{axis}", along.dilation), -along.begin)
        if along.stride == 1:
            self.out.line(f"{low} = max({begin}, -({shift}))")
            self.out.line(f"{high} = min({end}, {along.inputs} - ({shift}))")
            return
        self.out.line(f"{low} = max({begin}, -(({shift}) // {along.stride}))")
        last = f"({along.inputs - 1} - ({shift})) // {along.stride} + 1"
        self.out.line(f"{high} = min({end}, {last})")


def _at_most(size: int, bound: int) -> int:
    """Return the smaller one, or the *bound* where only the run knows which one that is."""
    return bound if symbols_of(size, bound) else min(size, bound)


def _inputs(axis: TapAxis, begin: str, end: str, *, is_whole: bool) -> tuple[str, str]:
    """Return the inputs that the outputs from *begin* to *end* of *axis* meet."""
    if is_whole:
        last = axis.needed(axis.outputs) - axis.begin
        if symbols_of(axis.inputs, last):
            return "0", f"max(0, min({axis.inputs}, {last}))"
        return "0", str(max(0, min(axis.inputs, last)))
    first = plus(times(begin, axis.stride), -axis.begin)
    last_text = plus(times(end, axis.stride), axis.reach - axis.stride - axis.begin)
    return f"max({first}, 0)", f"min({last_text}, {axis.inputs})"
