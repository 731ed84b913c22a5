"""Source text of the register tiles of a line: what is summed up, what waits, what is stored."""

from __future__ import annotations

from contextlib import nullcontext

from glow_nb.kernels.products.loops import tile_steps
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.products.tile_sums import TileSums
from glow_nb.kernels.writing.index_text import plus, times


class ProductTiles(TileSums):
    """The part of a product's writer that is inside of its loops over lines.

    Attributes:
        tiles: Where finished tiles go.
        bias: Name of the pointer to the bias, if there is one.
        rows_ahead: The prefetch distance of results, in rows.
        panels_ahead: And by how many panels.
        used: The number of columns of a panel in use, where it is known only at run time.
    """

    tiles: TileStore
    bias: list[str]
    rows_ahead: int
    panels_ahead: int
    used: str | None

    @property
    def has_open_tiles(self) -> bool:
        """Return whether only the run knows the heights of tiles whose sums wait in any case."""
        is_line = self.shape.rank == 1
        return isinstance(self.loops.cut, OpenCut) and self.loops.is_cut and is_line

    def _write_tiles(self, tag: str, columns: int, origin: str, place: str, line: str) -> None:
        """Compute the tiles of one line.

        Args:
            tag: Letter that tells names of this kind of panel from others.
            columns: Columns of the panel that are in use.
            origin: Expression of where the input of the line begins.
            place: Number of the line in the result.
            line: Number of the line in the block.
        """
        out, cut = self.out, self.loops.cut
        if self.has_open_tiles:
            self._write_open_tiles(tag, columns, origin, place)
            return
        for number, loop in enumerate(cut.loops):
            name, rows = f"{tag}{number}", loop.rows
            if self.shape.rank > 1 and loop.only is not None:
                out.line(f"at_{name} = {loop.only}")
                self._write_tile(name, rows, columns, origin, place, line)
                continue
            part = loop.within if self.shape.rank == 1 else loop.all
            with out.block(f"for tile_{name} in {part}:"):
                out.line(f"at_{name} = {loop.start(f'tile_{name}')}")
                self._write_tile(name, rows, columns, origin, place, line)

    def _write_tile(
        self, name: str, rows: int, columns: int, origin: str, place: str, line: str
    ) -> None:
        """Sum up one tile, from pixel ``at_<name>`` on, and store it or let it wait."""
        out, size = self.out, f"{rows}, {-(-columns // self.loops.lanes)}, {self.loops.lanes}"
        self._write_origin(name, origin, line)
        self._write_prefetch(name, rows, columns, place)
        self._write_block_sum(name, columns, size)
        where = f"({place} * {self.shape.output[-1]} + at_{name})"
        if not self.loops.is_cut:
            self._write_store(name, rows, columns, where)
            return
        self._write_waiting_place(name)
        self._write_earlier(name, size)
        with out.block(f"if part < {self._part_range(name[0])[1]} - 1:"):
            out.line(f"tile_store(sums, wait_{name}, {self.loops.columns.width}, t_{name})")
        with out.block("else:"):
            self._write_store(name, rows, columns, where)

    def _write_open_tiles(self, tag: str, columns: int, origin: str, place: str) -> None:
        """Sum up the tiles of a line of which only the run knows the heights, then store its rows.

        Sums wait between inner blocks anyway. Here they wait after the last one as well, so that
        the code of each height is that of its sums alone.
        """
        out, cut, width = self.out, self.loops.cut, self.loops.columns.width
        assert isinstance(cut, OpenCut)
        vectors = f"{-(-columns // self.loops.lanes)}, {self.loops.lanes}"
        with out.block(f"for tile_{tag} in range(first, first + count):"):
            out.line(f"at_{tag} = {cut.start(f'tile_{tag}')}")
            self._write_origin(tag, origin, "0")
            self._write_prefetch(tag, cut.rows, columns, place)
            self._write_waiting_place(tag)
            for number, rows in enumerate(cut.heights):
                word = "elif" if number else "if"
                with out.block(f"{word} height - (tile_{tag} >= tall) == {rows}:"):
                    size = f"{rows}, {vectors}"
                    self._write_block_sum(tag, columns, size)
                    self._write_earlier(tag, size)
                    out.line(f"tile_store(sums, wait_{tag}, {width}, t_{tag})")
        with out.block(f"if part == {self._part_range(tag)[1]} - 1:"):
            with out.block(f"for at_{tag} in range(pixel, {cut.start('(first + count)')}):"):
                waiting = plus("waiting", times(f"(at_{tag} - pixel)", width))
                out.line(f"t_{tag} = tile_load(sums, {waiting}, {width}, 1, {vectors})")
                where = f"({place} * {self.shape.output[-1]} + at_{tag})"
                self._write_store(tag, 1, columns, where)

    def _write_origin(self, name: str, origin: str, line: str) -> None:
        """Write where the input of a tile begins, and its number of a pixel in the block."""
        out, shape, loops = self.out, self.shape, self.loops
        pixel_step, _ = tile_steps(self.nest, self.loops)
        pixel = f"at_{name}"
        if shape.rank == 1 and (loops.is_staged or self.loops.is_cut):
            pixel = f"(at_{name} - pixel)"
        if self.loops.is_cut:
            out.line(f"near_{name} = {plus(times(line, shape.output[-1]), pixel)}")
        if loops.panels_inside:
            out.line(f"x_{name} = {times(f'near_{name}', pixel_step)}")
            return
        pixel = pixel if loops.is_staged else f"at_{name}"
        group = times("group", self._group_elements()) if shape.group > 1 else "0"
        shift = "shift" if self.loops.is_cut else "0"
        out.line(f"x_{name} = {plus(origin, times(pixel, pixel_step), group, shift)}")

    def _group_elements(self) -> int:
        """Return the elements of the left operand from one group of channels to the next."""
        _, step = tile_steps(self.nest, self.loops)
        return self.shape.channels_per_group * step // self.nest.kinds.factors

    def _write_block_sum(self, name: str, columns: int, size: str) -> None:
        """Sum up an inner block of a tile of *size*, from zero on."""
        self.out.line(f"t_{name} = tile_fill(sums, 0, {size})")
        self._write_sum(name, columns, size)

    def _write_waiting_place(self, name: str) -> None:
        """Write where the sums of a tile wait."""
        near = times(f"near_{name}", self.loops.columns.width)
        self.out.line(f"wait_{name} = {plus('waiting', near)}")

    def _write_earlier(self, name: str, size: str) -> None:
        """Add the sums of earlier inner blocks to those of a tile of *size*."""
        with self.out.block(f"if part > {self._part_range(name[0])[0]}:"):
            earlier = f"tile_load(sums, wait_{name}, {self.loops.columns.width}, {size})"
            self.out.line(f"t_{name} = add(t_{name}, {earlier})")

    def _write_prefetch(self, name: str, rows: int, columns: int, place: str) -> None:
        """Ask for what later tiles write, or the tile itself, if it is to be prefetched."""
        if self.loops.tiles_ahead is None:
            return
        pixel = plus(f"{place} * {self.shape.output[-1]}", f"at_{name}")
        if self.panels_ahead:
            pixel, columns, channel = plus(pixel, "later"), self.nest.block, "channel_ahead"
        else:
            pixel, channel = plus(pixel, self.rows_ahead), "channel"
        is_last = f"if part == {self._part_range(name[0])[1]} - 1:"
        with self.out.block(is_last) if self.loops.is_cut else nullcontext():
            self.tiles.write_prefetch(self.out, rows, columns, f"({pixel})", channel)

    def _part_range(self, tag: str) -> tuple[str, str]:
        """Return the first inner block of a tile's sums and the end of them."""
        if not self.skips_padding:
            return "0", f"{self.parts}"
        row = self.loops.sum.blocks_per_tap_row
        return times(f"begin_{tag}", row), times(f"end_{tag}", row)

    def _write_store(self, name: str, rows: int, columns: int, pixel: str) -> None:
        """Add the bias, run the epilogue and store.

        A chain of sums that began with the bias would round each time at its magnitude.
        """
        if self.bias:
            end = "" if self.reads_whole else f", {self.used or columns}"
            size = f"{rows}, {-(-columns // self.loops.lanes)}, {self.loops.lanes}{end}"
            form = "tile_bias_masked" if end else "tile_bias"
            bias = f"{form}({self.bias[0]}, panel * {self.nest.block}, {size})"
            self.out.line(f"t_{name} = add(t_{name}, {bias})")
        self.tiles.write(
            self.out,
            f"t_{name}",
            rows,
            columns=columns,
            used=self.used,
            pixel=pixel,
            channel="channel",
        )
