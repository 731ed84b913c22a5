"""The source of a matrix product by Strassen's algorithm: how rows are added up, and products.

Numbered values are blocks, as :mod:`glow_nb.strassen` numbers them, or products of blocks; the
blocks of a tile are vectors of one row each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce

from typing_extensions import override

from glow_nb.alignment import CACHE_LINE_BYTES
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.bilinear.plan import PAD_BYTES, BilinearPlan, rounded_up
from glow_nb.kernels.bilinear.weights import ReadWeights
from glow_nb.kernels.bilinear.writer import BilinearWriter
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.strassen.nest import StrassenNest
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.llir.program import kernel_operands
from glow_nb.strassen import (
    EXPONENT_BITS,
    LARGEST_SCALE,
    LEAST_RECOVERED,
    LEFT,
    PRODUCTS,
    QUARTERS,
    RECOVERY,
    SUMS,
    nested,
    place_of,
    terms,
)
from glow_nb.types import Array


class StrassenWriter(BilinearWriter):
    """Writes one kernel; every method appends one part of the nest."""

    nest: StrassenNest

    def __init__(self, nest: StrassenNest, plan: BilinearPlan, fusion: Fusion) -> None:
        super().__init__(nest, plan, fusion)
        _, *operands = kernel_operands(fusion.head)
        self.lhs, self.rhs, self.scales, *self.bias = (fusion.names[each] for each in operands)
        self.weights = ReadWeights(nest, plan, self.scratch, self.rhs)
        self.side, self.inner, self.depth = nest.side, *nest.block_sizes
        self.places = [place_of(number, nest.levels) for number in range(nest.blocks)]
        self.zero = f"splat_float32(0.0, {plan.lanes})"

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
        out = self.out
        self._write_rows()
        self._write_power()
        out.line(f"to = (tile - begin) * {self.scratch.rows}")
        with out.block(f"for first in range(0, {self.inner}, {self.plan.lanes}):"):
            self._write_column()
            for number, (row, part) in enumerate(self.places):
                place = plus(f"row_{row}", part * self.inner, "c")
                loaded = f"load({self.lhs}, {place}, {self.plan.lanes})"
                out.line(f"x{number} = mul({loaded}, row_scale_{row})")
                out.line(f"prefetch({self.lhs}, {plus(place, self.side * self.step)})")
            blocks = [f"x{number}" for number in range(self.nest.blocks)]
            for product, text in enumerate(self._write_factors("x", blocks, self.nest.levels)):
                place = plus("to", product * self.scratch.plane, "c")
                out.line(f"store(factors, {place}, {text})")

    def _write_factors(self, name: str, blocks: Sequence[str], levels: int) -> Iterator[str]:
        """Yield what each product takes of *blocks*; what several take alike is written before."""
        if levels == 1:
            yield from (_combination(blocks, signs) for signs in LEFT)
            return
        size = len(blocks) // QUARTERS
        for product, signs in enumerate(LEFT):
            taken = [f"{name}{product}_{number}" for number in range(size)]
            for number, each in enumerate(taken):
                self.out.line(f"{each} = {_combination(blocks[number::size], signs)}")
            yield from self._write_factors(f"{name}{product}_", taken, levels - 1)

    def _write_rows(self) -> None:
        """Find the first elements of the rows of a tile; the last row stands for missing ones."""
        for row in range(self.side):
            number = plus(f"tile * {self.side}", row)
            if self.nest.rows % self.side and row:
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
        for row in rows:
            out.line(f"largest_{row} = {self.zero}")
        with out.block(f"for first in range(0, {self.inner}, {lanes}):"):
            self._write_column()
            for row in rows:
                places = (plus(f"row_{row}", part * self.inner, "c") for part in rows)
                sizes = [f"abs(load({self.lhs}, {place}, {lanes}))" for place in places]
                out.line(f"largest_{row} = {_largest([f'largest_{row}', *sizes])}")
        for row in rows:
            whole = f"splat_float32(reduce_maximum(largest_{row}), {lanes})"
            bits = f"bit_and(bit_cast_int32({whole}), splat_int32({EXPONENT_BITS}, {lanes}))"
            out.line(f"power_{row} = bit_cast_float32({bits})")
        high, one, nan = (
            f"splat_float32({number_text(number)}, {lanes})"
            for number in (LARGEST_SCALE, 1.0, math.nan)
        )
        out.line(f"power = {_largest([f'power_{row}' for row in rows])}")
        for row in rows:
            scale = f"row_scale_{row}"
            out.line(f"{scale} = div(power, power_{row})")
            is_near = f"less_equal({scale}, {high})"
            out.line(f"{scale} = where({is_near}, {scale}, {nan})")  # to be summed up directly
            out.line(f"has_{row} = greater(power_{row}, {self.zero})")
            out.line(f"{scale} = where(has_{row}, {scale}, {one})")
            back = f"reduce_maximum(where(has_{row}, div({one}, {scale}), {self.zero}))"
            out.line(f"put(powers, (tile - begin) * {self.side} + {row}, {back})")

    @override
    def _write_output(self) -> None:
        out, lanes, columns = self.out, self.plan.lanes, self.plan.columns
        out.line(f"start = (tile - begin) * {self.nest.block}")
        for row in range(self.side):
            place = f"(tile - begin) * {self.side} + {row}"
            out.line(f"back_{row} = broadcast(powers, {place}, {lanes})")
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
        out, lanes, block, side = self.out, self.plan.lanes, self.nest.block, self.side
        sums = self._write_sums("m", 0, self.nest.levels)
        made = dict(zip(self.places, sums, strict=True))
        for part in range(side):
            place = plus(part * self.nest.panels * block, f"panel * {block}", "c")
            out.line(f"place_{part} = {place}")
            out.line(f"column_scale_{part} = load({self.scales}, place_{part}, {lanes})")
            factors = [f"mul(back_{row}, column_scale_{part})" for row in range(side)]
            out.line(f"t_{tag}{part} = {self._tile([made[row, part] for row in range(side)])}")
            out.line(f"factor_{part} = {self._tile(factors)}")
        total = reduce("add({}, {})".format, (f"t_{tag}{part}" for part in range(side)))
        with out.block(f"if not tile_is_finite({total}):"):
            self._write_direct_sums()
            for part in range(side):
                rows = [f"d{row}_{part}" for row in range(side)]
                out.line(f"t_{tag}{part} = {self._tile(rows)}")
                out.line(f"factor_{part} = tile_fill(sums, 1, {side}, 1, {lanes})")
        for part in range(side):
            name = f"t_{tag}{part}"
            result = f"mul({name}, factor_{part})"
            for bias in self.bias:
                row = f"tile_bias({bias}, place_{part}, {side}, 1, {lanes})"
                result = f"fma({name}, factor_{part}, {row})"
            out.line(f"{name} = {result}")
            self._write_store(f"{tag}{part}", part, count)

    def _write_sums(self, name: str, first: int, levels: int) -> list[str]:
        """Add up the products from *first* on that a level makes blocks of; return their names."""
        if not levels:
            place = plus("start", first * self.scratch.sums_plane, "c")
            self.out.line(f"{name} = load(sums, {place}, {self.plan.lanes})")
            return [name]
        size = QUARTERS ** (levels - 1)
        blocks = [f"{name}_y{number}" for number in range(QUARTERS * size)]
        for product in range(PRODUCTS):
            number = first + product * PRODUCTS ** (levels - 1)
            parts = self._write_sums(f"{name}{product}", number, levels - 1)
            for quarter, signs in enumerate(SUMS):
                for block, part in zip(blocks[quarter * size :], parts, strict=False):
                    self._write_sum(block, part, signs, product)
        return blocks

    def _write_sum(self, block: str, part: str, signs: Array, product: int) -> None:
        """Write what a *product* does to a *block*; the first one that it takes has no minus."""
        sign = signs[product]
        if sign and not signs[:product].any():
            self.out.line(f"{block} = {part}")
        elif sign:
            self.out.line(f"{block} = {'add' if sign > 0 else 'sub'}({block}, {part})")

    def _tile(self, rows: Sequence[str]) -> str:
        """Return the expression of a tile of vectors, one in each row."""
        tile = f"tile_fill(sums, 0, {len(rows)}, 1, {self.plan.lanes})"
        for number, row in enumerate(rows):
            tile = f"tile_set({tile}, {number}, 0, {row})"
        return tile

    def _write_store(self, tag: str, part: int, count: int) -> None:
        """Store a tile of one part of the columns, or those of its rows that there are."""
        out, side = self.out, self.side
        out.line(f"row_{tag} = tile * {side}")
        out.line(f"column_{tag} = {plus('channel', part * self.depth, 'c')}")
        whole, rest = divmod(self.nest.rows, side)
        if not rest:
            self._write_tile(tag, side, count)
            return
        if whole:
            with out.block(f"if tile < {whole}:"):
                self._write_tile(tag, side, count)
        with out.block(f"if tile == {whole}:"):
            rows = [f"tile_get(t_{tag}, {row}, 0)" for row in range(rest)]
            out.line(f"t_{tag}_0 = {self._tile(rows)}")
            self._write_tile(tag, rest, count, "_0")

    def _write_tile(self, tag: str, rows: int, count: int, end: str = "") -> None:
        pixel, channel = f"row_{tag}", f"column_{tag}"
        tile = f"t_{tag}{end}"
        self.tiles.write(self.out, tile, rows, columns=count, pixel=pixel, channel=channel)

    def _write_direct_sums(self) -> None:
        """Sum up a tile, one vector of each part of the columns, directly, by recovered weights.

        The vectors are called ``d<row>_<part>``.
        """
        out, lanes, side = self.out, self.plan.lanes, self.side
        plane = self.inner * self.nest.block
        self._write_rows()
        recovery = nested(RECOVERY, self.nest.levels)
        for row, part in self.places:
            out.line(f"d{row}_{part} = {self.zero}")
        with out.block(f"for k in range({self.inner}):"):
            out.line(f"place = panel * {self.nest.elements * plane} + k * {self.nest.block} + c")
            for product in range(self.nest.elements):
                if recovery[:, product].any():
                    place = plus("place", product * plane)
                    out.line(f"u{product} = load({self.rhs}, {place}, {lanes})")
            weights = [f"u{product}" for product in range(self.nest.elements)]
            for signs, (row, part) in zip(recovery, self.places, strict=True):
                self._write_recovered(f"w{row}_{part}", weights, signs)
                out.line(f"w{row}_{part} = mul(w{row}_{part}, column_scale_{part})")
                place = plus(f"row_{row}", part * self.inner, "k")
                out.line(f"v{row}_{part} = broadcast({self.lhs}, {place}, {lanes})")
            for row, part in self.places:
                total = f"d{row}_{part}"
                for inner in range(side):
                    out.line(f"{total} = fma(v{row}_{inner}, w{inner}_{part}, {total})")

    def _write_recovered(self, name: str, sums: Sequence[str], signs: Sequence[int]) -> None:
        """Recover a vector of weights from *sums*; what may be a rounding error is zero."""
        out, lanes = self.out, self.plan.lanes
        out.line(f"{name} = {_combination(sums, signs)}")
        used = [f"abs({sums[number]})" for number, _ in terms(signs)]
        if len(used) > 1:
            part = f"splat_float32({number_text(LEAST_RECOVERED)}, {lanes})"
            least = f"mul({reduce('add({}, {})'.format, used)}, {part})"
            out.line(f"{name} = where(less(abs({name}), {least}), {self.zero}, {name})")


def _combination(values: Sequence[str], signs: Sequence[int]) -> str:
    """Return the sum of *values* with these *signs*."""
    (first, _), *others = terms(signs)
    text = values[first]
    for number, is_subtracted in others:
        text = f"{'sub' if is_subtracted else 'add'}({text}, {values[number]})"
    return text


def _largest(values: Sequence[str]) -> str:
    """Return the largest of *values*, lane by lane."""
    return reduce("maximum({}, {})".format, values)
