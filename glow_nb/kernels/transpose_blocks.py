"""Blocks of a matrix that is turned over: tiles in registers, through scratch where that pays.

A block is walked along the rows of the source, some of them at a time: a tile reads a piece of each
and writes as many rows of the destination, a vector each. ::

    src   a0 a1 a2 a3 ...            dest   a0 b0 c0 d0 ...
          b0 b1 b2 b3 ...     ->            a1 b1 c1 d1 ...
          c0 c1 c2 c3 ...                   a2 b2 c2 d2 ...
          d0 d1 d2 d3 ...                   a3 b3 c3 d3 ...

The rows of the block that comes next are asked for meanwhile, since no processor foresees that.

Where rows of the destination lie a large power of two apart, they share the same few places of
every cache, and a line that is half written is gone before the next tile asks for it. Such a block
is turned over into scratch, of which the rows lie a little further apart than they are long, and
then its rows are copied out. So are those of a result that no cache holds: whole lines are written
past the caches, as a copy does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from glow_nb.kernels.loops import index_text, loops
from glow_nb.kernels.source import SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.kernels.vectors import floor_power_of_two, native_lanes
from glow_nb.types import ElementKind

LINE_BYTES = 64
"""Bytes of a cache line."""

PIECE_BYTES = 16
"""Of a row, what a tile takes: processors shuffle freely within so many bytes only."""

SETS, WAYS = 64, 8
"""Places of the first-level cache, and lines that one place holds."""

STAGED_LINES, STAGED_COLUMNS = 2, 64
"""Cache lines along a row of the source, and columns, of a block that goes through scratch; twice
as many columns if all its rows begin in the same place of a cache, so that their other lines go
elsewhere. These and the next were measured on Zen 4, with sides from 16 to 512."""

FEWEST_STAGED_LINES = 4
"""Such a block has columns enough to fill so many lines along a row of the destination."""

STREAMED_SHARE = 3
"""Results from this part of the last cache on are written past it: others use it, too."""

DIRECT_COLUMNS = 512
"""Columns of a block that does not; along a row of the source it has one line, or two if rows share
places of the cache: lines that go to the same place are waited for one after the other."""

MANY_STEPS = 32
"""Where so many elements fill a line, half of a line of the source is taken if that spares the way
through scratch: lines of fewer rows of the destination are written at a time."""

FEWEST_LANES = 8
"""A tile has no fewer columns for what it would lose from the cache."""


@dataclass(frozen=True)
class Matrix:
    """The two loops that are turned over, and those around them.

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
        return LINE_BYTES // self.kind.size_bytes

    @property
    def has_whole_lines(self) -> bool:
        """True if every row of the destination begins a line when the first one does."""
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
        rows: Rows of the destination in a block.
        columns: Columns of it, which are rows of the source.
        step: Columns from one block to the next. If it streams, there are fewer of them: a block
            holds all of each line that begins in its step, wherever lines begin.
        lanes: Columns of a tile; 1 for runs of several elements.
        piece: Rows of a tile, which are neighbours in the source.
        is_staged: A block goes through scratch.
        streams: It is copied from there past the caches.
        is_far: The source comes from so far that it should be asked for in advance.
    """

    matrix: Matrix
    rows: int
    columns: int
    step: int
    lanes: int
    piece: int
    is_staged: bool
    streams: bool
    is_far: bool

    @classmethod
    def of(cls, matrix: Matrix, target: Target, size_bytes: int) -> Blocks:
        """Return the blocks that suit *matrix*, part of a tensor of *size_bytes*."""
        lanes, piece = _tile(matrix, target)
        line, steps = matrix.line_elements, matrix.line_steps
        fewest, beyond = max(FEWEST_STAGED_LINES * steps, 8), -(-line // matrix.run)
        whole = line // gcd(line, matrix.run)  # as many steps fill lines
        step = -(-max(STAGED_COLUMNS // matrix.run, fewest) // whole) * whole
        streams = is_streamed(target, size_bytes) and matrix.columns >= step + beyond
        needed = _needs(matrix.dest_stride_bytes, steps)
        is_staged = streams or needed > (1 if steps >= MANY_STEPS else 1 / 2)
        if is_staged:
            along = STAGED_COLUMNS * 2 if needed > 1 else STAGED_COLUMNS
            across, along = STAGED_LINES * steps, max(along // matrix.run, fewest)
        elif needed > 1 / 2:
            across, along = steps // 2, DIRECT_COLUMNS
        else:
            across = 2 * steps if _needs(matrix.src_stride_bytes, steps) > 1 / 2 else steps
            along = DIRECT_COLUMNS
        rows = _balanced(matrix.rows, across, piece)
        columns = step + beyond if streams else _balanced(matrix.columns, along, lanes)
        step = step if streams else columns
        is_far = 4 * size_bytes > target.l2_bytes
        return cls(matrix, rows, columns, step, lanes, piece, is_staged, streams, is_far)

    @cached_property
    def stride(self) -> int:
        """Elements from row to row of the scratch: a line more than they need."""
        line = self.matrix.line_elements
        return (-(-self.columns * self.matrix.run // line) + 1) * line

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch."""
        return self.rows * self.stride * self.matrix.kind.size_bytes if self.is_staged else 0


