"""The weights of a Winograd convolution of integers, whose filter comes as it is.

For one inner block of the sums after the other, the weights are transformed to scratch in the
second-level cache, for two rows of the elements of a tile at a time, which share most of their
arithmetic. From memory come its taps alone, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from typing_extensions import override

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.kernels.bilinear.plan import BilinearPlan, Scratch
from glow_nb.kernels.bilinear.weights import ReadWeights
from glow_nb.kernels.winograd.nest import WinogradNest
from glow_nb.kernels.writing.index_text import plus
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.numerics.cook_toom import row_pairs


class MadeWeights(ReadWeights):
    """Weights that the kernel transforms to scratch, for a pair of rows of elements at a time.

    The weights of element ``e`` of these rows lie at ``e * plane``. Meanwhile the taps that follow,
    of the next inner block or panel, are brought into the cache, some lines for each element.
    """

    nest: WinogradNest
    pace = 0

    def __init__(self, nest: WinogradNest, plan: BilinearPlan, scratch: Scratch) -> None:
        super().__init__(nest, plan, scratch, "made")
        self.plane, self.planes = scratch.weights_plane, nest.transformed_at_once
        self.group_taps = prod(nest.shape.kernel) * self.row

    @override
    def write_pointer(self, out: SourceWriter) -> None:
        kind = self.plan.kinds.right.value
        out.line(f"made = as_{kind}(at(scratch, {self.scratch.weights}))")

    @contextmanager
    @override
    def elements(self, out: SourceWriter) -> Iterator[str]:
        pairs, wide = row_pairs(self.nest.sizes[1]), self.nest.sizes[2]
        with self.blocks(out) as part, out.block(f"for pair in range({len(pairs)}):"):
            for number, rows in enumerate(pairs):
                with out.block(f"if pair == {number}:"):
                    self._write_transform(out, part, number)
                    first, last = rows[0] * wide, rows[-1] * wide
                    out.line(f"first, last, made_elements = {first}, {last}, {len(rows) * wide}")
            with out.block("for number in range(made_elements):"):
                out.line(f"element = number + (first if number < {wide} else last - {wide})")
                out.line(f"weights = number * {self.plane}")
                self._write_prefetch(out, part)
                yield part

    def _write_transform(self, out: SourceWriter, part: str, pair: int) -> None:
        """Transform the taps of an inner block for one pair of rows."""
        (*_, high, wide), taps = self.nest.shape.kernel, self.group_taps
        sizes = ", ".join(map(str, (*self.nest.tile[1:], high, wide, pair, self.plan.factor_lanes)))
        out.line(f"taps = ({plus(f'panel * {self.plan.groups}', part)}) * {taps}")
        with (
            out.block(f"for c in range({self.count}):"),
            out.block(f"for i in range(0, {self.row}, {self.plan.factor_lanes}):"),
        ):
            for tap in range(self.nest.shape.kernel[0]):
                source = plus(f"taps + c * {taps}", tap * high * wide * self.row, "i")
                to = plus(f"c * {self.row}", tap * self.planes * self.plane, "i")
                out.line(
                    f"winograd_weights(made, {to}, {self.plane}, filter, {source}, {self.row}, "
                    f"{sizes})"
                )

    def _write_prefetch(self, out: SourceWriter, part: str) -> None:
        """Prefetch this element's share of the taps after the inner block."""
        line = CACHE_LINE_BYTES // self.nest.taps_kind.size_bytes
        lines = -(-self.plan.dot * self.group_taps // (self.nest.sums * line))
        lines = min(lines, self.plan.fetch_lines or lines)
        group = plus(f"panel * {self.plan.groups}", part, self.plan.dot)
        place = f"({group}) * {self.group_taps} + element * {lines * line}"
        out.line(f"tile_prefetch(filter, {place}, {line}, {lines})")
