"""The blocks of a matrix that is transposed, in the order that suits the caches.

A tile reads a piece of some rows of the source, and writes as many rows of the destination, a
vector each. ::

    src   a0 a1 a2 a3 ...            dest   a0 b0 c0 d0 ...
          b0 b1 b2 b3 ...     ->            a1 b1 c1 d1 ...
          c0 c1 c2 c3 ...                   a2 b2 c2 d2 ...
          d0 d1 d2 d3 ...                   a3 b3 c3 d3 ...

Lines of rows that lie a large power of two apart share a few places of the first-level cache. A
processor has some thirty lines in flight at a time; where more of them than it holds belong to one
place, each is waited for. Where the result has such rows, a block is transposed into scratch, and
whole lines are copied from there, several of a row one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.plan import Plan
from glow_nb.base.size import hinted
from glow_nb.base.types import ElementKind
from glow_nb.kernels.machine.machine import Machine
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.vectors import floor_power_of_two, native_lanes

TRANSPOSE = "transpose"
"""The algorithm that exchanges two loops, in blocks."""

PIECE_BYTES = 16
"""Bytes of a row that a tile takes: the processor shuffles freely only within this number of
bytes."""


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
    """The blocks of a matrix.

    Attributes:
        matrix: The matrix.
        is_staged: Tiles are written to scratch, from where whole lines are copied.
        rows: Rows of the destination in a block.
        columns: Columns of it, which are rows of the source.
        lanes: Columns of a tile; 1 for runs of several elements.
        piece: Rows of a tile, which are neighbours in the source.
    """

    matrix: Matrix
    is_staged: bool
    rows: int
    columns: int
    lanes: int
    piece: int

    @classmethod
    def of(cls, matrix: Matrix, target: Target) -> Blocks:
        """Return the blocks that suit *matrix*."""
        machine, steps = target.machine, matrix.line_steps
        source, dest = matrix.src_stride_bytes, matrix.dest_stride_bytes
        is_staged = _needs(machine, dest, steps) > 1 / 2
        along, across = machine.transposed_steps, 2 * steps
        if is_staged:
            fewest = -(-machine.min_transposed_steps // steps)
            along = max(2, _lines_of_row(dest, machine), fewest) * steps
        elif _needs(machine, source, steps) <= 1 / 2:
            across = steps
        lanes = _narrow(matrix, _lanes(matrix, target), machine)
        piece = floor_power_of_two(min(lanes, PIECE_BYTES // matrix.kind.size_bytes, matrix.rows))
        rows = _balanced(matrix.rows, across, piece)
        columns = _balanced(matrix.columns, along, lanes, spare=is_staged)
        return cls(matrix, is_staged, rows, columns, lanes, piece)

    def as_plan(self) -> Plan:
        """Return the plan that :meth:`from_plan` makes these blocks of."""
        return Plan.of(
            TRANSPOSE,
            rows=self.rows,
            columns=self.columns,
            lanes=self.lanes,
            piece=self.piece,
            staged=self.is_staged or None,
        )

    @classmethod
    def from_plan(cls, plan: Plan, matrix: Matrix, target: Target) -> Blocks:
        """Return the blocks of *matrix* with the settings of *plan*.

        Raises:
            UnsupportedError: A setting is missing, or no tile is like that.
        """
        lanes = plan.number(
            "lanes", most=1 if matrix.run > 1 else native_lanes(target, matrix.kind)
        )
        rows, columns = hinted(matrix.rows), hinted(matrix.columns)
        most = max(1, min(lanes, PIECE_BYTES // matrix.kind.size_bytes, rows))
        made = cls(
            matrix,
            plan.is_set("staged"),
            plan.number("rows", most=max(1, rows)),
            plan.number("columns", most=max(1, columns)),
            lanes,
            plan.number("piece", most=most),
        )
        is_whole = made.rows >= made.piece and made.columns >= lanes
        if not is_whole or {lanes.bit_count(), made.piece.bit_count()} != {1}:
            raise plan.unfit(
                f"lanes = {lanes} and piece = {made.piece} must be powers of two within a block of "
                f"{made.rows} x {made.columns}"
            )
        return made

    @cached_property
    def stride(self) -> int:
        """Elements from row to row of the scratch: a line more than they need."""
        line = self.matrix.line_elements
        return (-(-self.columns * self.matrix.run // line) + 1) * line

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch."""
        return self.rows * self.stride * self.matrix.kind.size_bytes if self.is_staged else 0


def _lines_of_row(stride_bytes: int, machine: Machine) -> int:
    """Return how many lines of a row to write at a time, at least.

    Then those that are in flight, of rows *stride_bytes* apart, need at most half of the places
    that they share: lines that are written need twice as much.
    """
    lines, together = 1, machine.transposed_lines
    while (
        lines < machine.l1_ways and _needs(machine, stride_bytes, together // lines, lines) > 1 / 2
    ):
        lines *= 2
    return lines


def _lanes(matrix: Matrix, target: Target) -> int:
    """Return the columns of a tile: wide ones cost less, but the last overlaps others."""
    if matrix.run > 1:
        return 1
    widest = native_lanes(target, matrix.kind)
    widths = [1 << bit for bit in range(min(widest, matrix.columns).bit_length())]
    return min(reversed(widths), key=lambda width: -(-matrix.columns // width) * (width + widest))


def _narrow(matrix: Matrix, lanes: int, machine: Machine) -> int:
    """Return no more lanes than the cache has places for.

    All the rows of the source that a tile reads stay there until the next tile has read them, too.
    """
    fewest = machine.min_transposed_lanes
    while lanes > fewest and _needs(machine, matrix.src_stride_bytes, lanes) > 1:
        lanes //= 2
    return lanes


def _needs(machine: Machine, stride_bytes: int, rows: int, lines_of_row: int = 1) -> float:
    """Return how much of the places that this number of lines share they need, 1 being all of
    them.
    """
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
