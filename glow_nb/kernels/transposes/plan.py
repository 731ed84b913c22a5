"""How a matrix that is transposed is cut into blocks, in the order that suits the caches.

A tile reads a piece of some rows of the source, and writes as many rows of the destination, a
vector each. ::

    src   a0 a1 a2 a3 ...            dest   a0 b0 c0 d0 ...
          b0 b1 b2 b3 ...     ->            a1 b1 c1 d1 ...
          c0 c1 c2 c3 ...                   a2 b2 c2 d2 ...
          d0 d1 d2 d3 ...                   a3 b3 c3 d3 ...

Lines of rows that lie a large power of two apart share a few places of the first-level cache. A
processor fetches some thirty lines at a time; where more of them than it holds belong to one
place, each is waited for. Hence the orders of a block (:class:`BlockOrder`): the side that has such
rows is read or written by several whole lines of a row, one after the other, and the tiles of the
other side stay in the cache meanwhile. Where both sides have such rows, the block of the source is
first copied into scratch.

The rows of the block that comes next are asked for meanwhile, since no processor foresees that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.types import ElementKind
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.vectors import floor_power_of_two, native_lanes

PIECE_BYTES = 16
"""Bytes of a row that a tile takes: the processor shuffles freely only within so many bytes."""


class BlockOrder(Enum):
    """In which order a block is transposed."""

    ROWS = "along rows of the source: these are read once, the result is written piece by piece"
    LINES = "along rows of the result: whole lines of it are written, the source read by pieces"
    GATHERED = "like LINES, from scratch, where whole rows of the block of the source are first"
    STAGED = "like ROWS, into scratch; from there whole lines are copied"


@dataclass(frozen=True)
class Matrix:
    """The two loops that are exchanged, and those around them.

    Attributes:
        kind: Kind that elements are moved as.
        rows: Steps of the loop along which the source is contiguous: rows of the destination.
        columns: Steps of the loop along which the destination is contiguous.
        run: Elements that stay together in each step.
        dest_stride: Elements from one row of the destination to the next.
        src_stride: Elements from one column of it to the next, in the source.
        outer: Sizes of the other loops.
        dest_outer: Strides of the destination in these.
        src_outer: Strides of the source in these.
    """

    kind: ElementKind
    rows: int
    columns: int
    run: int
    dest_stride: int
    src_stride: int
    outer: tuple[int, ...]
    dest_outer: tuple[int, ...]
    src_outer: tuple[int, ...]

    @property
    def line_elements(self) -> int:
        """Elements of a cache line."""
        return CACHE_LINE_BYTES // self.kind.size_bytes

    @property
    def has_whole_lines(self) -> bool:
        """Return whether every row of the destination begins a line when the first one does."""
        return all(s % self.line_elements == 0 for s in (self.dest_stride, *self.dest_outer))

    @property
    def line_steps(self) -> int:
        """Steps of a loop that fill a cache line."""
        return max(1, self.line_elements // self.run)

    @property
    def dest_stride_bytes(self) -> int:
        """Bytes from one row of the destination to the next."""
        return self.dest_stride * self.kind.size_bytes

    @property
    def src_stride_bytes(self) -> int:
        """Bytes from one row of the source to the next."""
        return self.src_stride * self.kind.size_bytes


@dataclass(frozen=True)
class Blocks:
    """How a matrix is cut.

    Attributes:
        matrix: What is cut.
        order: Order of work in a block.
        rows: Rows of the destination in a block.
        columns: Columns of it, which are rows of the source.
        lanes: Columns of a tile; 1 for runs of several elements.
        piece: Rows of a tile, which are neighbours in the source.
        is_far: The source comes from so far that it should be asked for in advance.
    """

    matrix: Matrix
    order: BlockOrder
    rows: int
    columns: int
    lanes: int
    piece: int
    is_far: bool

    @classmethod
    def of(cls, matrix: Matrix, target: Target, size_bytes: int) -> Blocks:
        """Return the blocks that suit *matrix*, part of a tensor of *size_bytes*."""
        machine = target.machine
        lanes, piece = _tile(matrix, target)
        is_far = 4 * size_bytes > machine.l2_bytes
        order, across, along = _order(matrix, piece, machine, is_far=is_far)
        if order not in (BlockOrder.LINES, BlockOrder.GATHERED):
            lanes = _narrow(matrix, lanes, machine)
            piece = _piece(matrix, lanes)
        rows = _balanced(matrix.rows, across, piece)
        columns = _balanced(matrix.columns, along, lanes, spare=order is not BlockOrder.ROWS)
        return cls(matrix, order, rows, columns, lanes, piece, is_far)

    @property
    def ahead(self) -> int:
        """Elements of the source from a block to the one that comes next."""
        matrix = self.matrix
        if self.rows < matrix.rows:
            return self.rows * matrix.run
        return self.columns * matrix.src_stride

    @cached_property
    def stride(self) -> int:
        """Elements from row to row of the scratch: a line more than they need."""
        length = self.rows if self.order is BlockOrder.GATHERED else self.columns
        line = self.matrix.line_elements
        return (-(-length * self.matrix.run // line) + 1) * line

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch."""
        if self.order in (BlockOrder.ROWS, BlockOrder.LINES):
            return 0
        count = self.columns if self.order is BlockOrder.GATHERED else self.rows
        return count * self.stride * self.matrix.kind.size_bytes


