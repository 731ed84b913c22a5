"""Products whose panels are written to scratch before they are used: a part of an inner block at a
time.

The tiles of a block of units read that part from the first-level cache, where its rows lie one
behind the other, wherever they came from.
"""

from __future__ import annotations

from math import prod

from typing_extensions import override

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.kernels.products.loops import Loops, tile_steps
from glow_nb.kernels.products.product_loops import ProductWriter
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.vectors import Block


class WrittenPanels(ProductWriter):
    """Writes a product whose tiles read ``near_panel``, which a subclass fills for each pass."""

    def __init__(self, nest: ProductNest, loops: Loops, fusion: Fusion) -> None:
        super().__init__(nest, loops, fusion)
        self.stored, self.filter = self.filter, "near_panel"
        self.row = nest.block * nest.kinds.factors
        self.near_at = -(-self.scratch_bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        elements = self.loops.sum.block_products * self.row
        self.scratch_bytes = self.near_at + elements * nest.kinds.near.size_bytes

    @override
    def _write_pointers(self) -> None:
        super()._write_pointers()
        kind = self.nest.kinds.near.value
        self.out.line(f"near_panel = as_{kind}(at(scratch, {self.near_at}))")

    @property
    @override
    def reads_whole_rows(self) -> bool:
        return self.nest.block == self.loops.columns.width  # what is after the last column is ours

    @override
    def _first_weight(self) -> str:
        return "0"

    @property
    @override
    def fetched_share(self) -> int:
        return 0


class CopiedPanels(WrittenPanels):
    """Writes a product whose right matrix is copied, and transposed if its rows lie apart."""

    @override
    def _write_lines(self, tag: str, columns: int) -> None:
        row = times("row", self.nest.right.row) if self.loops.is_cut else "0"
        first = plus("panel_start", row)
        if self.nest.right.column == 1 and self.used is not None:
            self._write_copy_of_used(first, columns, self.used)
        elif self.nest.right.column == 1:
            self._write_copy(first, columns)
        else:
            self._write_transposed(first, columns)
        if self.fetches_ahead:
            self._write_ahead()
        super()._write_lines(tag, columns)

    @property
    def fetches_ahead(self) -> bool:
        """Return whether tiles fetch what the next pass copies: it is far away, in many places."""
        return self.loops.fetch_lines is not None

    def _write_ahead(self) -> None:
        """Find where the part of the matrix begins that the next pass copies."""
        sum, right = self.loops.sum, self.nest.right
        row, panel = times("row", right.row), plus("panel_start", right.panel)
        if self.loops.panels_inside:
            self.out.line(f"ahead = {plus(panel, row)}")
            return
        below = plus("panel_start", row, sum.dot * right.row)
        last = self.parts - 1 if isinstance(self.parts, int) else f"{self.parts} - 1"
        self.out.line(f"ahead = {below} if part < {last} else {panel}")

    @override
    def _write_dot(self, name: str, x: str, w: str, columns: int) -> None:
        """Let each tile fetch its share of what the next pass copies, some lines for each piece.

        A single row may have more lines.
        """
        if self.loops.fetch_lines is None:
            super()._write_dot(name, x, w, columns)
            return
        out, steps = self.out, self.loops.sum.dot
        share, tile = -(-self._places // self._tiles_of_block), self._tile_of_block(name)
        pieces = -(-share // max(1, self.loops.fetch_lines // len(self._lines)))
        if pieces == 1:
            self._write_fetch(f"({tile})", share)
            super()._write_dot(name, x, w, columns)
            return
        length, (_, step) = -(-steps // pieces), tile_steps(self.nest, self.loops)
        with out.block(f"for piece_{name} in range({pieces}):"):
            piece = f"(({tile}) * {pieces} + piece_{name})"
            self._write_fetch(piece, -(-share // pieces))
            out.line(f"done_{name} = {times(f'piece_{name}', length)}")
            count = f"max(0, min({length}, {self._dot_length()} - done_{name}))"
            x, w = (f"{x} + done_{name} * {step}", f"{w} + done_{name} * {self.row}")
            self._write_steps(name, x, w, columns, count)

    @override
    def _write_tiles(self, tag: str, columns: int, origin: str, place: str, line: str) -> None:
        self._line = line
        super()._write_tiles(tag, columns, origin, place, line)

    def _tile_of_block(self, name: str) -> str:
        """Return the number of a tile among those of its block."""
        if self.shape.rank == 1:
            return f"tile_{name} - first"
        loop = self.loops.cut.loops[int(name[1:])]
        tile = f"tile_{name}" if loop.only is None else loop.begin
        return plus(times(self._line, self.loops.cut.tiles), tile)

    @property
    def _places(self) -> int:
        """Places from which a pass copies neighbours: rows, or columns that are transposed."""
        return self.loops.sum.dot if self.nest.right.column == 1 else self.nest.block

    @property
    def _lines(self) -> range:
        """Where the cache lines of a place begin, if one begins with it."""
        length = self.nest.block if self.nest.right.column == 1 else self.loops.sum.dot
        return range(0, length, CACHE_LINE_BYTES // self.nest.kinds.right.size_bytes)

    def _write_fetch(self, piece: str, places: int) -> None:
        """Fetch the lines of *places* places, from ``piece * places`` on."""
        right = self.nest.right
        gap = right.row if right.column == 1 else right.column
        for line in self._lines:
            place = plus("ahead", times(piece, places * gap), line)
            self.out.line(f"tile_prefetch({self.stored}, {place}, {gap}, {places})")

    def _write_copy(self, first: str, columns: int) -> None:
        """Copy the rows of a part that begins at *first*, *columns* columns of each."""
        with self.out.block(f"for near in range({self._dot_length()}):"):
            source, to = plus(first, times("near", self.nest.right.row)), times("near", self.row)
            self.out.line(f"copy(near_panel, {to}, {self.stored}, {source}, {columns})")

    def _write_copy_of_used(self, first: str, columns: int, used: str) -> None:
        """Copy the *used* columns of the rows of a part, in vectors that hold *columns* columns."""
        lanes = self.loops.lanes
        with self.out.block(f"for near in range({self._dot_length()}):"):
            source, to = plus(first, times("near", self.nest.right.row)), times("near", self.row)
            for begin in range(0, columns, lanes):
                is_last = begin + lanes >= columns
                block = Block(str(begin), lanes, plus(used, -begin) if is_last else None)
                loaded = block.load(self.stored, plus(source, begin))
                self.out.line(f"store(near_panel, {plus(to, begin)}, {loaded})")

    def _write_transposed(self, first: str, columns: int) -> None:
        """Turn over squares of a part, whose rows are neighbours in memory; then what is left.

        The last column that is in use stands for those after it, where only the run knows them.
        """
        out, lanes, length, sum = self.out, self.loops.lanes, self._dot_length(), self.loops.sum
        column, end = self.nest.right.column, f"({length}) // {lanes} * {lanes}"
        for begin in range(0, columns, lanes):
            rows = min(lanes, columns - begin)
            with out.block(f"for near in range(0, {end}, {lanes}):"):
                source = plus(first, "near", begin * column)
                size = f"{rows}, 1, {lanes}"
                square = f"tile_load({self.stored}, {source}, {column}, {size})"
                if self.used is not None and begin + lanes >= columns:
                    size += f", {plus(self.used, -begin)}"
                    square = f"tile_load_rows({self.stored}, {source}, {column}, {size})"
                to = plus(times("near", self.row), begin)
                turned = f"tile_transpose({square}, {lanes})"
                out.line(f"tile_store(near_panel, {to}, {self.row}, {turned})")
        if sum.dot % lanes == sum.whole_dot % lanes == 0:
            return
        with (
            out.block(f"for near in range({end}, {length}):"),
            out.block(f"for beside in range({self.used or columns}):"),
        ):
            to = plus(times("near", self.row), "beside")
            source = plus(first, "near", times("beside", column))
            out.line(f"copy(near_panel, {to}, {self.stored}, {source}, 1)")


class WidenedPanels(CopiedPanels):
    """Writes a product whose panels are of fewer bits than the sums: copies have those of the sums.

    Rows of a panel lie one after the other, those of an inner block as well.
    """

    @override
    def _write_copy(self, first: str, columns: int) -> None:
        rows = times(f"({self._dot_length()})", prod(loop.count for loop in self.loops.sum.inner))
        vectors, kind = self.loops.columns.vectors, self.nest.kinds.near.value
        with self.out.block(f"for near in range({rows}):"):
            to, size = times("near", self.row), f"{self.row}, 1, {vectors}, {self.loops.lanes}"
            row = f"tile_load({self.stored}, {plus(first, to)}, {size})"
            self.out.line(f"tile_store(near_panel, {to}, {self.row}, convert_{kind}({row}))")
