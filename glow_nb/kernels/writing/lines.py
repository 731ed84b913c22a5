"""Lines along one axis of a tensor ``[outer, count, inner]``, side by side in the lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import floor_power_of_two


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
        return min(widest, floor_power_of_two(max(self.inner, 1)))

    def element(self, start: str, place: str) -> str:
        """Return the index of element *place* of the line, or lines, that begin at *start*."""
        return plus(start, index_text([place], [self.inner]))

    @contextmanager
    def walk(self, out: SourceWriter, lanes: int, *, results: int) -> Iterator[tuple[str, str]]:
        """Write the loop over groups of *lanes* lines, for the share of one thread.

        The last group overlaps the one before it, so that all are whole.

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
                first = index_text([group], [lanes])
                is_even = self.inner % lanes == 0
                out.line(f"column = {first if is_even else f'min({first}, {self.inner - lanes})'}")
            for name, size in (("src", self.count), ("to", results)):
                out.line(f"{name} = {index_text([line, column], [size * self.inner, 1])}")
            yield "src", "to"
