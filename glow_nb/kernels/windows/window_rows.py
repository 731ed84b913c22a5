"""Windows along a row of neighbours: vectors of windows side by side, read where they lie.

Windows that reach into padding, at both ends of a row, are computed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from glow_nb.base.types import ElementKind
from glow_nb.kernels.windows.pool_windows import Fold, Windows
from glow_nb.kernels.windows.window_lines import Line
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, floor_power_of_two

FEW_ENDS = 4
"""Windows at one end of a row that are written one after the other."""

Emit = Callable[[Block], None]
"""Writes what becomes of the ``total`` of a block of windows."""


@dataclass(frozen=True)
class Row:
    """The windows along the last dimension of an input of one channel.

    Attributes:
        windows: The windows of the pool.
        fold: How elements are combined.
        kind: Kind of the input.
        lanes: Elements of a vector.
    """

    windows: Windows
    fold: Fold
    kind: ElementKind
    lanes: int

    @property
    def width(self) -> int:
        """Results of a row, in whole vectors."""
        return (self.windows.out[-1] + self.lanes - 1) // self.lanes * self.lanes

    @property
    def axis(self) -> int:
        """The dimension of the row."""
        return len(self.windows.out) - 1

    @property
    def inside(self) -> range:
        """The windows that see no padding."""
        return self.windows.inside(self.axis)

    def write_windows(self, out: SourceWriter, emit: Emit, *, overlaps: bool) -> None:
        """Write the windows of the row that begins at ``row``; *emit* takes each block.

        When it *overlaps*, the last vector may take windows of the one before again.
        """
        if self.windows.is_open(self.axis):
            self._write_open_windows(out, emit)
            return
        for block in self._blocks(out, overlaps):
            self._write_total(out, block)
            emit(block)
        for ends in (range(self.inside.start), range(self.inside.stop, self.windows.out[-1])):
            if ends:
                self._write_ends(out, ends, emit)

    def _write_open_windows(self, out: SourceWriter, emit: Emit) -> None:
        """Write the windows of a row of an open size: which see no padding, the run finds out."""
        limits, count = self.windows.limits_inside(self.axis), self.windows.out[self.axis]
        assert limits is not None  # an open size leaves that to the run
        out.line(f"inside = min({limits[0]}, {count})")
        out.line(f"behind = max(inside, min({count}, {limits[1]}))")
        for block in self._open_blocks(out):
            self._write_total(out, block)
            emit(block)
        if self.windows.is_clipped(self.axis):
            for steps in ("0, inside", f"behind, {count}"):
                self._write_line(out, steps, emit)

    def _open_blocks(self, out: SourceWriter) -> Iterator[Block]:
        """Yield the blocks of the windows inside, those of the rest half as wide each time."""
        with out.block(f"for c in range(inside, behind - {self.lanes - 1}, {self.lanes}):"):
            yield Block("c", self.lanes)
        lanes = self.lanes // 2
        while lanes:
            with out.block(f"if (behind - inside) & {lanes}:"):
                out.line(f"c = behind - ((behind - inside) & {2 * lanes - 1})")
                yield Block("c", lanes)
            lanes //= 2

    def _blocks(self, out: SourceWriter, overlaps: bool) -> Iterator[Block]:
        """Yield the blocks of the windows inside; what is written for each is its body."""
        first, count = self.inside.start, len(self.inside)
        whole = count // self.lanes * self.lanes
        if whole:
            with out.block(f"for c in range({first}, {first + whole}, {self.lanes}):"):
                yield Block("c", self.lanes)
        if whole and whole < count and overlaps:
            yield Block(str(first + count - self.lanes), self.lanes)
            return
        while whole < count:
            lanes = floor_power_of_two(count - whole)
            yield Block(str(first + whole), lanes)
            whole += lanes

    def _write_total(self, out: SourceWriter, block: Block) -> None:
        """Write what a block of windows that see no padding comes to."""
        windows = self.windows
        taps, step = windows.kernel[-1], windows.dilation[-1]
        start = index_text([f"({block.column})"], [windows.stride[-1]], -windows.begins[-1])
        out.line(f"start = {plus('row', start)}")
        out.line(f"total = {self.fold.start(block.lanes)}")
        with out.block(f"for tap in range({taps}):"):
            place = plus("start", times("tap", step))
            cells = f"load_steps(src, {place}, {windows.stride[-1]}, {block.lanes})"
            if windows.stride[-1] == 1:
                cells = f"load(src, {place}, {block.lanes})"
            self.fold.write(out, "total", self._wide(cells))

    def _write_ends(self, out: SourceWriter, ends: range, emit: Emit) -> None:
        """Write windows that may reach into padding, a few of them without a loop."""
        if len(ends) > FEW_ENDS:
            self._write_line(out, f"{ends.start}, {ends.stop}", emit)
            return
        taps, step = self.windows.kernel[self.axis], self.windows.dilation[self.axis]
        for end in ends:
            first = end * self.windows.stride[self.axis] - self.windows.begins[self.axis]
            out.line(f"total = {self.fold.start(1)}")
            for cell in range(first, first + taps * step, step):
                if 0 <= cell < self.windows.size[self.axis]:
                    self.fold.write(out, "total", self._read(str(cell)))
            emit(Block(str(end), 1))

    def _write_line(self, out: SourceWriter, steps: str, emit: Emit) -> None:
        """Write a loop over the windows of the range *steps*, one by one."""
        line = Line(self.windows, self.axis, self.fold, 1, 0)
        line.write_taps(out, steps, self._read, lambda step, _: emit(Block(step, 1)))

    def _read(self, cell: str) -> str:
        return self._wide(f"load(src, {plus('row', cell)}, 1)")

    def _wide(self, cells: str) -> str:
        return cells if self.kind is self.fold.kind else f"convert_{self.fold.kind.value}({cells})"
