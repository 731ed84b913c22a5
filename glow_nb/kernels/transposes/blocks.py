"""Kernels of the blocks of a matrix that is transposed (see :mod:`.plan`)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace

from glow_nb.base.size import symbols_of
from glow_nb.kernels.transposes.plan import Blocks, Matrix
from glow_nb.kernels.writing.index_text import index_text
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import floor_power_of_two


def write_blocks(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the thread's share of the blocks; the last ones overlap those before.

    Where a size is open, the last ones are smaller.
    """
    if blocks.scratch_bytes:
        out.line(f"stage = as_{matrix.kind.value}(scratch)")
    cuts = [_pieces(matrix.columns, blocks.columns), _pieces(matrix.rows, blocks.rows)]
    with loops(out, [*matrix.outer, *cuts], shared=True) as indices:
        columns = _write_start(out, "column", indices[-2], matrix.columns, blocks.columns)
        rows = _write_start(out, "row", indices[-1], matrix.rows, blocks.rows)
        names = [*indices[:-2], "first_column", "first_row"]
        dest = [*matrix.dest_outer, matrix.run, matrix.dest_stride]
        out.line(f"dest_at = {index_text(names, dest)}")
        src = [*matrix.src_outer, matrix.src_stride, matrix.run]
        out.line(f"src_at = {index_text(names, src)}")
        _write_fitting_tiles(out, _Tiles(matrix, blocks, columns, rows, blocks.lanes, blocks.piece))
        if blocks.is_staged:
            _write_rows(out, blocks, columns, rows)


def _pieces(size: int, step: int) -> int:
    return (size + (step - 1)) // step


def _write_start(out: SourceWriter, name: str, index: str, total: int, step: int) -> int | str:
    """Write where piece number *index* begins, and return how long it is.

    The last one begins so early that it is whole; if *total* is open, it is what is left.
    """
    first = index_text([index], [step])
    if symbols_of(total):
        out.line(f"first_{name} = {first}")
        out.line(f"{name}s = min({step}, {total} - first_{name})")
        return f"{name}s"
    last = total - step
    out.line(f"first_{name} = {first if last % step == 0 else f'min({first}, {last})'}")
    return step


@dataclass(frozen=True)
class _Tiles:
    """The tiles of a block.

    Attributes:
        matrix: The matrix to transpose.
        blocks: Its blocks.
        columns: The columns of the block: a number, or the name of one that is known at run time.
        rows: Likewise.
        lanes: Columns of a tile.
        piece: Rows of a tile.
    """

    matrix: Matrix
    blocks: Blocks
    columns: int | str
    rows: int | str
    lanes: int
    piece: int

    def write(self, out: SourceWriter) -> None:
        """Write the loops over them."""
        matrix, blocks = self.matrix, self.blocks
        run, step = matrix.run, matrix.src_stride
        pointer, place, stride = "dest", "dest_at + ", matrix.dest_stride
        if blocks.is_staged:
            pointer, place, stride = "stage", "", blocks.stride
        with out.block(f"for c in range(0, {self.columns}, {self.lanes}):"):
            column = _whole(out, "column", "c", self.columns, self.lanes)
            with out.block(f"for r in range(0, {self.rows}, {self.piece}):"):
                row = _whole(out, "row", "r", self.rows, self.piece)
                start = f"src_at + {row} * {run} + {column} * {step}"
                to = f"{place}{row} * {stride} + {column} * {run}"
                if run == 1:
                    size = f"{step}, {self.piece}, {self.lanes}"
                    out.line(f"t = tile_load_columns(src, {start}, {size})")
                    out.line(f"tile_store({pointer}, {to}, {stride}, t)")
                else:
                    out.line(f"copy({pointer}, {to}, src, {start}, {run})")


def _write_fitting_tiles(out: SourceWriter, tiles: _Tiles) -> None:
    """Write *tiles*, and narrower ones for a block of an open size that has no room for them."""
    kinds = [
        replace(tiles, lanes=lanes, piece=min(piece, lanes))
        for lanes in _widths(tiles.columns, tiles.lanes)
        for piece in (tiles.piece, *((1,) if isinstance(tiles.rows, str) else ()))
    ]
    for number, kind in enumerate(dict.fromkeys(kinds)):
        fits = [
            f"{count} >= {least}"
            for count, least in ((kind.columns, kind.lanes), (kind.rows, kind.piece))
            if isinstance(count, str) and least > 1
        ]
        with ExitStack() as stack:
            if fits:
                header = f"{'elif' if number else 'if'} {' and '.join(fits)}:"
                stack.enter_context(out.block(header))
            elif number:
                stack.enter_context(out.block("else:"))
            kind.write(out)


def _widths(count: int | str, widest: int) -> list[int]:
    """Return *widest* and, if *count* is open, the smaller powers of two."""
    most = widest.bit_length()
    return [1 << bit for bit in reversed(range(most))] if isinstance(count, str) else [widest]


def _whole(out: SourceWriter, name: str, index: str, total: int | str, step: int) -> str:
    """Return where a tile starts: the last one so early that it is whole."""
    if step == 1 or (isinstance(total, int) and total % step == 0):
        return index
    last = total - step if isinstance(total, int) else f"{total} - {step}"
    out.line(f"{name} = min({index}, {last})")
    return name


def _write_rows(out: SourceWriter, blocks: Blocks, columns: int | str, rows: int | str) -> None:
    """Write the copy of the rows of the scratch: whole lines, the last one overlapping."""
    if isinstance(columns, str):
        with out.block(f"for r in range({rows}):"):
            places = f"dest_at + r * {blocks.matrix.dest_stride}, stage, r * {blocks.stride}"
            out.line(f"copy(dest, {places}, {columns} * {blocks.matrix.run})")
        return
    length = blocks.columns * blocks.matrix.run
    line = min(blocks.matrix.line_elements, floor_power_of_two(length))
    with out.block(f"for r in range({rows}):"):
        out.line(f"to = dest_at + r * {blocks.matrix.dest_stride}")
        out.line(f"kept = r * {blocks.stride}")
        lines = f"tile_load(stage, kept, 0, 1, {length // line}, {line})"
        out.line(f"tile_store(dest, to, 0, {lines})")
        if length % line:
            last = length - line
            out.line(f"store(dest, to + {last}, load(stage, kept + {last}, {line}))")
