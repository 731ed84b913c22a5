"""Rows that a kernel of a reduction reads several times, with what a stack does before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from glow_nb.base.types import ElementKind
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Site, computed_kind
from glow_nb.kernels.writing.walks import Walk


@dataclass(frozen=True)
class Rows:
    """How a kernel that walks over its input several times comes by it.

    What the prologue computes is stored anyhow, or kept in scratch for the row, or computed again.

    Attributes:
        fusion: The head, its prologue and its epilogue.
        walk: The loops.
        keeps: The first walk keeps the input in ``kept``, a row of scratch.
    """

    fusion: Fusion
    walk: Walk
    keeps: bool

    @classmethod
    def of(cls, fusion: Fusion, walk: Walk, target: Target, *, keeps: bool = False) -> Rows:
        """Return the cheapest loops for *fusion*; with *keeps*, the row is kept if it is short."""
        is_stored = fusion.input in fusion.names
        keeps = keeps or not (is_stored or fusion.is_cheap)
        rows = cls(fusion, walk, keeps)
        fits = rows.scratch_bytes <= target.machine.l2_row_bytes
        return rows if fits else replace(rows, keeps=False)

    @property
    def kind(self) -> ElementKind:
        """Kind of the elements that are kept: what they are computed in."""
        return computed_kind(self.fusion.input.type.kind)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch: for the input of a row, if that is kept."""
        return self.walk.row_elements * self.kind.size_bytes if self.keeps else 0

    def places(self, out: SourceWriter) -> Iterator[Site]:
        """Write loops over the places; what is written for each one yielded is its body."""
        if self.keeps:
            out.line(f"kept = as_{self.kind.value}(scratch)")
        yield from self.walk.places(out)

    def first(self, out: SourceWriter, site: Site) -> str:
        """Return the input at *site* for the first walk, in the kind that is computed in."""
        value = self._widened(self.fusion.read(out, site))
        if self.keeps:
            out.line(f"store(kept, {site.step}, {value})")
        return value

    def again(self, out: SourceWriter, site: Site) -> str:
        """Return the input at *site* for a later walk."""
        if self.keeps:
            return f"load(kept, {site.step}, {site.lanes})"
        return self._widened(self.fusion.read_again(out, site))

    def _widened(self, value: str) -> str:
        kind = self.fusion.input.type.kind
        return value if kind is self.kind else f"convert_{self.kind.value}({value})"
