"""TopK of several lines at a time, one in each lane: the best so far stand in order in the scratch.

An element of each line is compared with the worst of the line's. Where one is better in any lane,
it rises, step by step, past those that it comes before.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.lines import Lines
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import computed_kind, native_lanes
from glow_nb.llir.instructions.reduction import TopKInst

INT32, INT64 = ElementKind.INT32, ElementKind.INT64


@dataclass(frozen=True)
class LaneInsertion:
    """The best elements of one line for each lane, and their places.

    Attributes:
        instruction: The instruction.
        lines: Its lines, whose neighbours are lanes.
        kind: In which elements are compared.
        place: In which places are counted: narrow, if that holds them.
        lanes: Lines that are walked at a time.
    """

    instruction: TopKInst
    lines: Lines
    kind: ElementKind
    place: ElementKind
    lanes: int

    @classmethod
    def of(cls, instruction: TopKInst, target: Target) -> LaneInsertion:
        """Return the insertion for *instruction*, whose axis is an inner one."""
        lines = Lines.along(instruction.input.type.shape, instruction.axis)
        kind = computed_kind(instruction.input.type.kind)
        is_short = surely(lines.count, "<", 2**31) and kind.size_bytes < INT64.size_bytes
        place = INT32 if is_short else INT64
        lanes = lines.lanes(native_lanes(target, kind, place))
        return cls(instruction, lines, kind, place, lanes)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the best elements and of their places."""
        return self._best_bytes + self.instruction.k * self.lanes * self.place.size_bytes

    @property
    def _best_bytes(self) -> int:
        return self.instruction.k * self.lanes * self.kind.size_bytes

    def write(self, out: SourceWriter) -> None:
        """Write the loop over groups of lines, for the share of one thread."""
        k, lanes, lines = self.instruction.k, self.lanes, self.lines
        stored = self.instruction.input.type.kind
        out.line(f"best = as_{self.kind.value}(scratch)")
        out.line(f"found = as_{self.place.value}(at(scratch, {self._best_bytes}))")
        with lines.walk(out, lanes, results=k) as (start, to):
            with out.block(f"for i in range({k}):"):
                self._write_load(out, start)
                out.line(f"place = i * {lanes}")
                out.line("lower = x\nlower_number = number")
                self._write_rise(out)
            if not surely(lines.count, "<=", k):
                with out.block(f"for i in range({k}, {lines.count}):"):
                    self._write_entry(out, start)
            with out.block(f"for i in range({k}):"):
                value = f"convert_{stored.value}(load(best, i * {lanes}, {lanes}))"
                place = f"convert_int64(load(found, i * {lanes}, {lanes}))"
                element = lines.element(to, "i")
                out.line(lines.store("values", element, value, lanes))
                out.line(lines.store("indices", element, place, lanes))

    def _write_load(self, out: SourceWriter, start: str) -> None:
        """Write ``x``, the elements at place ``i`` of each line, and ``number``, that place."""
        element = self.lines.element(start, "i")
        loaded = self.lines.load("input", element, self.lanes)
        out.line(f"x = convert_{self.kind.value}({loaded})")
        out.line(f"number = splat_{self.place.value}(i, {self.lanes})")

    def _write_entry(self, out: SourceWriter, start: str) -> None:
        """Write what becomes of elements ``x`` when there are k before them."""
        self._write_load(out, start)
        out.line(f"place = {(self.instruction.k - 1) * self.lanes}")
        out.line(f"y = load(best, place, {self.lanes})\nenters = {self._is_better}")
        with out.block("if reduce_or(enters):"):
            worst = f"load(found, place, {self.lanes})"
            out.line("lower = where(enters, x, y)")
            out.line(f"lower_number = where(enters, number, {worst})")
            self._write_rise(out)

    def _write_rise(self, out: SourceWriter) -> None:
        """Write the loop that exchanges ``x``, from *place* on, with those that it comes before.

        What stands at *place* is ``lower`` so far. A lane whose element stands where it belongs,
        or did not enter, rises no further.
        """
        lanes = self.lanes
        with out.block("while place > 0:"):
            out.line(f"above = place - {lanes}\ny = load(best, above, {lanes})")
            out.line(f"y_number = load(found, above, {lanes})\nrises = {self._is_better}")
            out.line("store(best, place, where(rises, y, lower))")
            out.line("store(found, place, where(rises, y_number, lower_number))")
            out.line("lower = where(rises, x, y)")
            out.line("lower_number = where(rises, number, y_number)\nplace = above")
        out.line("store(best, place, lower)\nstore(found, place, lower_number)")

    @property
    def _is_better(self) -> str:
        """Return where ``x`` comes before ``y``, which was found earlier; NaN is the largest."""
        largest = self.instruction.largest
        if not self.kind.is_float:
            return f"{'greater' if largest else 'less'}(x, y)"
        stays = f"{'less' if largest else 'greater'}_equal(x, y)"
        return f"bit_and(bit_not({stays}), bit_not(isnan({'y' if largest else 'x'})))"