def is_streamed(target: Target, size_bytes: int) -> bool:
    """True if a result of so many bytes is written past the caches, which its source fills."""
    return STREAMED_SHARE * size_bytes >= target.l3_bytes


def _tile(matrix: Matrix, target: Target) -> tuple[int, int]:
    """Return the columns and rows of a tile.

    Wide ones cost less, but the last of them overlaps others, and all the rows of the source that a
    tile reads must stay in the first-level cache until the next tile has read them, too.
    """
    if matrix.run > 1:
        return 1, 1
    widest = native_lanes(target, matrix.kind)
    widths = [1 << bit for bit in range(min(widest, matrix.columns).bit_length())]
    lanes = min(
        reversed(widths),
        key=lambda width: -(-matrix.columns // width) * (width + widest / 8),
    )
    while lanes > FEWEST_LANES and _needs(matrix.src_stride_bytes, lanes) > 1:
        lanes //= 2
    piece = min(lanes, PIECE_BYTES // matrix.kind.size_bytes, matrix.rows)
    return lanes, floor_power_of_two(piece)


def _needs(stride_bytes: int, rows: int) -> float:
    """Return how much of the places that so many lines share they need, 1 being all of them."""
    lines = {row * stride_bytes // LINE_BYTES for row in range(rows)}
    return len(lines) / (WAYS * len({line % SETS for line in lines}))


def _balanced(size: int, most: int, tile: int) -> int:
    """Return how to cut *size* into equal pieces of about *most*, whole tiles each."""
    even = -(-size // -(-size // most))
    return min(size, -(-even // tile) * tile)


def write_blocks(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the thread's share of the blocks; the last ones overlap those before."""
    if blocks.is_staged:
        out.line(f"stage = as_{matrix.kind.value}(scratch)")
    beyond = blocks.columns - blocks.step
    cuts = [-(-(matrix.columns - beyond) // blocks.step), -(-matrix.rows // blocks.rows)]
    with loops(out, [*matrix.outer, *cuts], shared=True) as indices:
        write_start(out, "column", indices[-2], matrix.columns, blocks.step, beyond)
        write_start(out, "row", indices[-1], matrix.rows, blocks.rows)
        names = [*indices[:-2], "first_column", "first_row"]
        dest = [*matrix.dest_outer, matrix.run, matrix.dest_stride]
        out.line(f"dest_at = {index_text(names, dest)}")
        src = [*matrix.src_outer, matrix.src_stride, matrix.run]
        out.line(f"src_at = {index_text(names, src)}")
        _write_tiles(out, matrix, blocks)
        if blocks.is_staged:
            _write_rows(out, blocks)
    if blocks.streams:
        out.line("fence()")


def write_start(
    out: SourceWriter, name: str, index: str, total: int, step: int, beyond: int = 0
) -> None:
    """Write where piece number *index* begins: the last one so early that it is whole.

    Pieces are *beyond* longer than the *step* from one to the next.
    """
    first, last = index_text([index], [step]), total - step - beyond
    out.line(f"first_{name} = {first if last % step == 0 else f'min({first}, {last})'}")


def _write_tiles(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the loops over the tiles of a block."""
    run, step = matrix.run, matrix.src_stride
    pointer, place, stride = "dest", "dest_at + ", matrix.dest_stride
    if blocks.is_staged:
        pointer, place, stride = "stage", "", blocks.stride
    end = str(blocks.columns)
    if blocks.streams and matrix.has_whole_lines:
        is_last = f"first_column == {matrix.columns - blocks.columns}"
        end = "end"
        out.line(f"is_whole = to_line(at(dest, dest_at)) == 0 and not {is_last}")
        out.line(f"end = {blocks.step} if is_whole else {blocks.columns}")
    with out.block(f"for c in range(0, {end}, {blocks.lanes}):"):
        column = _whole(out, "column", "c", blocks.columns, blocks.lanes)
        if blocks.is_far:
            _write_prefetch(out, matrix, blocks, f"src_at + {column} * {step}")
        with out.block(f"for r in range(0, {blocks.rows}, {blocks.piece}):"):
            row = _whole(out, "row", "r", blocks.rows, blocks.piece)
            start = f"src_at + {row} * {run} + {column} * {step}"
            to = f"{place}{row} * {stride} + {column} * {run}"
            if run == 1:
                size = f"{step}, {blocks.piece}, {blocks.lanes}"
                out.line(f"t = tile_load_columns(src, {start}, {size})")
                out.line(f"tile_store({pointer}, {to}, {stride}, t)")
            else:
                out.line(f"copy({pointer}, {to}, src, {start}, {run})")


def _write_prefetch(out: SourceWriter, matrix: Matrix, blocks: Blocks, start: str) -> None:
    """Write the requests for the same rows of the block that comes next."""
    length = blocks.rows * matrix.run
    last = 2 * length - 1
    for element in range(length + matrix.line_elements - 1, last, matrix.line_elements):
        out.line(f"tile_prefetch(src, {start} + {element}, {matrix.src_stride}, {blocks.lanes})")
    out.line(f"tile_prefetch(src, {start} + {last}, {matrix.src_stride}, {blocks.lanes})")


def _whole(out: SourceWriter, name: str, index: str, total: int, step: int) -> str:
    """Return where a tile starts: the last one so early that it is whole."""
    if total % step == 0:
        return index
    out.line(f"{name} = min({index}, {total - step})")
    return name


def _write_rows(out: SourceWriter, blocks: Blocks) -> None:
    """Write the loop over the rows of the scratch, which are copied out."""
    with out.block(f"for r in range({blocks.rows}):"):
        out.line(f"to = dest_at + r * {blocks.matrix.dest_stride}")
        out.line(f"kept = r * {blocks.stride}")
        write = _write_lines if blocks.streams else _write_row
        write(out, blocks)


def _write_row(out: SourceWriter, blocks: Blocks) -> None:
    """Write the copy of a row of the scratch: whole lines, the last one overlapping."""
    length = blocks.columns * blocks.matrix.run
    line = min(blocks.matrix.line_elements, floor_power_of_two(length))
    load = f"tile_load(stage, kept, 0, 1, {length // line}, {line})"
    out.line(f"tile_store(dest, to, 0, {load})")
    if length % line:
        last = length - line
        out.line(f"store(dest, to + {last}, load(stage, kept + {last}, {line}))")


def _write_lines(out: SourceWriter, blocks: Blocks) -> None:
    """Write the copy of the lines that begin in a step of a row, and of the ends of the row."""
    matrix, line = blocks.matrix, blocks.matrix.line_elements
    length = blocks.step * matrix.run
    out.line("first = to_line(at(dest, to))")
    with out.block(f"for q in range(first, first + {length}, {line}):"):
        out.line(f"store_streaming(dest, to + q, load(stage, kept + q, {line}))")
    with out.block("if first_column == 0:"):
        out.line("copy(dest, to, stage, kept, first)")
    with out.block(f"if first_column == {matrix.columns - blocks.columns}:"):
        out.line(f"last = first + {length}")
        rest = f"{blocks.columns * matrix.run} - last"
        out.line(f"copy(dest, to + last, stage, kept + last, {rest})")
