"""Rows that are moved or filled as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.kernels.writing.source import SourceWriter

LONGEST_PIECE = 4096
"""Elements that one step moves: a longer row is cut, so that threads can share it."""


@dataclass(frozen=True)
class Pieces:
    """A row of ``length`` elements cut into pieces.

    Attributes:
        length: Elements of the row, at least one.
    """

    length: int

    @property
    def count(self) -> int:
        """The number of pieces."""
        if surely(self.length, "<=", LONGEST_PIECE):
            return 1
        return (self.length + (LONGEST_PIECE - 1)) // LONGEST_PIECE

    def begin(self, piece: str) -> str:
        """Return where piece number *piece*, the name of an index or ``0``, begins."""
        return "0" if piece == "0" else f"{piece} * {LONGEST_PIECE}"

    def size(self, piece: str) -> str:
        """Return how many elements it has."""
        if self.count == 1:
            return f"{self.length}"
        return f"min({LONGEST_PIECE}, {self.length} - {piece} * {LONGEST_PIECE})"


@dataclass(frozen=True)
class Filling:
    """One number, written to many neighbouring elements.

    Attributes:
        kind: Kind of the elements.
        number: The number as a NumPy scalar of that kind.
        lanes: Elements that are stored at a time.
    """

    kind: ElementKind
    number: Any
    lanes: int

    def write(self, out: SourceWriter, begin: str, end: str) -> None:
        """Write the stores to the elements of ``dest`` in ``range(begin, end)``, maybe none."""
        if not any(self.number.tobytes()):
            out.line(f"clear(dest, {begin}, max({end} - ({begin}), 0))")
            return
        plain = float(self.number) if self.kind.is_float else self.number.item()
        number = f"splat_{self.kind.value}({number_text(plain)}, {self.lanes})"
        out.line(f"at_fill = {begin}")
        with out.block(f"while at_fill <= {end} - {self.lanes}:"):
            out.line(f"store(dest, at_fill, {number})")
            out.line(f"at_fill = at_fill + {self.lanes}")
        with out.block(f"if at_fill < {end}:"):
            out.line(f"store_masked(dest, at_fill, {number}, {end} - at_fill)")
