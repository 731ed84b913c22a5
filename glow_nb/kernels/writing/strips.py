"""Lines across a tensor, a strip of neighbouring ones at a time in scratch.

Neighbours along a line lie far apart, and a vector of a few lines takes a small part of many rows:
memory is slow at that. So whole pieces of rows are copied to scratch, all walks go over the copy,
and results, which replace it, are copied back. ::

    src    . . a0 b0 c0 d0 . .           strip   a0 b0 c0 d0
           . . a1 b1 c1 d1 . .     ->            a1 b1 c1 d1
           . . a2 b2 c2 d2 . .                   a2 b2 c2 d2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.streams import line_elements, write_streamed_copy
from glow_nb.kernels.writing.vectors import Block, Site, floor_power_of_two
from glow_nb.kernels.writing.walks import Walk


@dataclass(frozen=True)
class Strips:
    """How the lines of a tensor are cut into strips.

    Attributes:
        lines: The lines; there are more of them side by side than a strip has.
        kind: Kind of the elements.
        width: Lines of a strip, whole vectors.
        walk: The walk over a strip, whose tensors are called ``dest`` and ``src``, and ``ahead``
            where the next strip comes from.
        streams: Results go past the caches.
    """

    lines: Lines
    kind: ElementKind
    width: int
    walk: Walk
    streams: bool

    @classmethod
    def of(
        cls, lines: Lines, kind: ElementKind, lanes: int, target: Target, *, streams: bool
    ) -> Strips | None:
        """Return the strips that suit a tensor of *lines*; None if it does well without.

        Args:
            lines: All lines along the axis.
            kind: Kind of the elements.
            lanes: Elements of a vector.
            target: Decides the width of a strip.
            streams: Results may go past the caches, if pieces are long enough.
        """
        machine = target.machine
        row_bytes = lines.inner * kind.size_bytes
        size_bytes = lines.outer * lines.count * row_bytes
        most = min(
            machine.max_strip_bytes,
            machine.l2_bytes // machine.l2_strip_divisor // max(lines.count, 1),
        )
        piece_bytes = floor_power_of_two(max(1, min(most, row_bytes)))
        width = piece_bytes // kind.size_bytes
        if (
            size_bytes <= machine.l2_bytes
            or piece_bytes < machine.min_strip_bytes
            or width <= lanes
        ):
            return None
        strides = (width + line_elements(kind), 1)
        ahead = (lines.inner, 1)
        tensors: dict[str, tuple[int, ...]] = {"dest": strides, "src": strides, "ahead": ahead}
        walk = Walk.over((lines.count, width), (0,), tensors, lanes)
        return cls(lines, kind, width, walk, streams and piece_bytes == machine.max_strip_bytes)

    @property
    def pitch(self) -> int:
        """Elements of the strip from row to row: rows a power of two apart would be in the way."""
        return self.width + line_elements(self.kind)

    @property
    def scratch_bytes(self) -> int:
        """Size of a strip in scratch."""
        return self.lines.count * self.pitch * self.kind.size_bytes

    def places(self, out: SourceWriter) -> Iterator[Site]:
        """Write loops over the strips and their places; what is written for a place is its body."""
        lines, kind, width, pitch = self.lines, self.kind.value, self.width, self.pitch
        out.line("from_src = src")
        out.line("to_dest = dest")
        out.line(f"src = as_{kind}(scratch)")
        out.line("dest = src")
        with loops(out, [lines.outer, -(-lines.inner // width)], shared=True) as (plane, strip):
            out.line(f"count = min({width}, {lines.inner} - {times(strip, width)})")
            start = plus(times(plane, lines.count * lines.inner), times(strip, width))
            out.line(f"strip_at = {start}")
            with out.block(f"for row in range({lines.count}):"):
                out.line(f"row_at = strip_at + row * {lines.inner}")
                out.line(f"copy(src, row * {pitch}, from_src, row_at, count)")
            with out.block(f"for dest_at in range(0, {width}, {self.walk.lanes}):"):
                out.line("src_at = dest_at")
                out.line(f"ahead_at = strip_at + {width} + dest_at")
                places = {name: f"{name}_at" for name in self.walk.names}
                yield Site(Block("dest_at", self.walk.lanes), places)
            with out.block(f"for row in range({lines.count}):"):
                out.line(f"row_at = strip_at + row * {lines.inner}")
                self._write_result(out)
        if self.streams:
            out.line("fence()")

    def ask_ahead(self, out: SourceWriter, site: Site) -> None:
        """Write requests for the same elements of the next strip, in a walk over this one."""
        for lane in range(0, site.lanes, line_elements(self.kind)):
            out.line(f"prefetch(from_src, {plus(site.places['ahead'], lane)})")

    def _write_result(self, out: SourceWriter) -> None:
        """Write the copy of a row of the strip to the result."""
        if self.streams:
            out.line(f"piece = at(src, row * {self.pitch})")
            write_streamed_copy(out, self.kind, "at(to_dest, row_at)", "piece", "count")
        else:
            out.line(f"copy(to_dest, row_at, src, row * {self.pitch}, count)")
