"""Kernels of the blocks of a matrix that is transposed (see :mod:`.plan`)."""

from __future__ import annotations

from glow_nb.kernels.transposes.plan import Blocks, Matrix
from glow_nb.kernels.writing.index_text import index_text
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import floor_power_of_two


def write_blocks(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the thread's share of the blocks; the last ones overlap those before."""
    if blocks.scratch_bytes:
        out.line(f"stage = as_{matrix.kind.value}(scratch)")
    cuts = [-(-matrix.columns // blocks.columns), -(-matrix.rows // blocks.rows)]
    with loops(out, [*matrix.outer, *cuts], shared=True) as indices:
        _write_start(out, "column", indices[-2], matrix.columns, blocks.columns)
        _write_start(out, "row", indices[-1], matrix.rows, blocks.rows)
        names = [*indices[:-2], "first_column", "first_row"]
        dest = [*matrix.dest_outer, matrix.run, matrix.dest_stride]
        out.line(f"dest_at = {index_text(names, dest)}")
        src = [*matrix.src_outer, matrix.src_stride, matrix.run]
        out.line(f"src_at = {index_text(names, src)}")
        _write_tiles(out, matrix, blocks)
        if blocks.is_staged:
            _write_rows(out, blocks)


def _write_start(out: SourceWriter, name: str, index: str, total: int, step: int) -> None:
    """Write where piece number *index* begins: the last one so early that it is whole."""
    first, last = index_text([index], [step]), total - step
    out.line(f"first_{name} = {first if last % step == 0 else f'min({first}, {last})'}")


def _write_tiles(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the loops over the tiles of a block."""
    run, step = matrix.run, matrix.src_stride
    pointer, place, stride = "dest", "dest_at + ", matrix.dest_stride
    if blocks.is_staged:
        pointer, place, stride = "stage", "", blocks.stride
    with out.block(f"for c in range(0, {blocks.columns}, {blocks.lanes}):"):
        column = _whole(out, "column", "c", blocks.columns, blocks.lanes)
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


def _whole(out: SourceWriter, name: str, index: str, total: int, step: int) -> str:
    """Return where a tile starts: the last one so early that it is whole."""
    if total % step == 0:
        return index
    out.line(f"{name} = min({index}, {total - step})")
    return name


def _write_rows(out: SourceWriter, blocks: Blocks) -> None:
    """Write the copy of the rows of the scratch: whole lines, the last one overlapping."""
    length = blocks.columns * blocks.matrix.run
    line = min(blocks.matrix.line_elements, floor_power_of_two(length))
    with out.block(f"for r in range({blocks.rows}):"):
        out.line(f"to = dest_at + r * {blocks.matrix.dest_stride}")
        out.line(f"kept = r * {blocks.stride}")
        lines = f"tile_load(stage, kept, 0, 1, {length // line}, {line})"
        out.line(f"tile_store(dest, to, 0, {lines})")
        if length % line:
            last = length - line
            out.line(f"store(dest, to + {last}, load(stage, kept + {last}, {line}))")
