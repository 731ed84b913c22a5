"""Keys and values in scratch as matrix registers read them: pairs of neighbours of each column.

A pair of a key's elements is moved as one number of 32 bits, so that keys are transposed as those
of such elements are.
"""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import override

from glow_nb.base.size import surely
from glow_nb.kernels.attention.matrix_plan import DOT, MATRIX_KEYS
from glow_nb.kernels.attention.packing import Packing
from glow_nb.kernels.attention.plan import LAST_KEYS
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter

PAIR = "int32"
"""The kind that a pair is moved as."""


class MatrixPacking(Packing):
    """Writes panels of ``[depth / 2, columns, 2]`` of keys, ``[keys / 2, columns, 2]`` of values.

    What fills up the depth are zeros in keys as in queries, and what fills up the keys are zeros in
    values as in weights, so that nothing that is left in memory is multiplied.
    """

    @override
    def write_start(self, out: SourceWriter) -> None:
        """Write what is done once: what is copied never reaches the elements after the depth."""
        plan = self.plan
        if plan.copied_depth != plan.depth:
            for name in ("keys", LAST_KEYS):
                out.line(f"clear({name}, 0, {plan.regions[name][0]})")
        for name in ("key", "keys", LAST_KEYS):
            out.line(f"{name}_pairs = as_{PAIR}({name})")

    @property
    def _pairs_are_whole(self) -> bool:
        """Return whether each key begins at an even element, and has an even number of them."""
        key, depth = self.shape.key, self.plan.depth
        steps = (key.image, key.head, key.token, depth)
        return all(surely(step % DOT.group, "==", 0) for step in steps)

    @override
    def write_keys(self, out: SourceWriter) -> None:
        lanes = self.plan.lanes
        with out.block(f"for square in range(length // {lanes}):"):
            if self._pairs_are_whole:
                self._write_pairs(out, "key", self._first_pair, self.shape.key.token // DOT.group)
            else:
                self._write_copied_square(out, str(lanes))
        if surely(self.shape.keys % lanes, "==", 0):
            return
        with out.block(f"if length % {lanes}:"):
            out.line(f"square = length // {lanes}")
            self._write_copied_square(out, f"length % {lanes}")

    @property
    def _first_key(self) -> str:
        number = f"(begin + square * {self.plan.lanes})"
        return plus("first_key", times(number, self.shape.key.token))

    @property
    def _first_pair(self) -> str:
        return f"({self._first_key}) // {DOT.group}"

    def _write_copied_square(self, out: SourceWriter, rows: str) -> None:
        """Transpose some keys from a copy that has room for one key in each lane.

        What stands after them there is that of another time: it is hidden among the scores.
        """
        depth, step = self.plan.depth, self.plan.copied_depth
        out.line(f"key_at = {self._first_key}")
        with out.block(f"for row in range({rows}):"):
            place = plus("key_at", times("row", self.shape.key.token))
            out.line(f"copy({LAST_KEYS}, {times('row', step)}, key, {place}, {depth})")
        self._write_pairs(out, LAST_KEYS, "0", step // DOT.group)

    def _write_pairs(self, out: SourceWriter, source: str, first: str, step: int) -> None:
        """Transpose one key for each lane, in pairs, the first of which is *first*."""
        plan, lanes = self.plan, self.plan.lanes
        vectors, columns = plan.score_vectors, plan.panel_keys
        pairs = (plan.copied_depth if source == LAST_KEYS else plan.depth) // DOT.group
        panel = times(f"(square // {vectors})", plan.copied_depth // DOT.group * columns)
        out.line(f"packed_at = {plus(panel, times(f'(square % {vectors})', lanes))}")
        out.line(f"pairs_at = {first}")
        whole, rest = pairs - pairs % lanes, pairs % lanes
        if whole:
            with out.block(f"for d in range(0, {whole}, {lanes}):"):
                tile = f"tile_load({source}_pairs, pairs_at + d, {step}, {lanes}, 1, {lanes})"
                self._write_turned(out, "d", tile, lanes)
        if rest:
            size = f"{lanes}, 1, {lanes}, {rest}"
            tile = f"tile_load_masked({source}_pairs, pairs_at + {whole}, {step}, {size})"
            self._write_turned(out, str(whole), tile, rest)

    def _write_turned(self, out: SourceWriter, first: str, tile: str, count: int) -> None:
        step = self.plan.panel_keys
        to = plus("packed_at", times(first, step))
        out.line(f"tile_store(keys_pairs, {to}, {step}, tile_transpose({tile}, {count}))")

    @override
    def write_values(self, out: SourceWriter) -> None:
        token = self.shape.value.token
        out.line(f"first_of_block = {plus('first_value', times('begin', token))}")
        with out.block("for pair in range(length // 2):"):
            out.line(f"values_at = {plus('first_of_block', times('pair', 2 * token))}")
            self._write_pair(out, is_whole=True)
        if not surely(self.shape.keys % DOT.group, "==", 0):
            with out.block("if length % 2:"):
                out.line("pair = length // 2")
                out.line(f"values_at = {plus('first_of_block', times('pair', 2 * token))}")
                self._write_pair(out, is_whole=False)
        if not surely(self.shape.keys % MATRIX_KEYS, "==", 0):
            self._write_zeros(out)

    def _write_pair(self, out: SourceWriter, *, is_whole: bool) -> None:
        """Write the values of two keys, or of the last one, whose neighbours are zeros."""
        lanes, token = self.plan.lanes, self.shape.value.token
        for column, count, to in self._vectors():
            first, second = (self._value(plus("values_at", n, column), count) for n in (0, token))
            if not is_whole:
                second = f"splat_{self.shape.kind.value}(0.0, {lanes})"
            out.line(f"store(values, {to}, interleave({first}, {second}))")

    def _value(self, at: str, count: int) -> str:
        lanes = self.plan.lanes
        if count == lanes:
            return f"load(value, {at}, {lanes})"
        return f"load_masked(value, {at}, {lanes}, {count})"

    def _vectors(self) -> Iterator[tuple[int, int, str]]:
        """Yield the first column of each vector, how many of it there are, and where it goes."""
        plan, width = self.plan, self.shape.width
        step = DOT.group * plan.panel_width
        for column in range(0, width, plan.lanes):
            panel, beside = divmod(column, plan.panel_width)
            place = panel * plan.block_keys * plan.panel_width + beside * DOT.group
            yield column, min(plan.lanes, width - column), plus(times("pair", step), place)

    def _write_zeros(self, out: SourceWriter) -> None:
        """Write zeros as the values of the keys that fill up the last step."""
        plan = self.plan
        step, size = DOT.group * plan.panel_width, plan.block_keys * plan.panel_width
        out.line("pairs = (length + 1) // 2")
        out.line(f"missing = (length + {MATRIX_KEYS - 1}) // {MATRIX_KEYS} * {MATRIX_KEYS} // 2")
        with out.block(f"for panel in range({plan.width // plan.panel_width}):"):
            at = plus(times("panel", size), times("pairs", step))
            out.line(f"clear(values, {at}, {times('(missing - pairs)', step)})")
