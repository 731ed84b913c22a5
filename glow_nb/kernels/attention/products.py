"""The two products of attention: queries by keys, and exponentials by values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from glow_nb.base.size import bounds
from glow_nb.kernels.attention.packing import Packing
from glow_nb.kernels.attention.plan import MOST_CHAINED_KEYS, AttentionPlan
from glow_nb.kernels.attention.shape import AttentionShape
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import blocks_of, floor_power_of_two


@dataclass(frozen=True)
class Products:
    """Writes the products of a chunk of rows and the block of keys from ``begin`` on.

    Attributes:
        shape: The attention.
        plan: Its blocks.
        packing: The function that widens operands.
    """

    shape: AttentionShape
    plan: AttentionPlan
    packing: Packing

    def write_start(self, out: SourceWriter) -> None:
        """Write what is done once, before all blocks."""

    def write_scores(self, out: SourceWriter) -> None:
        """Write the products of the queries and all keys that the chunk reaches."""
        if self.plan.packs_keys:
            self._write_panels(out)
        else:
            self._write_dots(out)

    def _write_panels(self, out: SourceWriter) -> None:
        """Multiply by panels of packed keys; tiles that see none of a panel are left out.

        Where the number of keys is open, the last panel has as few vectors as its keys need; one
        that needs all of them is like the others, as its keys are packed in whole vectors.
        """
        columns, lanes = self.plan.panel_keys, self.plan.lanes
        if not self.plan.rest_is_open or columns == lanes:
            with out.block(f"for panel in range((reach + {columns - 1}) // {columns}):"):
                self._write_panel(out, self.plan.score_vectors)
            return
        out.line(f"panels = (reach + {lanes - 1}) // {columns}")
        with out.block("for panel in range(panels):"):
            self._write_panel(out, self.plan.score_vectors)
        out.line(f"panel = panels\nrest = reach - panels * {columns}")
        for vectors in range(1, self.plan.score_vectors):
            with out.block(f"if {(vectors - 1) * lanes} < rest <= {vectors * lanes}:"):
                self._write_panel(out, vectors)

    def _write_panel(self, out: SourceWriter, vectors: int) -> None:
        """Multiply by the first *vectors* of panel number ``panel``."""
        shape, plan = self.shape, self.plan
        columns = plan.panel_keys
        out.line(f"keys_at = {times('panel', plan.copied_depth * columns)}")
        start = "0"
        if shape.offset is not None:
            row = shape.first_row(f"begin + {times('panel', columns)}")
            start = f"max({row} - first - chunk, 0) // {plan.rows}"
        with out.block(f"for tile in range({start}, tiles):"):
            self._write_score_tile(out, vectors)

    def _write_score_tile(self, out: SourceWriter, vectors: int) -> None:
        """Multiply the rows of a tile by the first *vectors* of the panel."""
        plan, columns, depth = self.plan, self.plan.panel_keys, self.shape.depth
        out.line(f"queries_at = {times(self._row_of_tile, depth)}")
        out.line(f"t = tile_fill(queries, 0.0, {plan.rows}, {vectors}, {plan.lanes})")
        with out.block(f"for d in range({depth}):"):
            x, w = "queries_at + d", plus("keys_at", times("d", columns))
            out.line(f"t = tile_fma(t, queries, {x}, {depth}, keys, {w})")
        at = plus(times("tile", plan.rows * plan.score_stride), times("panel", columns))
        out.line(f"tile_store(scores, {at}, {plan.score_stride}, t)")

    def _write_dots(self, out: SourceWriter) -> None:
        """Multiply few queries by keys where they lie: dot products along the depth.

        As many keys as there are lanes go together; their sums are transposed and added up. The
        last ones begin early enough to be as many. If there may be fewer, each goes alone then.
        """
        keys, lanes = self.shape.keys, self.plan.lanes
        least, most = bounds(keys)
        together = min(lanes, floor_power_of_two(most))
        if least >= together:
            self._write_dots_together(out, together)
            return
        with out.block(f"if {keys} >= {together}:"):
            self._write_dots_together(out, together)
        with out.block("else:"):
            self._write_dots_together(out, 1)

    def _write_dots_together(self, out: SourceWriter, together: int) -> None:
        """Write the dot products by *together* keys at a time."""
        shape, plan, lanes = self.shape, self.plan, self.plan.lanes
        depth, step = shape.depth, shape.key.token
        with out.block(f"for beside in range(0, reach, {together}):"):
            out.line(f"first_of_these = min(begin + beside, {shape.keys - together})")
            out.line(f"key_at = {plus('first_key', times('first_of_these', step))}")
            with out.block("for row in range(chunk_rows):"):
                out.line(f"query_at = {times('(chunk + row)', depth)}")
                out.line(f"t = tile_fill(queries, 0.0, {together}, 1, {lanes})")
                for block in blocks_of(out, depth, lanes):
                    at, of_key = plus("query_at", block.column), plus("key_at", block.column)
                    tile = f"tile_load(key, {of_key}, {step}, {together}, 1, {lanes})"
                    x = f"load(queries, {at}, {lanes})"
                    if block.count is not None or block.lanes < lanes:
                        size = f"{lanes}, {block.count or block.lanes}"
                        tile = f"tile_load_masked(key, {of_key}, {step}, {together}, 1, {size})"
                        x = f"load_masked(queries, {at}, {size})"
                    out.line(f"t = fma({self.packing.widened(tile)}, {x}, t)")
                out.line(f"turned = tile_transpose(t, {lanes})")
                parts = [f"tile_get(turned, {lane}, 0)" for lane in range(lanes)]
                while len(parts) > 1:
                    parts = [f"add({a}, {b})" for a, b in zip(parts[::2], parts[1::2], strict=True)]
                at = plus(times("row", plan.score_stride), "first_of_these - begin")
                out.line(f"store(scores, {at}, {parts[0]})")

    def write_sums(self, out: SourceWriter) -> None:
        """Add the products of the exponentials and the values of the block to ``sums``."""
        shape, plan = self.shape, self.plan
        columns, stride = plan.panel_width, plan.score_stride
        size = f"{plan.rows}, {plan.sum_vectors}, {plan.lanes}"
        pointer, step = ("values", columns) if plan.packs_values else ("value", shape.value.token)
        with out.block(f"for panel in range({plan.width // columns}):"):
            start = times("panel", plan.block_keys * columns)
            if not plan.packs_values:
                start = plus("first_value", times("begin", step), times("panel", columns))
            out.line(f"values_at = {start}")
            with out.block("for tile in range(tiles):"):
                out.line(f"scores_at = {times('tile', plan.rows * stride)}")
                at = times(self._row_of_tile, plan.width)
                out.line(f"sums_at = {plus(at, times('panel', columns))}")
                with self._chains(out) as keys:
                    out.line(f"t = tile_fill(sums, 0.0, {size})")
                    with out.block(f"for k in {keys}:"):
                        w = plus("values_at", times("k", step))
                        out.line(
                            f"t = tile_fma(t, scores, scores_at + k, {stride}, {pointer}, {w})"
                        )
                    before = f"tile_load(sums, sums_at, {plan.width}, {size})"
                    out.line(f"tile_store(sums, sums_at, {plan.width}, add(t, {before}))")

    @contextmanager
    def _chains(self, out: SourceWriter) -> Iterator[str]:
        """Write the loop over the chains of a block, if it has several; yields their keys."""
        seen = self._seen_by_tile
        if self.plan.block_keys <= MOST_CHAINED_KEYS:
            yield f"range({seen})"
            return
        out.line(f"seen = {seen}")
        with out.block(f"for chain in range(0, seen, {MOST_CHAINED_KEYS}):"):
            yield f"range(chain, min(chain + {MOST_CHAINED_KEYS}, seen))"

    @property
    def _row_of_tile(self) -> str:
        """The first row of the tile in the block."""
        return f"({plus('chunk', times('tile', self.plan.rows))})"

    @property
    def _seen_by_tile(self) -> str:
        """The number of keys of the block that the last row of the tile sees."""
        if self.shape.offset is None:
            return "length"
        last = plus("first + chunk", times("tile", self.plan.rows), self.plan.rows - 1)
        return f"min(reach, {self.shape.limit_of(last)})"
