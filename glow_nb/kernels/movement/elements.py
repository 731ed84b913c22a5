"""Single elements that are copied from where an index says, a vector of them at a time.

An index is clamped to its axis before it is used, so that a wrong one reads a wrong element and
nothing outside of the tensor. Elements are moved bit for bit, whatever their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.loops import Nest, loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes

INT32, INT64 = ElementKind.INT32, ElementKind.INT64


@dataclass(frozen=True)
class Elements:
    """Elements to take: ``dest[...] = input[... + step * indices[...]]``.

    Attributes:
        nest: Loops over the result, with the strides of the result, of the indices and, where an
            index is 0, of the input.
        step: Elements of the input from one index to the next.
        size: Size of the indexed axis.
        index: Kind of the indices.
        place: Kind that counts all elements of the input.
        lanes: Elements of a vector.
    """

    nest: Nest
    step: int
    size: int
    index: ElementKind
    place: ElementKind
    lanes: int

    @classmethod
    def of(
        cls,
        nest: Nest,
        axis: tuple[int, int],
        kinds: tuple[ElementKind, ElementKind],
        elements: int,
        target: Target,
    ) -> Elements:
        """Return those of a *nest* with loops of one step.

        Args:
            nest: Its innermost loop walks along neighbours of the result.
            axis: The size of the axis that is indexed, and the elements from place to place.
            kinds: Kinds of elements and of indices.
            elements: Elements of the input.
            target: The processor.
        """
        place = INT32 if surely(elements, "<", 1 << 31) else INT64
        size, step = axis
        lanes = native_lanes(target, kinds[0], place)
        return cls(nest.collapsed(), step, size, kinds[1], place, lanes)

    def write(self, out: SourceWriter) -> None:
        """Write the loops, for the share of one thread."""
        count = self.nest.sizes[-1]
        if self.lanes == 1 or surely(count, "<", self.lanes):
            self._write_loops(out, 1)
        elif surely(count, ">=", self.lanes):
            self._write_loops(out, self.lanes)
        else:
            with out.block(f"if {count} >= {self.lanes}:"):
                self._write_loops(out, self.lanes)
            with out.block("else:"):
                self._write_loops(out, 1)

    def _write_loops(self, out: SourceWriter, lanes: int) -> None:
        """Write the loops over vectors of *lanes* lanes, of which the last one may overlap."""
        *outer, count = self.nest.sizes
        with loops(out, [*outer, (count + (lanes - 1)) // lanes], shared=True) as indices:
            *before, group = indices
            column = group if lanes == 1 else times(group, lanes)
            if count % lanes != 0:
                column = f"min({column}, {count - lanes})"
            to, entry, start = (
                index_text([*before, column], strides) for strides in self.nest.strides
            )
            if lanes == 1:
                write_place(out, "place", entry, self.size)
                out.line(f"copy(dest, {to}, input, {plus(start, times('place', self.step))}, 1)")
            else:
                self._write_vector(out, to, entry, start)

    def _write_vector(self, out: SourceWriter, to: str, entry: str, start: str) -> None:
        """Write what takes neighbours of the result, from element *to* on."""
        entry_step, start_step = (strides[-1] for strides in self.nest.strides[1:])
        taken = "load" if entry_step != 0 else "broadcast"
        out.line(f"n = {taken}(indices, {entry}, {self.lanes})")
        kind = max(self.index, self.place, key=lambda kind: kind.size_bytes)
        zero, size, last = (
            f"splat_{kind.value}({number}, {self.lanes})"
            for number in (0, self.size, self.size - 1)
        )
        if kind is not self.index:
            out.line(f"n = convert_{kind.value}(n)")
        out.line(f"n = where(less(n, {zero}), add(n, {size}), n)")
        out.line(f"n = minimum(maximum(n, {zero}), {last})")
        if kind is not self.place:
            out.line(f"n = convert_{self.place.value}(n)")
        if self.step != 1:
            out.line(f"n = mul(n, splat_{self.place.value}({self.step}, {self.lanes}))")
        if start_step != 0:
            apart = f"splat_{self.place.value}({start_step}, {self.lanes})"
            out.line(f"n = add(n, mul(iota_{self.place.value}({self.lanes}), {apart}))")
        out.line(f"store(dest, {to}, take(at(input, {start}), n))")


def write_place(out: SourceWriter, name: str, entry: str, size: int) -> None:
    """Write the place, in an axis of *size*, that ``indices[entry]`` denotes."""
    limited = f"min(max(get(indices, {entry}), {-size}), {size - 1})"
    if size == 1:
        out.line(f"{name} = 0")
        return
    out.line(f"{name} = {limited}")
    with out.block(f"if {name} < 0:"):
        out.line(f"{name} = {name} + {size}")
