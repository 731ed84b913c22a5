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
        windows: Those of the pool.
        fold: How elements come together.
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
        return -(-self.windows.out[-1] // self.lanes) * self.lanes

    @property
    def inside(self) -> range:
        """The windows that see no padding."""
        return self.windows.inside(len(self.windows.out) - 1)

    def write_windows(self, out: SourceWriter, emit: Emit, *, overlaps: bool) -> None:
        """Write the windows of the row that begins at ``row``; *emit* takes each block.

        When it *overlaps*, the last vector may take windows of the one before again.
        """
        for block in self._blocks(out, overlaps):
            self._write_total(out, block)
            emit(block)
        for ends in (range(self.inside.start), range(self.inside.stop, self.windows.out[-1])):
            if ends:
                self._write_ends(out, ends, emit)

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
        axis = len(self.windows.out) - 1

        def read(cell: str) -> str:
            return self._wide(f"load(src, {plus('row', cell)}, 1)")

        if len(ends) > FEW_ENDS:
            line = Line(self.windows, axis, self.fold, 1, 0)
            steps = f"{ends.start}, {ends.stop}"
            line.write_taps(out, steps, read, lambda step, _: emit(Block(step, 1)))
            return
        taps, step = self.windows.kernel[axis], self.windows.dilation[axis]
        for end in ends:
            first = end * self.windows.stride[axis] - self.windows.begins[axis]
            out.line(f"total = {self.fold.start(1)}")
            for cell in range(first, first + taps * step, step):
                if 0 <= cell < self.windows.size[axis]:
                    self.fold.write(out, "total", read(str(cell)))
            emit(Block(str(end), 1))

    def _wide(self, cells: str) -> str:
        return cells if self.kind is self.fold.kind else f"convert_{self.fold.kind.value}({cells})"
