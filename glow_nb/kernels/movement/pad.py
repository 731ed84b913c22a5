"""Pad: whole rows are copied, what lies around them is filled or copied element by element.

Neighbouring axes that are not padded belong to one row: of a channels-last image that gets a
border, a row is a line of pixels with all their channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glow_nb.base.size import surely
from glow_nb.base.types import TensorType
from glow_nb.hlir.ops.families import fitted
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.rows import Filling, Pieces
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import native_lanes
from glow_nb.llir.instructions.shape import PadInst
from glow_nb.llir.strides import contiguous_strides


@dataclass(frozen=True)
class _Axis:
    """One axis, or several that are walked as one.

    Attributes:
        size: Size of the input.
        begin: Elements added before; negative ones are cut off.
        end: Elements added behind, likewise.
    """

    size: int
    begin: int
    end: int

    @property
    def padded(self) -> int:
        """Size of the result."""
        return self.size + self.begin + self.end

    @property
    def first(self) -> int:
        """The first element of the input that is kept."""
        return _positive(-self.begin)

    @property
    def last(self) -> int:
        """The last element of the input that is kept."""
        return self.size - _positive(-self.end) - 1

    @property
    def start(self) -> int:
        """The first element of the result that is one of the input, if there is one."""
        return self.first + self.begin

    @property
    def stop(self) -> int:
        """The first element after those, if there is one."""
        return self.last + 1 + self.begin

    @property
    def is_inside(self) -> bool:
        """Return whether all elements of the result are elements of the input."""
        return self.start == 0 and self.stop == self.padded

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is added or cut off."""
        return self.begin == 0 == self.end


