"""Keys transposed and values copied to scratch, as the tiles of a product read them."""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.attention.plan import LAST_KEYS, AttentionPlan
from glow_nb.kernels.attention.shape import AttentionShape
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


@dataclass(frozen=True)
class Packing:
    """Writes the copies of the keys and values from number ``begin`` on, ``length`` of them.

    Attributes:
        shape: The attention.
        plan: Its blocks.
    """

    shape: AttentionShape
    plan: AttentionPlan

    def widened(self, value: str) -> str:
        """Return *value*, a vector or tile of the operands' kind, in the kind of the sums."""
        shape = self.shape
        is_wide = shape.kind is shape.computed
        return value if is_wide else f"convert_{shape.computed.value}({value})"

    def copied(self, value: str) -> str:
        """Return *value*, a vector of the kind of the sums, in that of copied operands."""
        plan = self.plan
        is_wide = plan.multiplied is plan.computed
        return value if is_wide else f"flush_{plan.multiplied.value}({value})"

    def write_start(self, out: SourceWriter) -> None:
        """Write what is done once, before all blocks."""

    def write_keys(self, out: SourceWriter) -> None:
        """Write the keys to ``keys``: panels of ``[depth, panel_keys]``."""
        lanes, step = self.plan.lanes, self.shape.key.token
        rest = self.shape.keys % lanes
        with out.block(f"for square in range(length // {lanes}):"):
            self._write_square(out, lanes, step)
        if rest == 0:
            return
        with out.block(f"if length % {lanes}:"):
            out.line(f"square = length // {lanes}")
            if self.plan.rest_is_open:
                self._write_last_square(out)
            else:
                self._write_square(out, rest, step)

    def _write_last_square(self, out: SourceWriter) -> None:
        """Transpose the last keys, fewer than lanes, from a copy with room for one in each lane.

        What stands after them there is that of another time: it is hidden among the scores.
        """
        lanes, depth = self.plan.lanes, self.shape.depth
        out.line(
            f"key_at = first_key + {times(f'(begin + square * {lanes})', self.shape.key.token)}"
        )
        with out.block(f"for row in range(length % {lanes}):"):
            place = plus("key_at", times("row", self.shape.key.token))
            out.line(f"copy({LAST_KEYS}, {times('row', depth)}, key, {place}, {depth})")
        self._write_square(out, lanes, depth, LAST_KEYS)

    def _write_square(self, out: SourceWriter, rows: int, step: int, source: str = "key") -> None:
        """Transpose *rows* keys, one for each lane or the rest, from ``square * lanes`` on."""
        plan, lanes, depth = self.plan, self.plan.lanes, self.shape.depth
        vectors = plan.score_vectors
        panel, beside = ("square", "0")
        if vectors > 1:
            panel, beside = f"square // {vectors}", times(f"square % {vectors}", lanes)
        out.line(f"packed_at = {plus(times(f'({panel})', depth * plan.panel_keys), beside)}")
        if source == LAST_KEYS:
            out.line("key_at = 0")
        else:
            out.line(f"key_at = first_key + {times(f'(begin + square * {lanes})', step)}")
        whole, rest = depth - depth % lanes, depth % lanes
        if whole:
            with out.block(f"for d in range(0, {whole}, {lanes}):"):
                tile = f"tile_load({source}, key_at + d, {step}, {rows}, 1, {lanes})"
                self._write_transposed(out, "d", tile, lanes)
        if rest:
            size = f"{rows}, 1, {lanes}, {rest}"
            tile = f"tile_load_masked({source}, key_at + {whole}, {step}, {size})"
            self._write_transposed(out, str(whole), tile, rest)

    def _write_transposed(self, out: SourceWriter, first: str, tile: str, columns: int) -> None:
        step = self.plan.panel_keys
        turned = f"tile_transpose({self.widened(tile)}, {columns})"
        out.line(f"tile_store(keys, packed_at + {times(first, step)}, {step}, {turned})")

    def write_values(self, out: SourceWriter) -> None:
        """Write the values to ``values``: panels of ``[block_keys, panel_width]``."""
        plan, width = self.plan, self.shape.width
        columns, size = plan.panel_width, plan.block_keys * plan.panel_width
        whole = width // columns
        out.line(f"values_at = first_value + {times('begin', self.shape.value.token)}")
        if whole:
            with out.block(f"for panel in range({whole}):"), out.block("for k in range(length):"):
                at = plus("values_at", self._token, times("panel", columns))
                tile = f"tile_load(value, {at}, 0, 1, {plan.sum_vectors}, {plan.lanes})"
                to = plus(times("panel", size), times("k", columns))
                out.line(f"tile_store(values, {to}, 0, {self.widened(tile)})")
        if width % columns:
            with out.block("for k in range(length):"):
                self._write_last_panel(out, whole * columns, whole * size)

    def _write_last_panel(self, out: SourceWriter, first: int, place: int) -> None:
        """Write value number ``k`` from column *first* on, with zeros after it."""
        lanes, kind = self.plan.lanes, self.shape.computed.value
        for number in range(self.plan.sum_vectors):
            column = first + number * lanes
            at, count = plus("values_at", self._token, column), self.shape.width - column
            vector = f"splat_{kind}(0.0, {lanes})"
            if count >= lanes:
                vector = self.widened(f"load(value, {at}, {lanes})")
            elif count > 0:
                vector = self.widened(f"load_masked(value, {at}, {lanes}, {count})")
            to = plus(times("k", self.plan.panel_width), place + number * lanes)
            out.line(f"store(values, {to}, {vector})")

    @property
    def _token(self) -> str:
        return times("k", self.shape.value.token)
