"""Rows that a kernel of a reduction reads several times, with what a stack does before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

from glow_nb.base.size import hinted
from glow_nb.base.types import ElementKind, TensorType
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Site, computed_kind
from glow_nb.kernels.writing.walks import Walk


@dataclass(frozen=True)
class Rows:
    """How a kernel that walks over its input several times gets it.

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
        fits = hinted(rows.scratch_bytes) <= target.machine.l2_row_bytes
        return rows if fits else replace(rows, keeps=False)

    @property
    def kind(self) -> ElementKind:
        """Kind of the elements that are kept: the kind of the computation."""
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


@dataclass(frozen=True)
class RowsKernel(ABC):
    """A kernel that walks over its input several times.

    Attributes:
        rows: How it gets its input.
        type: The type of the result.
    """

    rows: Rows
    type: TensorType

    @abstractmethod
    def write(self, out: SourceWriter, place: Site) -> None:
        """Write the body of the kernel at one place, or at the places of a block."""

    @property
    def fusion(self) -> Fusion:
        """The fused prologue and epilogue."""
        return self.rows.fusion

    @property
    def walk(self) -> Walk:
        """Its loops."""
        return self.rows.walk

    @property
    def wide(self) -> str:
        """Name of the kind that is computed in."""
        return computed_kind(self.type.kind).value

    def stored(self, y: str) -> str:
        """Return *y*, a vector of the kind that is computed in, as elements of the result."""
        kind = self.type.kind.value
        return y if kind == self.wide else f"convert_{kind}({y})"

    def source(self, family: str) -> KernelSource:
        """Return the kernel."""
        out = SourceWriter()
        with out.block(self.fusion.header):
            if self.type.size == 0:
                out.line("return")
            else:
                for walk in self.walk.by_length(out):
                    kernel = replace(self, rows=replace(self.rows, walk=walk))
                    for place in kernel.rows.places(out):
                        kernel.write(out, place)
        return KernelSource(family, out.text, self.fusion.kinds, self.rows.scratch_bytes)