@kernel_for(PadInst)
def pad_source(instruction: PadInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input)`` of a pad of any mode."""
    type = instruction.dest.type
    axes = _axes_of(instruction)
    out = SourceWriter()
    with out.block("def kernel(dest, input, scratch, thread, threads):"):
        if surely(type.size, "==", 0):
            out.line("return")
        elif instruction.mode == "constant":
            number = fitted(instruction.value, TensorType(type.kind, ()))[()]
            filling = Filling(type.kind, number, native_lanes(target, type.kind))
            _write_constant(out, axes, filling)
        else:
            _write_continued(out, axes, instruction.mode)
    return KernelSource("pad", out.text, (type.kind, type.kind))


def _axes_of(instruction: PadInst) -> list[_Axis]:
    """Return as few axes as possible, at least one: unpadded ones join the axis before them."""
    axes = [_Axis(1, 0, 0)]
    rank = instruction.input.type.rank
    begins, ends = instruction.pads[:rank], instruction.pads[rank:]
    for size, begin, end in zip(instruction.input.type.shape, begins, ends, strict=True):
        before, axis = axes[-1], _Axis(size, begin, end)
        if axis.is_whole and (before.is_whole or instruction.mode == "constant"):
            axes[-1] = _Axis(before.size * size, before.begin * size, before.end * size)
        elif before == _Axis(1, 0, 0):
            axes[-1] = axis
        else:
            axes.append(axis)
    return axes


def _write_constant(out: SourceWriter, axes: Sequence[_Axis], filling: Filling) -> None:
    """Write the loop over pieces of rows: a filled begin, a copied middle and a filled end."""
    *outer, row = axes
    pieces = Pieces(row.padded)
    sizes = [axis.padded for axis in outer]
    dest_steps, steps = _steps(axes)
    with loops(out, [*sizes, pieces.count], shared=True) as (*indices, piece):
        out.line(f"row = {index_text(indices, dest_steps)}")
        begin, end = "row", f"row + {row.padded}"
        whole = pieces.count == 1
        if not whole:
            out.line(f"begin = row + {pieces.begin(piece)}")
            out.line(f"end = begin + {pieces.size(piece)}")
            begin, end = "begin", "end"
        tests = [
            f"{axis.start} <= {index} < {axis.stop}"
            for axis, index in zip(outer, indices, strict=True)
            if index != "0" and not axis.is_inside
        ]
        is_outside = any(
            not (surely(axis.start, "<=", 0) and surely(axis.stop, ">", 0))
            for axis, index in zip(outer, indices, strict=True)
            if index == "0"
        )
        if is_outside or surely(row.stop, "<=", row.start):
            filling.write(out, begin, end)
            return
        offset = -sum(a.begin * step for a, step in zip(outer, steps, strict=True)) - row.begin
        start = index_text(indices, steps, offset)
        if not tests:
            _write_row(out, row, filling, start, whole=whole)
            return
        with out.block(f"if {' and '.join(tests)}:"):
            _write_row(out, row, filling, start, whole=whole)
        with out.block("else:"):
            filling.write(out, begin, end)


def _write_row(out: SourceWriter, row: _Axis, filling: Filling, start: str, *, whole: bool) -> None:
    """Write a row of which the middle comes from the input, or a piece of it.

    Element ``row + i`` of the result is element ``start + i`` of the input.
    """
    first, stop = row.start, row.stop
    out.line(f"start = {start}")
    if whole:
        if first != 0:
            filling.write(out, "row", f"row + {first}")
        out.line(f"copy(dest, row + {first}, input, start + {first}, {stop - first})")
        if stop != row.padded:
            filling.write(out, f"row + {stop}", f"row + {row.padded}")
        return
    out.line(f"first = max(begin, min(row + {first}, end))")
    out.line(f"stop = max(first, min(row + {stop}, end))")
    filling.write(out, "begin", "first")
    out.line("copy(dest, first, input, start + first - row, stop - first)")
    filling.write(out, "stop", "end")


def _write_continued(out: SourceWriter, axes: Sequence[_Axis], mode: str) -> None:
    """Write the loop over rows that continue the input by *mode*."""
    *outer, row = axes
    sizes = [axis.padded for axis in outer]
    dest_steps, steps = _steps(axes)
    with loops(out, sizes, shared=True) as indices:
        places = [f"place{number}" for number in range(len(outer))]
        for place, index, axis in zip(places, indices, outer, strict=True):
            _write_place(out, place, index, axis, mode)
        out.line(f"row = {index_text(indices, dest_steps)}")
        out.line(f"start = {index_text(places, steps)}")
        first, stop = row.start, row.stop
        out.line(f"copy(dest, row + {first}, input, start + {row.first}, {stop - first})")
        for begin, end in ((0, first), (stop, row.padded)):
            if begin != end:
                with out.block(f"for i in range({begin}, {end}):"):
                    _write_place(out, "place", "i", row, mode)
                    out.line("copy(dest, row + i, input, start + place, 1)")


def _positive(number: int) -> int:
    """Return *number* where it is positive, and else 0."""
    return 0 if surely(number, "<=", 0) else max(number, 0)


def _steps(axes: Sequence[_Axis]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the strides of all but the last axis in the result and in the input."""
    result = contiguous_strides(tuple(axis.padded for axis in axes))
    return result[:-1], contiguous_strides(tuple(axis.size for axis in axes))[:-1]


def _write_place(out: SourceWriter, name: str, index: str, axis: _Axis, mode: str) -> None:
    """Write which element along *axis* of the input continues it at *index* of the result."""
    first, last = axis.first, axis.last
    out.line(f"{name} = {plus(index, f'{-axis.begin}')}")
    if axis.is_inside:
        return
    if mode == "edge":
        out.line(f"{name} = max({first}, min({name}, {last}))")
        return
    count = last - first + 1
    below, above = {
        "reflect": (f"{2 * first} - {name}", f"{2 * last} - {name}"),
        "wrap": (f"{name} + {count}", f"{name} - {count}"),
    }[mode]
    with out.block(f"if {name} < {first}:"):
        out.line(f"{name} = {below}")
    with out.block(f"elif {name} > {last}:"):
        out.line(f"{name} = {above}")
