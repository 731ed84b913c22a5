"""Gathers: rows, or single elements, copied from where an index says.

An index is clamped to its axis before it is used, so that a wrong one reads a wrong element and
nothing outside of the tensor. Rows are moved bit for bit, whatever their kind.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import prod

from glow_nb.base.size import surely, symbols_of
from glow_nb.kernels.movement.elements import Elements, write_place
from glow_nb.kernels.movement.known_places import write_known_places
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.loops import Nest, loops
from glow_nb.kernels.writing.rows import Pieces
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.instructions.gather import GatherElementsInst, GatherInst, GatherNDInst
from glow_nb.llir.strides import contiguous_strides


@dataclass(frozen=True)
class _Rows:
    """Rows to take: ``dest[a, i, :] = input[a, *indices[..., i, :], :]``.

    Attributes:
        outer: Number of the *a*.
        points: Number of the *i*.
        axes: Size of each axis that is indexed.
        length: Elements of a row.
        one_list: All *a* have the same indices; else each has its own.
    """

    outer: int
    points: int
    axes: tuple[int, ...]
    length: int
    one_list: bool

    def single(self, instruction: GatherInst | GatherNDInst, target: Target) -> Elements | None:
        """Return the rows as single elements along one axis; None if they are no such."""
        if self.length != 1 or len(self.axes) != 1:
            return None
        sizes, volume = (self.outer, self.points), self.axes[0]
        entries = (0 if self.one_list else self.points, 1)
        nest = Nest(sizes, ((self.points, 1), entries, (volume, 0)))
        return _elements(instruction, nest, (volume, 1), target)

    def write(self, out: SourceWriter) -> None:
        """Write the loop over rows, for the share of one thread."""
        pieces, depth = Pieces(self.length), len(self.axes)
        volume = prod(self.axes) * self.length
        strides = [step * self.length for step in contiguous_strides(self.axes)]
        with loops(out, [self.outer, self.points, pieces.count], shared=True) as (a, i, piece):
            lists = 0 if self.one_list else self.points * depth
            entry = index_text([a, i], [lists, depth])
            for k, size in enumerate(self.axes):
                write_place(out, f"place{k}", plus(entry, str(k)), size)
            places = [f"place{k}" for k in range(depth)]
            begin = pieces.begin(piece)
            to = index_text([a, i], [self.points * self.length, self.length])
            start = index_text([a, *places], [volume, *strides])
            out.line(
                f"copy(dest, {plus(to, begin)}, input, {plus(start, begin)}, {pieces.size(piece)})"
            )


@kernel_for(GatherInst)
def gather_source(instruction: GatherInst, target: Target) -> KernelSource:
    """Return the kernel of a gather of slices along one axis."""
    shape, axis = instruction.input.type.shape, instruction.axis
    length = prod(shape[axis + 1 :])
    sizes = (shape[axis], length, instruction.indices.type.size)
    if instruction.plan is not None and not symbols_of(*sizes):
        kind, out = instruction.dest.type.kind, SourceWriter()
        with out.block("def kernel(dest, input, indices, scratch, thread, threads):"):
            write_known_places(out, instruction, target)
        return KernelSource("gather", out.text, (kind, kind, instruction.indices.type.kind))
    rows = _Rows(
        outer=prod(shape[:axis]),
        points=instruction.indices.type.size,
        axes=(shape[axis],),
        length=length,
        one_list=True,
    )
    return _source("gather", instruction, rows.single(instruction, target) or rows)


@kernel_for(GatherNDInst)
def gather_nd_source(instruction: GatherNDInst, target: Target) -> KernelSource:
    """Return the kernel of a gather of slices at coordinates."""
    shape, batch = instruction.input.type.shape, instruction.batch_dims
    *points, depth = instruction.indices.type.shape
    rows = _Rows(
        outer=prod(shape[:batch]),
        points=prod(points[batch:]),
        axes=shape[batch : batch + depth],
        length=prod(shape[batch + depth :]),
        one_list=False,
    )
    return _source("gather_nd", instruction, rows.single(instruction, target) or rows)


@kernel_for(GatherElementsInst)
def gather_elements_source(instruction: GatherElementsInst, target: Target) -> KernelSource:
    """Return the kernel of a gather of single elements."""
    return _source("gather_elements", instruction, _elements_of(instruction, target))


def _elements_of(instruction: GatherElementsInst, target: Target) -> Elements:
    axis, shape = instruction.axis, instruction.input.type.shape
    wanted = instruction.indices.type.shape
    steps = list(instruction.input.strides)
    step, steps[axis] = steps[axis], 0
    entries = contiguous_strides(wanted)
    nest = Nest(wanted, (entries, entries, tuple(steps)))
    return _elements(instruction, nest, (shape[axis], step), target)


def _elements(
    instruction: GatherInst | GatherNDInst | GatherElementsInst,
    nest: Nest,
    axis: tuple[int, int],
    target: Target,
) -> Elements:
    kinds = instruction.dest.type.kind, instruction.indices.type.kind
    return Elements.of(nest, axis, kinds, instruction.input.type.size, target)


def _unless_empty(out: SourceWriter, size: int) -> AbstractContextManager[None]:
    """Return a block for what reads elements of a tensor, which is left out if there are none."""
    return nullcontext() if surely(size, ">", 0) else out.block(f"if {size} > 0:")


def _source(
    family: str,
    instruction: GatherInst | GatherNDInst | GatherElementsInst,
    rows: _Rows | Elements,
) -> KernelSource:
    """Return the kernel ``(dest, input, indices)`` that moves *rows*."""
    out = SourceWriter()
    with out.block("def kernel(dest, input, indices, scratch, thread, threads):"):
        if surely(instruction.dest.type.size, "==", 0):
            out.line("return")
        else:
            with _unless_empty(out, instruction.input.type.size):
                rows.write(out)
    kind = instruction.dest.type.kind
    return KernelSource(family, out.text, (kind, kind, instruction.indices.type.kind))
