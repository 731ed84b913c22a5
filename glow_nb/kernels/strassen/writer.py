"""The source of a matrix product by Strassen's algorithm: how rows are added up, and products.

The SIMD layer adds up blocks (:mod:`glow_nb.simd.strassen`). A register tile has a vector of each
block: ``x_0``, ``w_0`` and ``y_0`` of the first row of blocks, in the left matrix, the right matrix
and the result; ``t_a0`` of the first column of blocks in the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from typing_extensions import override

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.size import Size
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.bilinear.plan import PAD_BYTES, BilinearPlan, rounded_up
from glow_nb.kernels.bilinear.weights import ReadWeights
from glow_nb.kernels.bilinear.writer import BilinearWriter
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.llir.program import kernel_operands
from glow_nb.numerics.strassen import EXPONENT_BITS, LARGEST_SCALE


class StrassenWriter(BilinearWriter):
    """Writes one kernel; every method appends one part of the nest."""

    nest: StrassenNest

    def __init__(self, nest: StrassenNest, plan: BilinearPlan, fusion: Fusion) -> None:
        super().__init__(nest, plan, fusion)
        _, *operands = kernel_operands(fusion.head)
        self.lhs, self.rhs, self.scales, *self.bias = (fusion.names[each] for each in operands)
        self.weights = ReadWeights(nest, plan, self.scratch, self.rhs)
        self.side, self.inner, self.depth = nest.side, *nest.block_sizes

    @property
    @override
    def scratch_bytes(self) -> int:
        return self.powers + rounded_up(self.side * self.plan.block_tiles * 4, PAD_BYTES)

    @property
    def powers(self) -> int:
        """First byte of what the results of each row of each tile are multiplied by."""
        return rounded_up(self.scratch.bytes, PAD_BYTES)

    @override
    def _write_scratch(self) -> None:
        super()._write_scratch()
        self.out.line(f"powers = as_float32(at(scratch, {self.powers}))")

    @override
    def _write_input(self) -> None:
        out, plane = self.out, self.scratch.plane
        self._write_rows()
        self._write_power()
        out.line(f"to = (tile - begin) * {self.scratch.rows}")
        with out.block(f"for first in range(0, {self.inner}, {self.plan.lanes}):"):
            blocks = self._write_left_blocks()
            for row, name in enumerate(blocks):
                out.line(f"{name} = mul({name}, tile_get(row_scale, {row}, 0))")
                place = plus(f"row_{row}", "c", self.side * self.step)
                out.line(f"tile_prefetch({self.lhs}, {place}, {self.inner}, {self.side})")
            out.line(f"strassen_factors(factors, to + c, {plane}, {_joined(blocks)})")

    def _write_left_blocks(self) -> list[str]:
        """Load a vector of each block of the left matrix; return the tiles, one of each row."""
        self._write_column()
        names = [f"x_{row}" for row in range(self.side)]
        for row, name in enumerate(names):
            place = plus(f"row_{row}", "c")
            size = f"{self.side}, 1, {self.plan.lanes}"
            self.out.line(f"{name} = tile_load({self.lhs}, {place}, {self.inner}, {size})")
        return names

    def _write_rows(self) -> None:
        """Find the first elements of the rows of a tile; the last row replaces missing ones."""
        for row in range(self.side):
            number = plus(f"tile * {self.side}", row)
            if row and self.nest.rows % self.side != 0:
                number = f"min({number}, {self.nest.rows - 1})"
            self.out.line(f"row_{row} = {times(f'({number})', self.step)}")

    def _write_column(self) -> None:
        """Find the first column of a vector: the last one ends where the columns do."""
        lanes = self.plan.lanes
        last = "first" if self.inner % lanes == 0 else f"min(first, {self.inner - lanes})"
        self.out.line(f"c = {last}")

    def _write_power(self) -> None:
        """Find the powers of two that make all rows about as large as the largest one."""
        out, lanes, rows = self.out, self.plan.lanes, range(self.side)
        out.line(f"largest = {self._filled(0)}")
        with out.block(f"for first in range(0, {self.inner}, {lanes}):"):
            out.line(f"x = abs({_joined(self._write_left_blocks())})")
            sizes = [self._part("x", part) for part in range(self.side)]
            out.line(f"largest = {_largest(['largest', *sizes])}")
        for row in rows:
            whole = f"splat_float32(reduce_maximum(tile_get(largest, {row}, 0)), {lanes})"
            out.line(f"largest = tile_set(largest, {row}, 0, {whole})")
        high, zero, one, nan = (
            f"splat_float32({number_text(number)}, {lanes})"
            for number in (LARGEST_SCALE, 0.0, 1.0, math.nan)
        )
        bits = f"bit_and(bit_cast_int32(largest), splat_int32({EXPONENT_BITS}, {lanes}))"
        out.line(f"power = bit_cast_float32({bits})")
        largest = _largest([f"tile_get(power, {row}, 0)" for row in rows])
        out.line(f"row_scale = div({largest}, power)")
        is_near = f"less_equal(row_scale, {high})"
        out.line(f"row_scale = where({is_near}, row_scale, {nan})")  # to be summed up directly
        out.line(f"is_zero = equal(power, {zero})")
        out.line(f"row_scale = where(is_zero, {one}, row_scale)")
        out.line(f"back = where(is_zero, {zero}, div({one}, row_scale))")
        for row in rows:
            back = f"reduce_maximum(tile_get(back, {row}, 0))"
            out.line(f"put(powers, {plus(f'(tile - begin) * {self.side}', row)}, {back})")

    @override
    def _write_output(self) -> None:
        out, lanes, columns = self.out, self.plan.lanes, self.plan.columns
        out.line(f"start = (tile - begin) * {self.nest.block}")
        out.line(f"back = {self._filled(0)}")
        for row in range(self.side):
            place = plus(f"(tile - begin) * {self.side}", row)
            out.line(f"back = tile_set(back, {row}, 0, broadcast(powers, {place}, {lanes}))")
        rest = columns.tail % lanes
        size = f"size // {lanes} * {lanes}" if rest else "size"
        with out.block(f"for c in range(0, {size}, {lanes}):"):
            self._write_columns("a", lanes)
        if rest:
            with out.block(f"if size == {columns.tail}:"):
                out.line(f"c = {columns.tail - rest}")
                self._write_columns("b", rest)

    @override
    def _write_ahead(self, row: str, rows: int) -> None:
        """Bring nearer what outputs will write, and what the next block of tiles will read.

        While one of the first products is computed, the lines of one block of the outputs are
        fetched; while any is, a part of the rows that the next block of tiles has where these are.
        """
        if self.plan.dot == self.plan.groups:
            self._write_fetches(row, rows)
            return
        with self.out.block("if part == 0:"):
            self._write_fetches(row, rows)

    def _write_fetches(self, row: str, rows: int) -> None:
        out, nest = self.out, self.nest
        with out.block(f"if element < {nest.blocks}:"):
            out.line(f"pixel = ({row} + begin) * {self.side} + element // {self.side}")
            out.line(f"column = channel + element % {self.side} * {self.depth}")
            self.tiles.write_prefetch(out, rows, nest.block, "pixel", "column", apart=self.side)
        if self.plan.block_units == self.plan.cut.tiles:
            return
        line = CACHE_LINE_BYTES // nest.kind.size_bytes
        lines = -(-nest.inner // (line * nest.panels * nest.elements))
        call = f"((panel - panel_begin) * {nest.elements} + element)"
        out.line(f"ahead = {times(call, lines * line)}")
        with out.block(f"if ahead < {nest.inner}:"):
            for number in range(lines):
                place = plus(f"({row} + end) * {self.side * self.step}", "ahead", number * line)
                out.line(f"tile_prefetch({self.lhs}, {place}, {self.step}, {self.side * rows})")

    def _write_columns(self, tag: str, count: int) -> None:
        """Add up the products of *count* columns of each block, and store the results."""
        out, lanes, side, panels = self.out, self.plan.lanes, self.side, self.nest.panels
        sums = f"sums, start + c, {self.scratch.sums_plane}, {lanes}"
        out.line(f"y = strassen_results({sums})")
        out.line(f"place = panel * {self.nest.block} + c")
        apart = panels * self.nest.block
        out.line(f"column_scale = tile_load({self.scales}, place, {apart}, {side}, 1, {lanes})")
        out.line("row_scale = back")
        total = reduce("add({}, {})".format, (self._part("y", part) for part in range(side)))
        with out.block(f"if not tile_is_finite({total}):"):
            self._write_direct_sums()
            out.line(f"row_scale = {self._filled(1)}")
            out.line(f"column_scale = {self._filled(1)}")
        for part in range(side):
            name = f"t_{tag}{part}"
            factor = f"mul(row_scale, tile_get(column_scale, {part}, 0))"
            result = f"mul({self._part('y', part)}, {factor})"
            for bias in self.bias:
                row = f"tile_bias({bias}, {plus('place', part * apart)}, {side}, 1, {lanes})"
                result = f"fma({self._part('y', part)}, {factor}, {row})"
            out.line(f"{name} = {result}")
            self._write_store(f"{tag}{part}", part, count)

    def _part(self, name: str, part: int) -> str:
        """Return the expression of one column of a tile of blocks."""
        return f"tile_rows({name}, {part}, {self.side}, {self.side})"

    def _filled(self, number: int) -> str:
        """Return the expression of a tile of one vector for each row."""
        return f"tile_fill(sums, {number}, {self.side}, 1, {self.plan.lanes})"

    def _write_store(self, tag: str, part: int, count: int) -> None:
        """Store a tile of one part of the columns, or those of its rows that there are."""
        out, side = self.out, self.side
        out.line(f"row_{tag} = tile * {side}")
        out.line(f"column_{tag} = {plus('channel', part * self.depth, 'c')}")
        whole, rest = self.nest.rows // side, self.nest.rows % side
        if rest == 0:
            self._write_tile(tag, side, count)
            return
        if isinstance(rest, Size):
            rest = side - 1  # if the last tile has fewer rows, as a side is two
        if whole != 0:
            with out.block(f"if tile < {whole}:"):
                self._write_tile(tag, side, count)
        with out.block(f"if tile == {whole}:"):
            out.line(f"t_{tag}_0 = tile_rows(t_{tag}, 0, 1, {rest})")
            self._write_tile(tag, rest, count, "_0")

    def _write_tile(self, tag: str, rows: int, count: int, end: str = "") -> None:
        pixel, channel = f"row_{tag}", f"column_{tag}"
        tile = f"t_{tag}{end}"
        self.tiles.write(self.out, tile, rows, columns=count, pixel=pixel, channel=channel)

    def _write_direct_sums(self) -> None:
        """Sum up ``y``, a vector of each block, directly, by recovered weights."""
        out, lanes, side = self.out, self.plan.lanes, self.side
        plane = self.inner * self.nest.block
        self._write_rows()
        for row in range(side):
            out.line(f"y_{row} = {self._filled(0)}")
        with out.block(f"for k in range({self.inner}):"):
            out.line(f"at_k = panel * {self.nest.elements * plane} + k * {self.nest.block} + c")
            for inner in range(side):
                operands = f"{self.rhs}, at_k, {plane}, {inner}, {lanes}"
                out.line(f"w_{inner} = mul(strassen_recovered({operands}), column_scale)")
            for row in range(side):
                for inner in range(side):
                    place = plus(f"row_{row}", inner * self.inner, "k")
                    x = f"broadcast({self.lhs}, {place}, {lanes})"
                    out.line(f"y_{row} = fma({x}, w_{inner}, y_{row})")
        out.line(f"y = {_joined([f'y_{row}' for row in range(side)])}")


def _joined(tiles: Sequence[str]) -> str:
    """Return the expression of all rows of *tiles*."""
    return reduce("tile_join({}, {})".format, tiles)


def _largest(values: Sequence[str]) -> str:
    """Return the largest of *values*, lane by lane."""
    return reduce("maximum({}, {})".format, values)
