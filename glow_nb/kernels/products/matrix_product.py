"""Source text of products in matrix registers (see :mod:`glow_nb.simd.matrix_registers`).

The loops are those of any product (:mod:`.loops`). A tile is several registers of sums: parts of up
to 16 rows, below each other, and panels of 16 columns side by side. When all products of an inner
block are added up, the sums go to scratch. There they wait for the next inner block, or an epilogue
takes them from there, a few vectors at a time.

All tiles of a kernel have as many rows, so that the registers are configured once. A line whose
tiles are not of one height has some of a row less: these compute one more row, which is not used.
It is the one before the first, or, in a padded copy, whatever lies after the last.
"""

from __future__ import annotations

from contextlib import nullcontext

from typing_extensions import override

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.dot_instruction import MATRIX_COLUMNS, MATRIX_ROWS
from glow_nb.kernels.products.loops import (
    flat_pixels,
    is_open_block,
    plane_elements,
    tile_steps,
)
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.products.product_loops import ProductWriter
from glow_nb.kernels.products.register_tiles import KeptTile
from glow_nb.kernels.writing.index_text import plus, times


class MatrixProductWriter(ProductWriter):
    """Writes a product whose sums are in matrix registers."""

    @property
    def _parts(self) -> int:
        return -(-self.loops.cut.rows // MATRIX_ROWS)

    @property
    @override
    def aligned(self) -> frozenset[int]:
        if self.loops.is_staged:
            return frozenset()
        names = [name for name, _ in self.fusion.pointers]
        return frozenset({names.index(self.input)})

    @property
    def _groups(self) -> int:
        """Groups of neighbours that a step multiplies."""
        return self.nest.plane_groups

    @override
    def _describe_copy(self) -> str:
        if not self.nest.is_in_planes:
            return ""
        if self.nest.runs_of is not None:
            return ", runs copied to planes"
        return ", copied to planes" + (", several lines a tile" if self.nest.is_flat else "")

    @override
    def _write_blocks(self) -> None:
        out, columns, groups = self.out, self.loops.columns, self._groups
        rows, last = self._write_part_rows()
        sizes = f"{self._parts}, {columns.width // MATRIX_COLUMNS}, {groups}"
        out.line(f"registers = matrix_tiles(sums, {columns.width}, {rows}, {last}, {sizes})")
        out.line("matrix_configure(registers)")
        super()._write_blocks()
        out.line("matrix_release()")

    def _write_part_rows(self) -> tuple[str, str]:
        """Return the rows of a part, and those of the last one.

        Where only the run knows how many rows a tile has, and these are too few for all parts to
        have some, all parts compute the same, and only the result of the first one is used.
        """
        cut, out, parts = self.loops.cut, self.out, self._parts
        stride, _ = tile_steps(self.nest, self.loops)
        if not isinstance(cut, OpenCut):
            return str(self._part_rows), str(cut.rows - (parts - 1) * self._part_rows)
        if parts == 1:
            return "max(1, height)", "max(1, height)"
        out.line(f"is_one = height <= {(parts - 1) ** 2}")
        out.line(f"part_rows = max(1, height) if is_one else (height + {parts - 1}) // {parts}")
        last = f"height - {times('part_rows', parts - 1)}"
        out.line(f"last_rows = part_rows if is_one else {last}")
        out.line(f"apart = 0 if is_one else {times('part_rows', stride)}")
        return "part_rows", "last_rows"

    @property
    def _part_rows(self) -> int:
        """Rows of a part, but for the last one, where they are known."""
        return -(-self.loops.cut.rows // self._parts)

    @property
    def _apart(self) -> str:
        """Elements of the left operand from part to part."""
        if self._parts == 1:
            return "0"
        stride, _ = tile_steps(self.nest, self.loops)
        is_open = isinstance(self.loops.cut, OpenCut)
        return "apart" if is_open else str(self._part_rows * stride)

    @property
    @override
    def _most_units(self) -> str:
        """The most units of a block: sums have room for this number of lines, however short they
        are.
        """
        most = super()._most_units
        return f"min({self.loops.block_units}, {most})" if is_open_block(self.shape) else most

    @property
    @override
    def skips_padding(self) -> bool:
        return super().skips_padding and not self.nest.is_flat

    @property
    @override
    def _tiles_of_block(self) -> int:
        if not self.nest.is_flat:
            return super()._tiles_of_block
        return -(-flat_pixels(self.nest, self.loops.block_units) // self.loops.cut.rows)

    @override
    def _write_lines(self, tag: str, columns: int) -> None:
        """Run over the lines of the block; neighbouring short lines have tiles together.

        What lies between two lines of the padded copy is multiplied as well, and left out in the
        end.
        """
        if not self.nest.is_flat:
            super()._write_lines(tag, columns)
            return
        out, shape, rows = self.out, self.shape, self.loops.cut.rows
        line, width = shape.needed[-1], self.loops.columns.width
        out.line(f"pixels = {times('count', line)} - {line - shape.output[-1]}")
        with out.block(f"for tile_{tag} in range((pixels + {rows - 1}) // {rows}):"):
            group = times("group", self._group_elements()) if shape.group > 1 else "0"
            shift = "shift" if self.loops.is_cut else "0"
            at = times(f"tile_{tag}", rows * self.nest.staged_pixel)
            out.line(f"x_{tag} = {plus(at, group, shift)}")
            out.line(f"number_{tag} = tile_{tag}")
            out.line(f"wait_{tag} = {times(f'tile_{tag}', rows * width)}")
            self._write_registers(tag, columns)
        last = f"if part == {self._part_range(tag)[1]} - 1:"
        with out.block(last) if self.loops.is_cut else nullcontext():
            with out.block(f"for line_{tag} in range(count):"):
                pixel = f"((image * {shape.output[0]} + first + line_{tag}) * {shape.output[1]})"
                at = times(f"line_{tag}", line * width)
                self._write_kept(tag, shape.output[-1], at, columns, pixel)

    @override
    def _write_tiles(self, tag: str, columns: int, origin: str, place: str, line: str) -> None:
        out, cut = self.out, self.loops.cut
        if isinstance(cut, OpenCut):
            is_line = self.shape.rank == 1
            with out.block(
                f"for tile_{tag} in range({'first, first + count' if is_line else 'tiles'}):"
            ):
                out.line(f"skipped_{tag} = 1 if tile_{tag} >= tall else 0")
                out.line(f"at_{tag} = {cut.start(f'tile_{tag}')}")
                rows = f"height - skipped_{tag}"
                self._write_matrix_tile(
                    tag, rows, f"skipped_{tag}", columns, origin, place, line, f"tile_{tag}"
                )
            return
        for number, loop in enumerate(cut.loops):
            name, skipped = f"{tag}{number}", cut.rows - loop.rows
            is_only = self.shape.rank > 1 and loop.only is not None
            part = loop.within if self.shape.rank == 1 else loop.all
            with nullcontext() if is_only else out.block(f"for tile_{name} in {part}:"):
                out.line(f"at_{name} = {loop.only if is_only else loop.start(f'tile_{name}')}")
                tile = loop.begin if is_only else f"tile_{name}"
                self._write_matrix_tile(
                    name, loop.rows, str(skipped), columns, origin, place, line, tile
                )

    def _write_matrix_tile(
        self,
        name: str,
        rows: int | str,
        skipped: str,
        columns: int,
        origin: str,
        place: str,
        line: str,
        tile: str,
    ) -> None:
        """Sum up one tile, from pixel ``at_<name>`` on, and store it or let it wait.

        Args:
            name: The suffix of its names.
            rows: Its rows.
            skipped: The number of rows before them that are computed as well.
            columns: Columns of the panel that are in use.
            origin: Expression of where the input of the line begins.
            place: Number of the line in the result.
            line: Number of the line in the block.
            tile: Number of the tile in the line.
        """
        out, width, tag = self.out, self.loops.columns.width, name[0]
        self._write_origin(name, origin, line)
        if skipped != "0" and not self.loops.is_staged:
            stride, _ = tile_steps(self.nest, self.loops)
            begin = times(skipped, stride) if not skipped.isdigit() else int(skipped) * stride
            out.line(f"x_{name} -= {begin}")
        shift = "0" if self.loops.is_staged else skipped
        number = f"({tile} - first)" if self.shape.rank == 1 else None
        if number is None:
            number = f"({plus(times(line, self.loops.cut.tiles), tile)})"
        out.line(f"number_{name} = {number}")
        waiting = times(f"number_{name}", self.loops.cut.rows * width)
        out.line(f"wait_{name} = {plus('waiting', waiting) if self.loops.is_cut else 0}")
        self._write_registers(name, columns)
        last = f"if part == {self._part_range(tag)[1]} - 1:"
        with out.block(last) if self.loops.is_cut else nullcontext():
            at = plus(f"wait_{name}", times(shift, width) if shift != "0" else "0")
            pixel = f"({place} * {self.shape.output[-1]} + at_{name})"
            self._write_kept(name, rows, at, columns, pixel)

    def _write_registers(self, name: str, columns: int) -> None:
        """Sum up an inner block of a tile, whose sums lie at ``wait_<name>`` then."""
        out, used = self.out, f"{-(-columns // MATRIX_COLUMNS)}"
        blocks = f"(registers, wait_{name}, {used})"
        if self.loops.is_cut:
            with out.block(f"if part > {self._part_range(name[0])[0]}:"):
                out.line(f"matrix_load{blocks}")
            with out.block("else:"):
                out.line(f"matrix_clear{blocks}")
        else:
            out.line(f"matrix_clear{blocks}")
        self._write_sum(name, columns, "")
        out.line(f"matrix_store{blocks}")

    def _write_kept(self, name: str, rows: int | str, at: str, columns: int, pixel: str) -> None:
        """Write what becomes of *rows* rows of sums, which begin at *at*."""
        bias = (self.bias[0], f"panel * {self.nest.block}") if self.bias else None
        self.tiles.write_kept(
            self.out,
            f"t_{name}",
            rows,
            KeptTile("sums", at, self.loops.columns.width, bias),
            columns=columns,
            used=self.used,
            pixel=pixel,
            channel="channel",
        )

    @override
    def _write_steps(self, name: str, x: str, w: str, columns: int, count: str) -> None:
        stride, _ = tile_steps(self.nest, self.loops)
        used = -(-columns // MATRIX_COLUMNS)
        ahead, lines = self._fetched(name, w, count)
        self.out.line(
            f"{self.nest.kinds.dot.name}(registers, wait_{name}, {used}, {self.source}, {x}, "
            f"{stride}, {self._apart}, {self._forward}, {self.filter}, {w}, {self.row}, {count}, "
            f"{ahead}, {lines})"
        )

    @property
    def _forward(self) -> int:
        """Elements of the left operand from step to step."""
        if self.nest.is_in_planes:
            return plane_elements(self.nest, self.loops)
        return self._groups * self.nest.kinds.factors

    @override
    def _group_elements(self) -> int:
        if self.nest.is_in_planes:
            return self.nest.planes_per_group * plane_elements(self.nest, self.loops)
        return super()._group_elements()

    def _fetched(self, name: str, w: str, count: str) -> tuple[str, int]:
        """Return from where on a dot fetches weights of the next pass, and lines for each step.

        That is the part of the next panel, or inner block, that the dot reads of this one; the
        tiles of a block share it.
        """
        tiles, loops = self._tiles_of_block, self.loops
        if not loops.is_right_far or tiles < 2:
            return "0", 0
        line = CACHE_LINE_BYTES // self.nest.kinds.right.size_bytes
        step = self._groups * self.row  # elements of a step of a panel
        lines = -(-step // (tiles * line))
        next_pass = self._next_pass if loops.is_cut else self.nest.right.panel
        share = times(f"number_{name} * ({count} // {self._groups})", lines * line)
        return f"{w} + {next_pass} + {share}", lines
