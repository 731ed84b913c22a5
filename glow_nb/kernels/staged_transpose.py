"""Transpose through scratch: whole cache lines are read, and whole cache lines are written.

Where rows lie a large power of two apart, they share the same few places of every cache, and a line
of which a tile takes only a part is gone before the next tile asks for it. So a block is turned
over into scratch memory first, along the rows of the source, and then its rows are copied out.
The rows of the scratch lie a little further apart than they are long, which keeps them off each
other's places.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.source import SourceWriter
from glow_nb.types import ElementKind

LINE_BYTES = 64
"""Bytes of a cache line."""

SETS, WAYS = 64, 8
"""Places of the first-level cache, and lines that one place holds."""

ROWS_TOGETHER = 32
"""Rows of which a direct transpose needs a line each at the same time."""

BLOCK_ROWS, BLOCK_COLUMNS = 32, 128
"""Shape of a block of 4-byte elements: measured on Zen 4, with sides from 16 to 512. The reads are
the shorter ones, because they can be asked for in advance."""


def is_worth_staging(src_stride_bytes: int, dest_stride_bytes: int, tile: int) -> bool:
    """True if a direct transpose in tiles of so many rows would lose lines between two tiles.

    It walks along the rows of one side, so that conflicts between many rows hurt only if both
    sides have them. Lines that are half written must not get lost at all.
    """
    if has_conflicts(src_stride_bytes) and has_conflicts(dest_stride_bytes):
        return True
    return _places(dest_stride_bytes, tile) * WAYS < 2 * min(tile, _lines(dest_stride_bytes, tile))


def has_conflicts(stride_bytes: int) -> bool:
    """True if the lines of neighbouring rows, so far apart, share a few places of a cache."""
    return 4 * _places(stride_bytes, ROWS_TOGETHER) < _lines(stride_bytes, ROWS_TOGETHER)


def _lines(stride_bytes: int, rows: int) -> int:
    """Return how many lines the first elements of *rows* lie in."""
    return len({row * stride_bytes // LINE_BYTES for row in range(rows)})


def _places(stride_bytes: int, rows: int) -> int:
    """Return how many places of a cache these lines share."""
    return len({row * stride_bytes // LINE_BYTES % SETS for row in range(rows)})


@dataclass(frozen=True)
class Block:
    """Part of a matrix that is turned over at once.

    Attributes:
        rows: Rows of the destination.
        columns: Columns of it, which are rows of the source.
        tile: Rows and columns of a tile in registers, at most those of the block.
        kind: Element kind.
    """

    rows: int
    columns: int
    tile: int
    kind: ElementKind

    @classmethod
    def of(cls, rows: int, columns: int, tile: int, kind: ElementKind) -> Block:
        """Return the block for a matrix of *rows* by *columns*."""
        scale = max(1, 4 // kind.size_bytes)
        tall = rows if rows <= 2 * BLOCK_ROWS else _balanced(rows, scale * BLOCK_ROWS, tile)
        return cls(tall, _balanced(columns, scale * BLOCK_COLUMNS, tile), tile, kind)

    @property
    def stride(self) -> int:
        """Elements from row to row of the scratch: one tile more than they need."""
        return -(-self.columns // self.tile) * self.tile + self.tile

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch."""
        return self.rows * self.stride * self.kind.size_bytes


def _balanced(size: int, most: int, tile: int) -> int:
    """Return how to cut *size* into equal pieces of about *most*, whole tiles each."""
    even = -(-size // -(-size // most))
    return min(size, -(-even // tile) * tile)


def write_staged_block(
    out: SourceWriter, block: Block, suffix: str, src_stride: int, dest_stride: int
) -> None:
    """Write the move of one block, from ``src_at`` to ``dest_at``, through ``stage``.

    Args:
        out: Receives the lines.
        block: Its size.
        suffix: Of the names of the pointers ``src`` and ``dest``.
        src_stride: Elements from one row of the source to the next.
        dest_stride: Elements from one row of the destination to the next.
    """
    n, stride = block.tile, block.stride
    line = max(1, LINE_BYTES // block.kind.size_bytes // n)
    with out.block(f"for c in range(0, {block.columns}, {n}):"):
        column = _whole(out, "column", "c", block.columns, n)
        with out.block(f"for r in range(0, {block.rows}, {n}):"):
            row = _whole(out, "row", "r", block.rows, n)
            place = f"src_at + {row} + {column} * {src_stride}"
            with out.block(f"if r // {n} % {line} == 0:  # the block that comes next"):
                out.line(f"tile_prefetch(src{suffix}, {place} + {block.rows}, {src_stride}, {n})")
            out.line(f"t = tile_load(src{suffix}, {place}, {src_stride}, {n}, 1, {n})")
            to = f"{row} * {stride} + {column}"
            out.line(f"tile_store(stage, {to}, {stride}, tile_transpose(t, {n}))")
    with out.block(f"for r in range({block.rows}):"):
        _write_row(out, block, f"r * {stride}", f"dest{suffix}", f"dest_at + r * {dest_stride}")


def _whole(out: SourceWriter, name: str, index: str, total: int, step: int) -> str:
    """Return where a tile starts: the last one so early that it is whole."""
    if total % step == 0:
        return index
    out.line(f"{name} = min({index}, {total - step})")
    return name


def _write_row(out: SourceWriter, block: Block, start: str, dest: str, to: str) -> None:
    """Write the copy of a row of the scratch: whole vectors, the last one overlapping."""
    n, whole = block.tile, block.columns // block.tile
    if whole <= 16:
        out.line(f"tile_store({dest}, {to}, 0, tile_load(stage, {start}, 0, 1, {whole}, {n}))")
    else:
        with out.block(f"for c in range(0, {block.columns - n + 1}, {n}):"):
            out.line(f"store({dest}, {to} + c, load(stage, {start} + c, {n}))")
    if block.columns % n:
        last = block.columns - n
        out.line(f"store({dest}, {to} + {last}, load(stage, {start} + {last}, {n}))")
