"""The running softmax of a kernel of attention: a chunk of scores becomes exponentials."""

from __future__ import annotations

import math
from dataclasses import dataclass

from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.attention.matrix_plan import MATRIX_KEYS
from glow_nb.kernels.attention.plan import AttentionPlan
from glow_nb.kernels.attention.shape import AttentionShape, Mask
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import SourceWriter

LOG2_E = math.log2(math.e)

SLACK = 4.0
"""A row's peak follows its largest score when that is greater by more than this: few blocks of keys
change it after the first, and exponentials of up to 55 have as many digits as those up to 1."""


@dataclass(frozen=True)
class RunningSoftmax:
    """Writes what happens to the scores of ``chunk_rows`` rows, from row ``chunk`` of the block on.

    ``scores`` become exponentials; ``peaks``, ``totals`` and ``sums`` of the rows follow. A few
    rows are taken together, as the steps of one wait for each other. Keys up to ``reach`` are seen
    by the last row of the chunk.

    Attributes:
        shape: The attention.
        plan: Its blocks.
        softcap: Bound of the scores, 0 for none.
        fill: Score of what a bool mask hides.
        factor: The positive factor of scores in scratch, applied first.
    """

    shape: AttentionShape
    plan: AttentionPlan
    softcap: float
    fill: float
    factor: float = 1.0

    def write(self, out: SourceWriter) -> None:
        """Write the loops over the rows of the chunk."""
        plan, lanes = self.plan, self.plan.lanes
        if self._is_rewritten:
            with out.block("for row in range(chunk_rows):"):
                out.line(f"row_at = {times('row', plan.score_stride)}")
                self._write_masked(out)
        with out.block(f"for row in range(0, chunk_rows, {plan.softmax_rows}):"):
            out.line(f"scores_at = {times('row', plan.score_stride)}")
            limit = "length"
            if self.shape.offset is not None:
                limit = self.shape.limit_of(f"first + chunk + row + {plan.softmax_rows - 1}")
            out.line(f"seen = ({limit} + {lanes - 1}) // {lanes} * {lanes}")
            self._write_hidden(out)
            self._write_peaks(out)
            self._write_exponentials(out)
            if plan.is_matrix:
                self._write_zeros_behind(out)

    @property
    def _kind(self) -> str:
        return self.shape.computed.value

    @property
    def _hidden(self) -> str:
        return self._splat(float("-inf"))

    def _splat(self, number: float) -> str:
        return f"splat_{self._kind}({number_text(number)}, {self.plan.lanes})"

    def _rows(self, pointer: str, at: str, stride: int) -> str:
        """Return a vector of each of the rows that are taken together."""
        rows = self.plan.softmax_rows
        return f"tile_load({pointer}, {at}, {stride}, {rows}, 1, {self.plan.lanes})"

    @property
    def takes_powers_of_two(self) -> bool:
        """Return whether scores times the factor are exponents of 2, not of e.

        They are multiplied where they are read, in one instruction with the difference from the
        peak. Scores beyond 2.3e38 are infinite then. Where a mask is added, they stay as they are:
        it may have the least number that there is.
        """
        return self.plan.is_matrix and not self._is_rewritten

    @property
    def _is_rewritten(self) -> bool:
        """Return whether all scores are read and stored once more before the softmax."""
        return bool(self.shape.mask or self.softcap)

    @property
    def _scores(self) -> str:
        return self._rows("scores", "scores_at + c", self.plan.score_stride)

    def _multiplied(self, scores: str) -> str:
        """Return *scores*, a vector or a tile, times the factor."""
        return scores if self.factor == 1 else f"mul({scores}, {self._splat(self.factor)})"

    def _write_masked(self, out: SourceWriter) -> None:
        """Bound the scores of a row, and mask them; a mask is not read beyond its row."""
        shape, lanes, mask = self.shape, self.plan.lanes, self.shape.mask
        score = self._multiplied(f"load(scores, row_at + c, {lanes})")
        if self.softcap:  # the queries' factor has divided by the bound
            score = f"mul(tanh({score}), {self._splat(self.softcap)})"
        rest = shape.keys % lanes if mask and mask.key else 0
        is_even = rest == 0
        end = "reach" if is_even else f"min(reach, ({shape.keys} - begin) // {lanes} * {lanes})"
        if mask:
            row = "first + chunk + row"
            indices = ["image", shape.head_of(row), shape.query_of(row), "begin"]
            steps = (mask.image, mask.head, mask.query, mask.key)
            out.line(f"mask_at = {index_text(indices, steps)}")
        with out.block(f"for c in range(0, {end}, {lanes}):"):
            load = f"load(mask, mask_at + c, {lanes})"
            if mask and not mask.key:
                load = f"broadcast(mask, mask_at, {lanes})"
            out.line(f"store(scores, row_at + c, {self._with_mask(mask, score, load)})")
        if not is_even:
            with out.block(f"if reach > {shape.keys - rest} - begin:"):
                out.line(f"c = {shape.keys - rest} - begin")
                load = f"load_masked(mask, mask_at + c, {lanes}, {rest})"
                out.line(f"store(scores, row_at + c, {self._with_mask(mask, score, load)})")

    def _with_mask(self, mask: Mask | None, score: str, load: str) -> str:
        if mask is None:
            return score
        if mask.kind is ElementKind.BOOL:
            return f"where({load}, {score}, {self._splat(self.fill)})"
        wide = load if mask.kind is self.shape.computed else f"convert_{self._kind}({load})"
        return f"add({score}, {wide})"

    def _write_hidden(self, out: SourceWriter) -> None:
        """Hide what the last vectors of the rows have beyond the keys that they see."""
        shape, plan, lanes = self.shape, self.plan, self.plan.lanes
        score = f"load(scores, c, {lanes})"
        if shape.offset is not None:
            with out.block(f"for beside in range(row, row + {plan.softmax_rows}):"):
                out.line(f"limit = {shape.limit_of('first + chunk + beside')}")
                out.line(f"row_at = {times('beside', plan.score_stride)}")
                with out.block(f"for c in range(limit // {lanes} * {lanes}, seen, {lanes}):"):
                    inside = f"less(iota_int32({lanes}), splat_int32(limit - c, {lanes}))"
                    score = f"load(scores, row_at + c, {lanes})"
                    out.line(f"store(scores, row_at + c, where({inside}, {score}, {self._hidden}))")
                if not plan.is_matrix:
                    with out.block(f"for c in range(seen, reach, {lanes}):"):
                        out.line(f"store(scores, row_at + c, {self._splat(0.0)})")
        elif shape.keys % lanes != 0:
            rest = f"length % {lanes}" if plan.rest_is_open else shape.keys % lanes
            with out.block(f"if length % {lanes}:"):
                out.line(f"c = length // {lanes} * {lanes}")
                inside = f"less(iota_int32({lanes}), splat_int32({rest}, {lanes}))"
                seen = f"where({inside}, {self._scores}, {self._hidden})"
                out.line(f"tile_store(scores, scores_at + c, {plan.score_stride}, {seen})")

    def _write_peaks(self, out: SourceWriter) -> None:
        """Let the peaks of the rows follow their largest scores, if one has grown by much.

        NaN is not looked for: it comes back in exponentials.
        """
        lanes = self.plan.lanes
        out.line(f"peaks_at = (chunk + row) * {lanes}")
        out.line(f"peak = {self._rows('peaks', 'peaks_at', lanes)}")
        out.line(f"largest = {self._least('peak')}")
        with out.block(f"for c in range(0, seen, {lanes}):"):
            out.line(f"x = {self._scores}")
            out.line("largest = where(less(largest, x), x, largest)")
        slack = SLACK
        if self.takes_powers_of_two:
            slack *= LOG2_E
            out.line(f"largest = {self._multiplied('largest')}")
            out.line("largest = where(less(largest, peak), peak, largest)")
        out.line(f"enough = add(peak, {self._splat(slack)})")
        with out.block("if tile_any(greater(largest, enough)):"):
            self._write_new_peaks(out)
        out.line(f"base = {self._base('peak')}")

    def _least(self, peak: str) -> str:
        """The initial value of the largest score; scores before their multiplication have none.

        The factor is positive: the largest score is the largest one times the factor.
        """
        return f"add({self._hidden}, tile_zero({peak}))" if self.takes_powers_of_two else peak

    def _base(self, peak: str) -> str:
        """The number that is subtracted from scores: 0 if no key was seen."""
        return f"where(equal({peak}, {self._hidden}), tile_zero({peak}), {peak})"

    def _write_new_peaks(self, out: SourceWriter) -> None:
        """Write peaks that have grown by much anew, and multiply what has been summed up so far.

        The others stay as they are: no row's result depends on which rows are its neighbours.
        """
        plan, lanes = self.plan, self.plan.lanes
        for row in range(plan.softmax_rows):
            largest = f"reduce_largest(tile_get(largest, {row}, 0))"
            splat = f"splat_{self._kind}({largest}, {lanes})"
            out.line(f"largest = tile_set(largest, {row}, 0, {splat})")
        out.line("largest = where(greater(largest, enough), largest, peak)")
        out.line(f"factor = {self._exponential('peak', self._base('largest'))}")
        out.line("peak = largest")
        out.line(f"tile_store(peaks, peaks_at, {lanes}, peak)")
        total = f"mul({self._rows('totals', 'peaks_at', lanes)}, factor)"
        out.line(f"tile_store(totals, peaks_at, {lanes}, {total})")
        out.line(f"sums_at = {times('(chunk + row)', plan.width)}")
        with out.block(f"for c in range(0, {plan.width}, {lanes}):"):
            sums = self._rows("sums", plus("sums_at", "c"), plan.width)
            out.line(f"tile_store(sums, sums_at + c, {plan.width}, mul({sums}, factor))")

    def _write_exponentials(self, out: SourceWriter) -> None:
        plan, lanes = self.plan, self.plan.lanes
        out.line(f"total = {self._rows('totals', 'peaks_at', lanes)}")
        exponential = self._exponential(self._scores, "base")
        if self.takes_powers_of_two:
            out.line("base = neg(base)")
            exponential = f"exp2(fma({self._scores}, {self._splat(self.factor)}, base))"
        with out.block(f"for c in range(0, seen, {lanes}):"):
            out.line(f"e = {exponential}")
            if plan.is_matrix:  # in place: of each row they take the first half
                place = f"{times('scores_at', 2)} + c, {2 * plan.score_stride}"
                out.line(f"tile_store(weights, {place}, flush_{self.shape.kind.value}(e))")
            else:
                out.line(f"tile_store(scores, scores_at + c, {plan.score_stride}, e)")
            out.line("total = add(total, e)")
        out.line(f"tile_store(totals, peaks_at, {lanes}, total)")

    def _write_zeros_behind(self, out: SourceWriter) -> None:
        """Fill up the weights of the rows to whole steps of the products with values."""
        plan, lanes = self.plan, self.plan.lanes
        end = f"(reach + {MATRIX_KEYS - 1}) // {MATRIX_KEYS} * {MATRIX_KEYS}"
        with out.block(f"for c in range(seen, {end}, {lanes}):"):
            for row in range(plan.softmax_rows):
                at = plus(times("scores_at", 2), "c", 2 * row * plan.score_stride)
                out.line(f"store(weights, {at}, splat_{self.shape.kind.value}(0.0, {lanes}))")

    def _exponential(self, score: str, base: str) -> str:
        """Return the exponential of what *score* is above *base*, as a power of two.

        The factor comes after the difference: scores may be as large as floats are.
        """
        if self.takes_powers_of_two:
            return f"exp2(sub({score}, {base}))"
        return f"exp2(mul(sub({score}, {base}), {self._splat(LOG2_E)}))"
