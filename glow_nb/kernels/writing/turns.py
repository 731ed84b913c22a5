"""Short rows, several at once: squares of them are transposed in registers.

A walk along a row of a few elements would spend its time bringing lanes together. Instead, as many
rows as a vector has lanes are copied to scratch such that neighbours in a vector are elements of
different rows; all walks then go over the copy, and at the end results are transposed back. ::

    src   row 0: a0 a1 a2 ...             kept   a0 b0 c0 d0
          row 1: b0 b1 b2 ...      ->            a1 b1 c1 d1
          row 2: c0 c1 c2 ...                    a2 b2 c2 d2
          row 3: d0 d1 d2 ...                    ...

Prologue and epilogue work on squares that are not transposed, so all their operands are rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Site
from glow_nb.kernels.writing.walks import Walk


@dataclass(frozen=True)
class Square:
    """Some elements of each of a few rows, as a register tile with a vector for each row.

    Attributes:
        walk: The loops, which are transposed.
        place: The rows of the copy, one in each lane.
        row: The first of those in the square.
        rows: How many there are.
        column: Text of the first element of each row.
        count: Elements of each row.
        lanes: Elements of the vectors.
    """

    walk: Walk
    place: Site
    row: int
    rows: int
    column: str
    count: int
    lanes: int

    def load(self, pointer: str) -> str:
        """Return the load of the square from one tensor."""
        across, along = self._strides(pointer)
        first, lanes = self._first(pointer), self.lanes
        if not along and not across:
            return f"broadcast({pointer}, {first}, {lanes})"
        if not along:  # one number for each row, which is put into all lanes
            numbers = f"tile_bias_masked({pointer}, {first}, {lanes}, 1, {lanes}, {self.rows})"
            return f"tile_transpose({numbers}, {self.rows})"
        size = f"{across}, {self.rows}"
        start = plus(first, self.column)
        if self.count == lanes:
            return f"tile_load({pointer}, {start}, {size}, 1, {lanes})"
        return f"tile_load_masked({pointer}, {start}, {size}, 1, {lanes}, {self.count})"

    def store(self, pointer: str, tile: str) -> str:
        """Return the store of the square to one tensor."""
        start, across = plus(self._first(pointer), self.column), self._strides(pointer)[0]
        if self.count == self.lanes:
            return f"tile_store({pointer}, {start}, {across}, {tile})"
        return f"tile_store_masked({pointer}, {start}, {across}, {tile}, {self.count})"

    def keep(self, tile: str) -> str:
        """Return the store of the square to the copy, transposed."""
        pitch = self.walk.lanes
        turned = f"tile_transpose({tile}, {self.count})"
        return f"tile_store(kept, {self._kept_at}, {pitch}, {turned})"

    @property
    def kept(self) -> str:
        """The square as it stands in the copy, transposed back."""
        size = f"{self.walk.lanes}, {self.count}, 1, {self.lanes}"
        return f"tile_transpose(tile_load(kept, {self._kept_at}, {size}), {self.rows})"

    @property
    def _kept_at(self) -> str:
        return plus(index_text([self.column], [self.walk.lanes]), str(self.row))

    def _first(self, pointer: str) -> str:
        """Return the index of the first row's first element in a tensor."""
        return plus(self.place.places[pointer], str(self.row * self._strides(pointer)[0]))

    def _strides(self, pointer: str) -> tuple[int, int]:
        """Return the elements of a tensor from row to row and along a row."""
        tensor = self.walk.names.index(pointer)
        return self.walk.kept.strides[tensor][0], self.walk.walked.strides[tensor][0]


def squares(out: SourceWriter, walk: Walk, place: Site, widest: int) -> Iterator[Square]:
    """Yield the squares, no wider than *widest*, of the rows at *place*.

    What is written for each one is its body.
    """
    length, lanes = walk.walked.sizes[0], min(place.lanes, widest)
    whole = length - length % lanes
    height = place.block.count or place.lanes
    starts = [(row, min(lanes, height - row)) for row in range(0, height, lanes)]
    if whole:
        with _columns(out, whole, lanes) as column:
            for row, rows in starts:
                yield Square(walk, place, row, rows, column, lanes, lanes)
    if length > whole:
        for row, rows in starts:
            yield Square(walk, place, row, rows, str(whole), length - whole, lanes)


@contextmanager
def _columns(out: SourceWriter, count: int, step: int) -> Iterator[str]:
    if count == step:
        yield "0"
        return
    with out.block(f"for c in range(0, {count}, {step}):"):
        yield "c"
