"""Windows along a row of neighbours: vectors of windows side by side.

The row is copied to scratch with its padding. For a stride, each *phase* of it, every ``stride``-th
element, is brought together first, so that neighbouring windows read neighbours. Long windows are
put together of halves: of the maxima of 2, 4 and 8 neighbours, those of 13 take two steps more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from glow_nb.kernels.windows.pool_windows import Fold, Windows
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, blocks_of


@dataclass(frozen=True)
class Row:
    """The windows along the last dimension of an input of one channel.

    Attributes:
        windows: Those of the pool.
        fold: How elements come together.
        lanes: Elements of a vector.
        is_halved: Windows are put together of halves; their stride is 1.
        kept: Where the row lies in ``work``, and what is made of it.
    """

    windows: Windows
    fold: Fold
    lanes: int
    is_halved: bool
    kept: int

    @property
    def stride(self) -> int:
        """Elements from window to window."""
        return self.windows.stride[-1]

    @property
    def offsets(self) -> list[int]:
        """Where the taps of a window lie, from its beginning on."""
        return [tap * self.windows.dilation[-1] for tap in range(self.windows.kernel[-1])]

    @property
    def width(self) -> int:
        """Results of a row, in whole vectors."""
        return -(-self.windows.out[-1] // self.lanes) * self.lanes

    @cached_property
    def phase_length(self) -> int:
        """Elements of a phase, in whole vectors: all that windows see, if they come in vectors."""
        seen = self.width + self.offsets[-1] // self.stride
        return -(-seen // self.lanes) * self.lanes

    @cached_property
    def padded_length(self) -> int:
        """Elements of the row with its padding, in whole vectors."""
        least = max(
            self.phase_length * self.stride, self.windows.begins[-1] + self.windows.size[-1]
        )
        spare = self.lanes if self.is_halved else 0  # vectors of sums begin at any element
        return -(-least // self.lanes) * self.lanes + spare

    @property
    def phases(self) -> list[int]:
        """The phases that taps lie in, if there are several."""
        return sorted({offset % self.stride for offset in self.offsets}) if self.stride > 1 else []

    @property
    def levels(self) -> int:
        """How often the length of the windows is doubled."""
        return (self.windows.kernel[-1].bit_length() - 1) if self.is_halved else 0

    @property
    def elements(self) -> int:
        """Elements that are kept in scratch."""
        return self.padded_length * (1 + self.levels) + self.phase_length * len(self.phases)

    def write_padding(self, out: SourceWriter) -> None:
        """Write the elements of ``work`` around the row, which stay what they are."""
        end = self.kept + self.padded_length
        with out.block(f"for place in range({self.kept}, {end}, {self.lanes}):"):
            out.line(f"store(work, place, {self.fold.start(self.lanes)})")

    def write_copy(self, out: SourceWriter, load: str, block: Block) -> None:
        """Write the copy of a *block* of the row, given as *load*."""
        out.line(block.store("work", plus(block.column, self.kept + self.windows.begins[-1]), load))

    def write_windows(
        self, out: SourceWriter, emit: Callable[[Block], None], *, is_masked: bool
    ) -> None:
        """Write the windows of the row that was copied; *emit* takes each block of ``total``.

        When *is_masked*, the last block has no more than the results that there are.
        """
        for number, phase in enumerate(self.phases):
            start = self._phase(number)
            places = " ".join(str(lane * self.stride) for lane in range(self.lanes))
            with out.block(f"for c in range(0, {self.phase_length}, {self.lanes}):"):
                source = index_text(["c"], [self.stride], self.kept + phase)
                to = plus("c", start)
                out.line(f'pick(work, {to}, work, {source}, "{places}", {self.lanes})')
        for level in range(self.levels):
            self._write_doubled(out, level)
        count = self.windows.out[-1] if is_masked else self.width
        for block in blocks_of(out, count, self.lanes):
            self._write_total(out, block)
            emit(block)

    def _phase(self, number: int) -> int:
        """Return where a phase lies."""
        return self.kept + self.padded_length + number * self.phase_length

    def _level(self, level: int) -> int:
        """Return where the windows of ``2 ** level`` elements lie."""
        return self.kept + level * self.padded_length

    def _write_doubled(self, out: SourceWriter, level: int) -> None:
        """Write the windows of twice as many taps."""
        shift = self.windows.dilation[-1] << level
        count = self.phase_length - 2 * shift + self.windows.dilation[-1]
        with out.block(f"for c in range(0, {count}, {self.lanes}):"):
            first, second = (
                f"load(work, {plus('c', self._level(level) + by)}, {self.lanes})"
                for by in (0, shift)
            )
            self.fold.write(out, first, second, "joined")
            out.line(f"store(work, {plus('c', self._level(level + 1))}, joined)")

    def _write_total(self, out: SourceWriter, block: Block) -> None:
        """Write ``total``, what the windows of a block come to."""
        out.line(f"total = {self.fold.start(block.lanes)}")
        for place in self._parts():
            self.fold.write(out, "total", f"load(work, {plus(block.column, place)}, {block.lanes})")

    def _parts(self) -> list[int]:
        """Return where the parts of the first window lie, in their order."""
        if not self.is_halved:
            if self.stride == 1:
                return [self.kept + offset for offset in self.offsets]
            numbers = {phase: number for number, phase in enumerate(self.phases)}
            return [
                self._phase(numbers[offset % self.stride]) + offset // self.stride
                for offset in self.offsets
            ]
        parts, done = [], 0
        for level in reversed(range(self.levels + 1)):
            if self.windows.kernel[-1] >> level & 1:
                parts.append(self._level(level) + done * self.windows.dilation[-1])
                done += 1 << level
        return parts