def _order(
    matrix: Matrix, piece: int, machine: Machine, *, is_far: bool
) -> tuple[BlockOrder, int, int]:
    """Return how to transpose a block, and its steps along rows of the source and of the result."""
    steps, element_bytes = matrix.line_steps, matrix.run * matrix.kind.size_bytes
    source, dest = matrix.src_stride_bytes, matrix.dest_stride_bytes
    fewest = -(-machine.min_transposed_steps // steps)
    along = max(2, _lines_of_row(dest, 1 / 2, machine), fewest) * steps
    prefers_lines = is_far and matrix.run == 1 and not matrix.has_whole_lines
    prefers_lines = prefers_lines and _needs(machine, source, along) <= 1 / 2
    if _needs(machine, dest, steps) <= 1 / 2 and not prefers_lines:
        across = 2 * steps if _needs(machine, source, steps) > 1 / 2 else steps
        return BlockOrder.ROWS, across, machine.transposed_steps
    if matrix.run > 1 or _needs(machine, dest, piece) > 1 / 2:
        return BlockOrder.STAGED, 2 * steps, along
    fitting = machine.l1_block_bytes // (along * element_bytes)
    across = max(steps, min(machine.transposed_block_steps, fitting))
    if _needs(machine, source, along) <= 1 / 2:
        whole = 2 * across >= matrix.rows  # rows of the source that lie one after the other
        return BlockOrder.LINES, matrix.rows if whole else across, along
    return BlockOrder.GATHERED, max(across, _lines_of_row(source, 1, machine) * steps), along


def _lines_of_row(stride_bytes: int, most: float, machine: Machine) -> int:
    """Return how many lines of a row to take at a time, at least.

    Then those that are fetched, of rows *stride_bytes* apart, need at most the part *most* of the
    places that they share. Lines that are written need twice as much.
    """
    lines, together = 1, machine.transposed_lines
    while (
        lines < machine.l1_ways and _needs(machine, stride_bytes, together // lines, lines) > most
    ):
        lines *= 2
    return lines


def _tile(matrix: Matrix, target: Target) -> tuple[int, int]:
    """Return the columns and rows of a tile: wide ones cost less, but the last overlaps others."""
    if matrix.run > 1:
        return 1, 1
    widest = native_lanes(target, matrix.kind)
    widths = [1 << bit for bit in range(min(widest, matrix.columns).bit_length())]
    lanes = min(
        reversed(widths),
        key=lambda width: -(-matrix.columns // width) * (width + widest),
    )
    return lanes, _piece(matrix, lanes)


def _piece(matrix: Matrix, lanes: int) -> int:
    """Return the rows of a tile of *lanes* columns."""
    return floor_power_of_two(min(lanes, PIECE_BYTES // matrix.kind.size_bytes, matrix.rows))


def _narrow(matrix: Matrix, lanes: int, machine: Machine) -> int:
    """Return no more lanes than the cache has places for.

    All the rows of the source that a tile reads stay there until the next tile has read them, too.
    """
    fewest = machine.min_transposed_lanes
    while lanes > fewest and _needs(machine, matrix.src_stride_bytes, lanes) > 1:
        lanes //= 2
    return lanes


def _needs(machine: Machine, stride_bytes: int, rows: int, lines_of_row: int = 1) -> float:
    """Return how much of the places that so many lines share they need, 1 being all of them."""
    lines = {
        row * stride_bytes // CACHE_LINE_BYTES + number
        for row in range(rows)
        for number in range(lines_of_row)
    }
    sets = machine.l1_set_bytes // CACHE_LINE_BYTES
    return len(lines) / (machine.l1_ways * len({line % sets for line in lines}))


def _balanced(size: int, most: int, tile: int, *, spare: bool = False) -> int:
    """Return how to cut *size* into equal pieces of about *most*, whole tiles each.

    They are up to twice as long if that can *spare* work: what pieces have too much is done twice.
    """
    most_pieces = -(-size // most)
    fewest_pieces = -(-size // (2 * most)) if spare else most_pieces
    lengths = [
        -(-size // (pieces * tile)) * tile for pieces in range(fewest_pieces, most_pieces + 1)
    ]
    return min(size, min(lengths, key=lambda length: (-(-size // length) * length, length)))
