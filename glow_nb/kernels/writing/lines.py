"""Lines along one axis of a tensor ``[outer, count, inner]``, side by side in the lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from glow_nb.base.size import hinted, surely
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import floor_power_of_two

WIDTH = "width"
"""The name of the number of lines in a masked vector."""


@dataclass(frozen=True)
class Lines:
    """All lines of a contiguous tensor along one axis.

    Attributes:
        outer: Product of the dimensions before the axis.
        count: Elements of a line.
        inner: Product of the dimensions after it: how far apart neighbours of a line lie.
    """

    outer: int
    count: int
    inner: int

    @classmethod
    def along(cls, shape: tuple[int, ...], axis: int) -> Lines:
        """Return the lines of a tensor of *shape* along *axis*."""
        return cls(prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))

    def lanes(self, widest: int) -> int:
        """Return how many lines to walk as one vector, at most *widest*, a power of two."""
        return min(widest, floor_power_of_two(max(hinted(self.inner), 1)))

    def may_be_fewer(self, lanes: int) -> bool:
        """Return whether there may be fewer lines side by side than *lanes*: vectors are masked."""
        return not surely(self.inner, ">=", lanes)

    def load(self, pointer: str, index: str, lanes: int) -> str:
        """Return the load of elements of the lines that :meth:`walk` has come to."""
        if self.may_be_fewer(lanes):
            return f"load_masked({pointer}, {index}, {lanes}, {WIDTH})"
        return f"load({pointer}, {index}, {lanes})"

    def store(self, pointer: str, index: str, vector: str, lanes: int) -> str:
        """Return the store of elements of these lines."""
        if self.may_be_fewer(lanes):
            return f"store_masked({pointer}, {index}, {vector}, {WIDTH})"
        return f"store({pointer}, {index}, {vector})"

    def column(self, group: str, lanes: int) -> str:
        """Return the first line of a *group* of them, whose number is a name or in brackets.

        The last group overlaps the one before it, if there are surely enough lines for a whole one.
        """
        first = times(group, lanes)
        if self.inner % lanes == 0 or self.may_be_fewer(lanes):
            return first
        return f"min({first}, {self.inner - lanes})"

    def write_width(self, out: SourceWriter, column: str, lanes: int) -> None:
        """Write how many lines there are from *column* on, if they may be fewer than *lanes*."""
        if self.may_be_fewer(lanes):
            out.line(f"{WIDTH} = min({lanes}, {self.inner} - {column})")

    def element(self, start: str, place: str) -> str:
        """Return the index of element *place* of the line, or lines, that begin at *start*."""
        return plus(start, index_text([place], [self.inner]))

    @contextmanager
    def walk(self, out: SourceWriter, lanes: int, *, results: int) -> Iterator[tuple[str, str]]:
        """Write the loop over groups of *lanes* lines, for the share of one thread.

        The last group overlaps the one before it, so that all are whole; if there may be fewer
        lines than *lanes*, it is masked.

        Args:
            out: Receives the headers of the loop.
            lanes: From :meth:`lanes`.
            results: Elements that there are in the result for each line.

        Yields:
            The indices of the first elements in the operand and in the result.
        """
        groups = -(-self.inner // lanes)
        with loops(out, [self.outer, groups], shared=True) as (line, group):
            column = "0"
            if group != "0":
                column = "column"
                out.line(f"column = {self.column(group, lanes)}")
            self.write_width(out, column, lanes)
            for name, size in (("src", self.count), ("to", results)):
                out.line(f"{name} = {index_text([line, column], [size * self.inner, 1])}")
            yield "src", "to"
