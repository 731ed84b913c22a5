"""The source of a matrix product by Strassen's algorithm: how rows are added up, and products."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    BLOCK_PRODUCTS,
    BLOCKS,
    EXPONENT_BITS,
    LARGEST_SCALE,
    LEAST_SCALE,
    LEFT,
    RECOVERY,
    SIDE,
    SUMS,
    terms,
)

AHEAD_BYTES = 256
"""From the factors of one product that are written to those that are fetched, to be written next.

They are written in as many streams as there are products, more than processors look ahead for."""


class StrassenWriter(BilinearWriter):
    """Writes one kernel; every method appends one part of the nest."""

    nest: StrassenNest

    def __init__(self, nest: StrassenNest, plan: BilinearPlan, fusion: Fusion) -> None:
        super().__init__(nest, plan, fusion)
        _, *operands = kernel_operands(fusion.head)
        self.lhs, self.rhs, self.scales, *self.bias = (fusion.names[each] for each in operands)
        self.weights = ReadWeights(nest, plan, self.scratch, self.rhs)
        self.inner, self.depth = nest.inner // SIDE, nest.depth // SIDE
        self.zero = f"splat_float32(0.0, {plan.lanes})"

    @property
    @override
    def scratch_bytes(self) -> int:
        return self.powers + rounded_up(SIDE * self.plan.block_tiles * 4, PAD_BYTES)

    @property
    def powers(self) -> int:
        """First byte of what the results of both rows of each tile are multiplied by."""
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
            for number in range(BLOCKS):
                row, half = divmod(number, SIDE)
                place = plus(f"row_{row}", half * self.inner, "c")
                out.line(f"x{number} = load({self.lhs}, {place}, {self.plan.lanes})")
                if row:
                    out.line(f"x{number} = mul(x{number}, scale)")
                out.line(f"prefetch({self.lhs}, {plus(place, SIDE * self.step)})")
            for product, signs in enumerate(LEFT):
                place = plus("to", product * self.scratch.plane, "c")
                out.line(f"prefetch(factors, {plus(place, AHEAD_BYTES // 4)})")
                out.line(f"store(factors, {place}, {_combination('x', signs)})")

    def _write_rows(self) -> None:
        """Find the first elements of the two rows of a tile; the last one may have one alone."""
        second = f"tile * {SIDE} + 1"
        if self.nest.rows % SIDE:
            second = f"min({second}, {self.nest.rows - 1})"
        self.out.line(f"row_0 = {times(f'(tile * {SIDE})', self.step)}")
        self.out.line(f"row_1 = {times(f'({second})', self.step)}")

    def _write_column(self) -> None:
        """Find the first column of a vector: the last one ends where the columns do."""
        lanes = self.plan.lanes
        last = "first" if self.inner % lanes == 0 else f"min(first, {self.inner - lanes})"
        self.out.line(f"c = {last}")

    def _write_power(self) -> None:
        """Find the power of two that makes the second row about as large as the first one."""
        out, lanes = self.out, self.plan.lanes
        for row in range(SIDE):
            out.line(f"largest_{row} = {self.zero}")
        with out.block(f"for first in range(0, {self.inner}, {lanes}):"):
            self._write_column()
            for row in range(SIDE):
                sizes = [
                    f"abs(load({self.lhs}, {plus(f'row_{row}', half * self.inner, 'c')}, {lanes}))"
                    for half in range(SIDE)
                ]
                out.line(f"largest_{row} = maximum(largest_{row}, maximum({', '.join(sizes)}))")
        for row in range(SIDE):
            whole = f"splat_float32(reduce_maximum(largest_{row}), {lanes})"
            bits = f"bit_and(bit_cast_int32({whole}), splat_int32({EXPONENT_BITS}, {lanes}))"
            out.line(f"power_{row} = bit_cast_float32({bits})")
        low, high, one, nan = (
            f"splat_float32({number_text(number)}, {lanes})"
            for number in (LEAST_SCALE, LARGEST_SCALE, 1.0, math.nan)
        )
        out.line("scale = div(power_0, power_1)")
        is_near = f"bit_and(greater_equal(scale, {low}), less_equal(scale, {high}))"
        out.line(f"scale = where({is_near}, scale, {nan})")  # what is NaN is summed up directly
        for row in range(SIDE):
            out.line(f"has_{row} = greater(power_{row}, {self.zero})")
        out.line(f"scale = where(bit_and(has_0, has_1), scale, {one})")
        for row, back in enumerate((one, f"div({one}, scale)")):
            number = f"reduce_maximum(where(has_{row}, {back}, {self.zero}))"
            out.line(f"put(powers, (tile - begin) * {SIDE} + {row}, {number})")

    @override
    def _write_output(self) -> None:
        out, lanes, columns = self.out, self.plan.lanes, self.plan.columns
        out.line(f"start = (tile - begin) * {self.nest.block}")
        for row in range(SIDE):
            out.line(f"back_{row} = broadcast(powers, (tile - begin) * {SIDE} + {row}, {lanes})")
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

        Each of the first products does so with one block of the outputs, and each of all with a
        part of the rows that a block further lie where these do.
        """
        if self.plan.dot == self.plan.groups:
            self._write_fetches(row, rows)
            return
        with self.out.block("if part == 0:"):
            self._write_fetches(row, rows)

    def _write_fetches(self, row: str, rows: int) -> None:
        out, nest = self.out, self.nest
        with out.block(f"if element < {BLOCKS}:"):
            out.line(f"pixel = ({row} + begin) * {SIDE} + element // {SIDE}")
            out.line(f"column = channel + element % {SIDE} * {self.depth}")
            self.tiles.write_prefetch(out, rows, nest.block, "pixel", "column", apart=SIDE)
        if self.plan.block_units == self.plan.cut.tiles:
            return
        line = CACHE_LINE_BYTES // nest.kind.size_bytes
        lines = -(-nest.inner // (line * nest.panels * BLOCK_PRODUCTS))
        out.line(f"ahead = ((panel - panel_begin) * {BLOCK_PRODUCTS} + element) * {lines * line}")
        with out.block(f"if ahead < {nest.inner}:"):
            for number in range(lines):
                place = plus(f"({row} + end) * {SIDE * self.step}", "ahead", number * line)
                out.line(f"tile_prefetch({self.lhs}, {place}, {self.step}, {SIDE * rows})")

    def _write_columns(self, tag: str, count: int) -> None:
        """Add up the products of *count* columns of each half, and store the results."""
        out, lanes, block = self.out, self.plan.lanes, self.nest.block
        for product in range(BLOCK_PRODUCTS):
            place = plus("start", product * self.scratch.sums_plane, "c")
            out.line(f"m{product} = load(sums, {place}, {lanes})")
        for half in range(SIDE):
            place = plus(half * self.nest.panels * block, f"panel * {block}", "c")
            out.line(
                f"place_{half} = {place}\nscale_{half} = load({self.scales}, place_{half}, {lanes})"
            )
            rows = [_combination("m", SUMS[row * SIDE + half]) for row in range(SIDE)]
            factors = [f"mul(back_{row}, scale_{half})" for row in range(SIDE)]
            out.line(f"t_{tag}{half} = {self._tile(rows)}\nf_{half} = {self._tile(factors)}")
        with out.block(f"if not tile_is_finite(add(t_{tag}0, t_{tag}1)):"):
            self._write_direct_sums(tag)
        for half in range(SIDE):
            name = f"t_{tag}{half}"
            result = f"mul({name}, f_{half})"
            for bias in self.bias:
                row = f"tile_bias({bias}, place_{half}, {SIDE}, 1, {lanes})"
                result = f"fma({name}, f_{half}, {row})"
            out.line(f"{name} = {result}")
            self._write_store(f"{tag}{half}", half, count)

    def _tile(self, rows: Sequence[str]) -> str:
        """Return the expression of a tile of vectors, one in each row."""
        tile = f"tile_fill(sums, 0, {len(rows)}, 1, {self.plan.lanes})"
        for number, row in enumerate(rows):
            tile = f"tile_set({tile}, {number}, 0, {row})"
        return tile

    def _write_store(self, tag: str, half: int, count: int) -> None:
        """Store a tile of one half of the columns, or its first row."""
        out = self.out
        out.line(f"row_{tag} = tile * {SIDE}")
        out.line(f"column_{tag} = {plus('channel', half * self.depth, 'c')}")
        whole = self.nest.rows // SIDE
        if self.nest.rows % SIDE == 0:
            self._write_tile(tag, SIDE, count)
            return
        if whole:
            with out.block(f"if tile < {whole}:"):
                self._write_tile(tag, SIDE, count)
        with out.block(f"if tile == {whole}:"):
            out.line(f"t_{tag}_0 = {self._tile([f'tile_get(t_{tag}, 0, 0)'])}")
            self._write_tile(tag, 1, count, "_0")

    def _write_tile(self, tag: str, rows: int, count: int, end: str = "") -> None:
        pixel, channel = f"row_{tag}", f"column_{tag}"
        tile = f"t_{tag}{end}"
        self.tiles.write(self.out, tile, rows, columns=count, pixel=pixel, channel=channel)

    def _write_direct_sums(self, tag: str) -> None:
        """Sum up the results of one vector of each half directly, by the recovered weights."""
        out, lanes = self.out, self.plan.lanes
        self._write_rows()
        for number in range(BLOCKS):
            out.line(f"d{number} = {self.zero}")
        with out.block(f"for k in range({self.inner}):"):
            out.line(f"place = (panel * {BLOCK_PRODUCTS * self.inner} + k) * {self.nest.block} + c")
            for product in range(BLOCK_PRODUCTS):
                if RECOVERY[:, product].any():
                    place = plus("place", product * self.inner * self.nest.block)
                    out.line(f"u{product} = load({self.rhs}, {place}, {lanes})")
            for number in range(BLOCKS):
                row, half = divmod(number, SIDE)
                text = _combination("u", RECOVERY[number])
                out.line(f"w{number} = mul({text}, scale_{half})")
                place = plus(f"row_{row}", half * self.inner, "k")
                out.line(f"x{number} = broadcast({self.lhs}, {place}, {lanes})")
            for number in range(BLOCKS):
                row, half = divmod(number, SIDE)
                for inner in range(SIDE):
                    left, right = f"x{row * SIDE + inner}", f"w{inner * SIDE + half}"
                    out.line(f"d{number} = fma({left}, {right}, d{number})")
        for half in range(SIDE):
            out.line(f"t_{tag}{half} = {self._tile([f'd{half}', f'd{SIDE + half}'])}")
            out.line(f"f_{half} = tile_fill(sums, 1, {SIDE}, 1, {lanes})")


def _combination(name: str, signs: Sequence[int]) -> str:
    """Return the sum of the numbered vectors called *name*, with these *signs*."""
    (first, _), *others = terms(signs)
    text = f"{name}{first}"
    for number, is_subtracted in others:
        text = f"{'sub' if is_subtracted else 'add'}({text}, {name}{number})"
    return text
