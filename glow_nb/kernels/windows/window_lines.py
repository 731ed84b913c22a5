"""Windows along one dimension: a line of vectors reduced tap by tap, or by scans.

The scans are those of van Herk, and of Gil and Werman. The line, with its padding, is cut into
blocks as long as the window, so that a window is the end of one block and the beginning of the
next::

    cells     a b c d | e f g h          a window of four:  c d + e f
    suffixes  of the first block: a b c d, b c d, c d, d
    prefixes  of the second one:  e, e f, e f g

Each cell is added twice, and each result takes one addition more, whatever the length of the
window. Nothing is subtracted: sums are as exact as those of the taps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glow_nb.kernels.windows.pool_windows import Fold, Windows
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import SourceWriter

FEW_TAPS = 8
"""Taps of windows that see no padding are written out by the compiler, if there are no more."""

Read = Callable[[str], str]
"""Returns the load of the vector of a cell."""
Emit = Callable[[str, str], None]
"""Writes what becomes of the result of a window: its index, and the total."""


@dataclass(frozen=True)
class Line:
    """The windows along one dimension whose cells are vectors.

    Attributes:
        windows: The windows of the pool.
        axis: The dimension.
        fold: How cells are combined.
        lanes: Elements of a vector.
        kept: Where the scans keep their suffixes, in elements of ``work``.
    """

    windows: Windows
    axis: int
    fold: Fold
    lanes: int
    kept: int

    def write_taps(self, out: SourceWriter, steps: str, read: Read, emit: Emit) -> None:
        """Write a loop over the windows in the range *steps* with a loop over the taps of each."""
        axis = self.axis
        with out.block(f"for o{axis} in range({steps}):"):
            begin, end = self.windows.write_bounds(out, axis, f"o{axis}")
            out.line(f"total = {self.fold.start(self.lanes)}")
            inside, taps = self.windows.limits_inside(axis), self.windows.kernel[axis]
            if inside is not None and self.windows.is_clipped(axis) and taps <= FEW_TAPS:
                with out.block(f"if {inside[0]} <= o{axis} and o{axis} < {inside[1]}:"):
                    self._write_total(out, ("0", str(taps)), read)
                with out.block("else:"):
                    self._write_total(out, (begin, end), read)
            else:
                self._write_total(out, (begin, end), read)
            emit(f"o{axis}", "total")

    def _write_total(self, out: SourceWriter, taps: tuple[str, str], read: Read) -> None:
        """Write the loop over the *taps* of a window from one to before another."""
        axis, step = self.axis, self.windows.dilation[self.axis]
        with out.block(f"for k{axis} in range({', '.join(taps)}):"):
            self.fold.write(out, "total", read(plus(f"cell{axis}", times(f"k{axis}", step))))

    def write_scans(self, out: SourceWriter, first: str, end: str, read: Read, emit: Emit) -> None:
        """Write a loop over the blocks of the windows from *first* to before *end*."""
        axis = self.axis
        taps, stride = self.windows.kernel[axis], self.windows.stride[axis]
        start, stop = times(f"({first})", stride), times(f"({end} - 1)", stride)
        with out.block(f"for block{axis} in range({start}, {stop} + 1, {taps}):"):
            out.line(f"base = {plus(f'block{axis}', -self.windows.begins[axis])}")
            self._write_suffixes(out, read)
            out.line(f"total = {self.fold.start(self.lanes)}")
            out.line(f"following = max(0, base + {taps})")
            begin, behind = f"block{axis}", f"block{axis} + {taps}"
            if stride > 1:
                begin = f"({begin} + {stride - 1}) // {stride}"
                behind = f"({behind} + {stride - 1}) // {stride}"
            with out.block(f"for o{axis} in range({begin}, min({end}, {behind})):"):
                place = index_text([f"o{axis}"], [stride], -self.windows.begins[axis])
                out.line(f"cell{axis} = {place}")
                last = f"cell{axis} + {taps}"
                if self.windows.is_clipped(axis):
                    last = f"min({self.windows.size[axis]}, {last})"
                with out.block(f"for cell in range(following, {last}):"):
                    self.fold.write(out, "total", read("cell"))
                out.line(f"following = max(following, {last})")
                kept = self._suffix(f"(cell{axis} - base)")
                self.fold.write(out, f"load(work, {kept}, {self.lanes})", "total", "joined")
                emit(f"o{axis}", "joined")

    def _write_suffixes(self, out: SourceWriter, read: Read) -> None:
        """Write what the cells of the block from each on to its end come to."""
        taps, size = self.windows.kernel[self.axis], self.windows.size[self.axis]
        is_clipped = self.windows.is_clipped(self.axis)
        out.line(f"total = {self.fold.start(self.lanes)}")
        begin, behind = "base", f"min(base + {taps}, {size})"
        if is_clipped:
            begin = "max(0, base)"
            with out.block(f"for place in range(max(0, {behind} - base), {taps}):"):
                out.line(f"store(work, {self._suffix('place')}, total)")
        with out.block(f"for cell in range({behind} - 1, {begin} - 1, -1):"):
            self.fold.write(out, read("cell"), "total")
            out.line(f"store(work, {self._suffix('(cell - base)')}, total)")
        if is_clipped:
            with out.block(f"for place in range(min({taps}, {begin} - base)):"):
                out.line(f"store(work, {self._suffix('place')}, total)")

    def _suffix(self, place: str) -> str:
        """Return where in ``work`` the suffix lies that begins at *place* in its block."""
        return plus(index_text([place], [self.lanes]), self.kept)
