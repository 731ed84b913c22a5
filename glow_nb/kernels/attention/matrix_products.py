"""The two products of attention in matrix registers (AMX)."""

from __future__ import annotations

import math

from typing_extensions import override

from glow_nb.base.dot_instruction import MATRIX_COLUMNS
from glow_nb.kernels.attention.matrix_plan import DOT, MATRIX_KEYS
from glow_nb.kernels.attention.products import Products
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


def split_factor(factor: float) -> tuple[float, float]:
    """Return a power of two, maybe negative or 0, and the number from 1 to 2 that is left of it.

    Queries that are multiplied by the first are still exact as bfloat16; scores are multiplied by
    the other one.
    """
    mantissa, exponent = math.frexp(factor)
    if mantissa == 0:
        return 0.0, 1.0
    return math.copysign(math.ldexp(1.0, exponent - 1), factor), 2 * abs(mantissa)


class MatrixProducts(Products):
    """Writes products whose sums are in matrix registers, from where they go to scratch.

    The rows of the last tile of a chunk may be more than there are: what is computed for these
    stays in the scratch.
    """

    @override
    def write_start(self, out: SourceWriter) -> None:
        """Write how the registers are used by all products of the kernel."""
        plan, tiles = self.plan, self.plan.registers
        form = f"{tiles.part_rows}, {tiles.last_rows}, {tiles.parts}, {tiles.panels}"
        groups = MATRIX_KEYS // DOT.group
        out.line(f"weights = as_{plan.kind.value}(scores)")
        for name, pointer, row in (
            ("score_tiles", "scores", plan.score_stride),
            ("sum_tiles", "sums", plan.width),
        ):
            out.line(f"{name} = matrix_tiles({pointer}, {row}, {form}, {groups})")
        out.line("matrix_configure(score_tiles)")

    @override
    def _write_panels(self, out: SourceWriter) -> None:
        """Multiply by panels of keys; for the last one, by the registers that it needs."""
        columns, panels = self.plan.panel_keys, self.plan.registers.panels
        out.line(f"panels = (reach + {MATRIX_COLUMNS - 1}) // {columns}")
        with out.block("for panel in range(panels):"):
            self._write_panel(out, panels)
        if panels == 1:
            return
        out.line(f"panel = panels\nrest = reach - panels * {columns}")
        for used in range(1, panels):
            first, last = (used - 1) * MATRIX_COLUMNS, used * MATRIX_COLUMNS
            with out.block(f"if {first} < rest <= {last}:"):
                self._write_panel(out, used)

    @override
    def _write_score_tile(self, out: SourceWriter, vectors: int) -> None:
        """Multiply the rows of a tile by the first *vectors* registers of the panel."""
        plan, depth = self.plan, self.plan.copied_depth
        columns = plan.panel_keys
        at = plus(times("tile", plan.rows * plan.score_stride), times("panel", columns))
        out.line(f"queries_at = {times(self._row_of_tile, depth)}")
        out.line(f"scores_at = {at}")
        blocks = f"score_tiles, scores_at, {vectors}"
        left = f"queries, queries_at, {depth}, {plan.registers.part_rows * depth}, {MATRIX_KEYS}"
        right = f"keys, keys_at, {DOT.group * columns}, {depth // DOT.group}, 0, 0"
        out.line(f"matrix_clear({blocks})")
        out.line(f"{plan.dot}({blocks}, {left}, {right})")
        out.line(f"matrix_store({blocks})")

    @override
    def write_sums(self, out: SourceWriter) -> None:
        columns, width = self.plan.panel_width, self.shape.width
        whole, rest = divmod(width, columns)
        with out.block(f"for panel in range({whole}):"):
            self._write_sum_tiles(out, columns)
        if rest:
            out.line(f"panel = {whole}")
            self._write_sum_tiles(out, rest)

    def _write_sum_tiles(self, out: SourceWriter, columns: int) -> None:
        """Write the sums of the first *columns* of a panel for all tiles."""
        plan, stride = self.plan, 2 * self.plan.score_stride
        out.line(f"values_at = {times('panel', plan.block_keys * plan.panel_width)}")
        with out.block("for tile in range(tiles):"):
            seen = f"({self._seen_by_tile} + {MATRIX_KEYS - 1}) // {MATRIX_KEYS}"
            out.line(f"pairs = {seen} * {MATRIX_KEYS // DOT.group}")
            at = plus(times(self._row_of_tile, plan.width), times("panel", plan.panel_width))
            out.line(f"sums_at = {at}")
            blocks = f"sum_tiles, sums_at, {-(-columns // MATRIX_COLUMNS)}"
            first = times("tile", plan.rows * stride)
            apart = plan.registers.part_rows * stride
            left = f"weights, {first}, {stride}, {apart}, {MATRIX_KEYS}"
            right = f"values, values_at, {DOT.group * plan.panel_width}, pairs, 0, 0"
            with out.block("if pairs > 0:"):
                out.line(f"matrix_load({blocks})")
                out.line(f"{plan.dot}({blocks}, {left}, {right})")
                out.line(f"matrix_store({blocks})")
