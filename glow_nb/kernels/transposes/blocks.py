"""Kernels of the blocks of a matrix that is transposed (see :mod:`.plan`)."""

from __future__ import annotations

from glow_nb.kernels.transposes.plan import BlockOrder, Blocks, Matrix
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
        write_start(out, "column", indices[-2], matrix.columns, blocks.columns)
        write_start(out, "row", indices[-1], matrix.rows, blocks.rows)
        names = [*indices[:-2], "first_column", "first_row"]
        dest = [*matrix.dest_outer, matrix.run, matrix.dest_stride]
        out.line(f"dest_at = {index_text(names, dest)}")
        src = [*matrix.src_outer, matrix.src_stride, matrix.run]
        out.line(f"src_at = {index_text(names, src)}")
        if blocks.order is BlockOrder.GATHERED:
            _write_gather(out, matrix, blocks)
        if blocks.order in (BlockOrder.LINES, BlockOrder.GATHERED):
            _write_tiles_along_dest(out, matrix, blocks)
        else:
            _write_tiles(out, matrix, blocks)
        if blocks.order is BlockOrder.STAGED:
            _write_rows(out, blocks)


def write_start(out: SourceWriter, name: str, index: str, total: int, step: int) -> None:
    """Write where piece number *index* begins: the last one so early that it is whole."""
    first, last = index_text([index], [step]), total - step
    out.line(f"first_{name} = {first if last % step == 0 else f'min({first}, {last})'}")


def _write_tiles(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the loops over the tiles of a block."""
    run, step = matrix.run, matrix.src_stride
    pointer, place, stride = "dest", "dest_at + ", matrix.dest_stride
    if blocks.order is BlockOrder.STAGED:
        pointer, place, stride = "stage", "", blocks.stride
    with out.block(f"for c in range(0, {blocks.columns}, {blocks.lanes}):"):
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


def _write_gather(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the copy of the block of the source into scratch, row by row."""
    with out.block(f"for c in range({blocks.columns}):"):
        out.line(f"start = src_at + c * {matrix.src_stride}")
        if blocks.is_far:
            for element in range(0, blocks.rows, matrix.line_elements):
                out.line(f"tile_prefetch(src, start + {blocks.ahead + element}, 0, 1)")
        _write_row(out, matrix, blocks.rows, f"stage, c * {blocks.stride}", "src, start")


def _write_tiles_along_dest(out: SourceWriter, matrix: Matrix, blocks: Blocks) -> None:
    """Write the loops over the tiles of a block, those that fill rows of the result innermost."""
    line, pointer, place, stride = matrix.line_elements, "src", "src_at + ", matrix.src_stride
    if blocks.order is BlockOrder.GATHERED:
        pointer, place, stride = "stage", "", blocks.stride
    count = max(1, blocks.lanes * blocks.piece // line)
    is_far = blocks.is_far and pointer == "src"
    with out.block(f"for r in range(0, {blocks.rows}, {blocks.piece}):"):
        row = _whole(out, "row", "r", blocks.rows, blocks.piece)
        if is_far:  # each tile asks for some of the lines that its part of the next block is in
            out.line(f"part = r % {line} // {blocks.piece} * {count * matrix.src_stride}")
            out.line(f"ahead = src_at + {blocks.ahead} + r // {line} * {line} + part")
        with out.block(f"for c in range(0, {blocks.columns}, {blocks.lanes}):"):
            column = _whole(out, "column", "c", blocks.columns, blocks.lanes)
            if is_far:
                size = f"{matrix.src_stride}, {count}"
                out.line(f"tile_prefetch(src, ahead + {column} * {matrix.src_stride}, {size})")
            size = f"{stride}, {blocks.piece}, {blocks.lanes}"
            start = f"{place}{row} + {column} * {stride}"
            out.line(f"t = tile_load_columns({pointer}, {start}, {size})")
            to = f"dest_at + {row} * {matrix.dest_stride} + {column}"
            out.line(f"tile_store(dest, {to}, {matrix.dest_stride}, t)")


def _write_prefetch(out: SourceWriter, matrix: Matrix, blocks: Blocks, start: str) -> None:
    """Write the requests for the same rows of the block that comes next."""
    last = blocks.rows * matrix.run - 1
    for element in (*range(matrix.line_elements - 1, last, matrix.line_elements), last):
        place = f"{start} + {blocks.ahead + element}"
        out.line(f"tile_prefetch(src, {place}, {matrix.src_stride}, {blocks.lanes})")


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
        length = blocks.columns * blocks.matrix.run
        _write_row(out, blocks.matrix, length, "dest, to", "stage, kept")


def _write_row(out: SourceWriter, matrix: Matrix, length: int, to: str, start: str) -> None:
    """Write the copy of *length* elements: whole lines, the last one overlapping."""
    line = min(matrix.line_elements, floor_power_of_two(length))
    out.line(f"tile_store({to}, 0, tile_load({start}, 0, 1, {length // line}, {line}))")
    if length % line:
        last = length - line
        out.line(f"store({to} + {last}, load({start} + {last}, {line}))")
