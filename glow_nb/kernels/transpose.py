"""Transpose: copies of rows where the innermost dimension stays, tiles in registers where not.

Dimensions that stay neighbours are collapsed first. What is left is either a copy through a view,
or a matrix of which the rows of one tensor are the columns of the other, in outer loops: square
tiles are loaded row by row, turned over in registers and stored row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.kernels.elementwise import elementwise_source
from glow_nb.kernels.loops import Nest, index_text, loops
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.staged_transpose import (
    Block,
    has_conflicts,
    is_worth_staging,
    write_staged_block,
)
from glow_nb.kernels.target import Target
from glow_nb.kernels.vectors import ceil_power_of_two, floor_power_of_two, native_lanes
from glow_nb.llir.instructions.shape import CopyInst, TransposeInst
from glow_nb.llir.program import View
from glow_nb.types import ElementKind

PAIR = 2

PASS = 64
"""Rows and columns of the source that are walked together: they stay in the first-level cache."""

MOVED_AS = {
    ElementKind.BOOL: ElementKind.UINT8,
    ElementKind.FLOAT16: ElementKind.UINT16,
    ElementKind.BFLOAT16: ElementKind.UINT16,
}
"""Kinds that are moved as plain bits of the same size; the others as they are."""

WIDE_KINDS = {2: ElementKind.UINT16, 4: ElementKind.UINT32, 8: ElementKind.UINT64}
"""By size in bytes, what neighbours that stay together are moved as."""


@kernel_for(TransposeInst)
def transpose_source(instruction: TransposeInst, target: Target) -> KernelSource:
    """Return the kernel of a transpose of any rank and permutation."""
    dest, source = instruction.dest, instruction.input
    steps = tuple(source.strides[axis] for axis in instruction.permutation)
    turned = View("turned", dest.type, base=source, steps=steps)
    nest = Nest.over(dest.type.shape, (dest, turned))
    nest, moved = _widened(nest, MOVED_AS.get(dest.type.kind, dest.type.kind))
    matrix = _matrix_of(nest) if dest.type.size else None
    if matrix is None:
        return elementwise_source(CopyInst(dest, turned), target)
    out, kind, scratch_bytes = SourceWriter(), dest.type.kind, 0
    with out.block("def kernel(dest, src, scratch, thread, threads):"):
        if moved is not kind:
            out.line(f"dest_bits = as_{moved.value}(dest)")
            out.line(f"src_bits = as_{moved.value}(src)")
        suffix = "_bits" if moved is not kind else ""
        if _is_pair(matrix, moved):
            _write_pairs(out, nest, matrix, native_lanes(target, moved), suffix)
        else:
            scratch_bytes = _write_matrix(out, nest, matrix, moved, target, suffix)
    return KernelSource("transpose", out.text, (kind, kind), scratch_bytes)


@dataclass(frozen=True)
class _Matrix:
    """The two loops that are turned over.

    Attributes:
        row_loop: Loop along which the source is contiguous.
        column_loop: Loop along which the destination is contiguous.
        rows: Steps of the row loop, which are rows of the destination.
        columns: Steps of the column loop.
        dest_stride: Elements from one row of the destination to the next.
        src_stride: Elements from one column of it to the next, in the source.
    """

    row_loop: int
    column_loop: int
    rows: int
    columns: int
    dest_stride: int
    src_stride: int


@dataclass(frozen=True)
class _Tiles:
    """How the matrix is moved.

    Attributes:
        size: Rows and columns of a tile.
        suffix: Of the names of the pointers.
        along_source: Tiles follow each other along the rows of the source, because these are so
            far apart that a cache does not hold many of them; else along those of the destination.
    """

    size: int
    suffix: str
    along_source: bool


def _widened(nest: Nest, kind: ElementKind) -> tuple[Nest, ElementKind]:
    """Return *nest* with the few elements that stay neighbours taken as one, and its kind."""
    inner, size = [strides[-1] for strides in nest.strides], nest.sizes[-1]
    wide = WIDE_KINDS.get(size * kind.size_bytes)
    fits = size and all(step % size == 0 for strides in nest.strides for step in strides[:-1])
    if inner != [1, 1] or size == 1 or len(nest.sizes) < 2 or not wide or not fits:
        return nest, kind
    strides = tuple(tuple(step // size for step in steps[:-1]) for steps in nest.strides)
    return Nest(nest.sizes[:-1], strides), wide


def _matrix_of(nest: Nest) -> _Matrix | None:
    """Return the loops to turn over, or None if a copy along one loop does as well."""
    dest, src = nest.strides
    in_src = [i for i in range(len(src)) if src[i] == 1]
    in_dest = [i for i in range(len(dest)) if dest[i] == 1]
    if not in_src or not in_dest or set(in_src) & set(in_dest):
        return None
    rows, columns = in_src[0], in_dest[0]
    return _Matrix(rows, columns, nest.sizes[rows], nest.sizes[columns], dest[rows], src[columns])


def _tile_size(rows: int, columns: int, kind: ElementKind, target: Target) -> int:
    """Return the side of a tile: as registers allow, and no larger than the matrix needs."""
    widest = native_lanes(target, kind)
    limit = 16 if kind.size_bytes == 1 or target.vector_registers > 16 else 8
    needed = ceil_power_of_two(min(rows, columns))
    available = floor_power_of_two(max(rows, columns))
    return min(widest, limit, needed, available)


def _write_matrix(
    out: SourceWriter,
    nest: Nest,
    matrix: _Matrix,
    kind: ElementKind,
    target: Target,
    suffix: str,
) -> int:
    """Write the move of a matrix in tiles; return the bytes of scratch that it takes."""
    size = _tile_size(matrix.rows, matrix.columns, kind, target)
    strides = matrix.src_stride * kind.size_bytes, matrix.dest_stride * kind.size_bytes
    if min(matrix.rows, matrix.columns) < size or not is_worth_staging(*strides, size):
        tiles = _Tiles(size, suffix, along_source=has_conflicts(strides[0]))
        _write_tiles(out, nest, matrix, tiles)
        return 0
    block = Block.of(matrix.rows, matrix.columns, size, kind)
    _write_blocks(out, nest, matrix, block, suffix)
    return block.scratch_bytes


def _write_blocks(
    out: SourceWriter, nest: Nest, matrix: _Matrix, block: Block, suffix: str
) -> None:
    """Write the loops over the blocks that go through scratch; the last ones overlap others."""
    pair = (matrix.row_loop, matrix.column_loop)
    outer = [loop for loop in range(len(nest.sizes)) if loop not in pair]
    sizes = [nest.sizes[loop] for loop in outer]
    cuts = [-(-matrix.columns // block.columns), -(-matrix.rows // block.rows)]
    out.line(f"stage = as_{block.kind.value}(scratch)")
    with loops(out, [*sizes, *cuts], shared=True) as indices:
        _write_start(out, "column", indices[-2], matrix.columns, block.columns)
        _write_start(out, "row", indices[-1], matrix.rows, block.rows)
        names = [*indices[:-2], "first_column", "first_row"]
        for name, tensor in zip(("dest", "src"), nest.strides, strict=True):
            steps = [tensor[loop] for loop in (*outer, matrix.column_loop, matrix.row_loop)]
            out.line(f"{name}_at = {index_text(names, steps)}")
        write_staged_block(out, block, suffix, matrix.src_stride, matrix.dest_stride)


def _is_pair(matrix: _Matrix, kind: ElementKind) -> bool:
    """True if two rows become one of pairs, or one of pairs becomes two rows."""
    one_row = matrix.columns == matrix.dest_stride == PAIR
    one_column = matrix.rows == matrix.src_stride == PAIR
    return (one_row or one_column) and max(matrix.rows, matrix.columns) > PAIR


def _write_pairs(out: SourceWriter, nest: Nest, matrix: _Matrix, lanes: int, suffix: str) -> None:
    """Write vectors of two rows with their elements in turn, or take such ones apart."""
    is_zip = matrix.columns == PAIR
    length = matrix.rows if is_zip else matrix.columns
    lanes = min(lanes, floor_power_of_two(length))
    pair = (matrix.row_loop, matrix.column_loop)
    outer = [loop for loop in range(len(nest.sizes)) if loop not in pair]
    pieces = -(-length // lanes)
    with loops(out, [*(nest.sizes[loop] for loop in outer), pieces], shared=True) as indices:
        _write_start(out, "element", indices[-1], length, lanes)
        along = matrix.row_loop if is_zip else matrix.column_loop
        for name, tensor in zip(("dest", "src"), nest.strides, strict=True):
            steps = [*(tensor[loop] for loop in outer), tensor[along]]
            out.line(f"{name}_at = {index_text([*indices[:-1], 'first_element'], steps)}")
        if is_zip:
            load = f"tile_load(src{suffix}, src_at, {matrix.src_stride}, 2, 1, {lanes})"
            out.line(f"tile_store(dest{suffix}, dest_at, 0, tile_zip({load}))")
        else:
            load = f"tile_load(src{suffix}, src_at, 0, 1, 2, {lanes})"
            stride = matrix.dest_stride
            out.line(f"tile_store(dest{suffix}, dest_at, {stride}, tile_unzip({load}))")


def _write_start(out: SourceWriter, name: str, index: str, total: int, step: int) -> None:
    """Write where piece number *index* begins: the last one so early that it is whole."""
    first = index_text([index], [step])
    last = total - step
    out.line(f"first_{name} = {first if total % step == 0 else f'min({first}, {last})'}")


def _write_tiles(out: SourceWriter, nest: Nest, matrix: _Matrix, tiles: _Tiles) -> None:
    """Write the loops over passes: some rows by some columns, in each of the outer steps."""
    pair = (matrix.row_loop, matrix.column_loop)
    outer = [loop for loop in range(len(nest.sizes)) if loop not in pair]
    height, width = _pass_shape(matrix, tiles)
    sizes = [nest.sizes[loop] for loop in outer]
    passes = [-(-matrix.rows // height), -(-matrix.columns // width)]
    order = slice(None, None, 1 if tiles.along_source else -1)
    with loops(out, [*sizes, *passes[order]], shared=True) as indices:
        for name, tensor in zip(("dest", "src"), nest.strides, strict=True):
            row = index_text(indices[:-2], [tensor[loop] for loop in outer])
            out.line(f"{name}_row = {row}")
        row_pass, column_pass = indices[-2:][order]
        if matrix.columns < tiles.size:
            _write_narrow(out, matrix, tiles, row_pass)
            return
        rows = f"for r in {_pass(row_pass, height, matrix.rows, tiles.size)}:"
        columns = f"for c in {_pass(column_pass, width, matrix.columns, tiles.size)}:"
        if matrix.rows < tiles.size:
            with out.block(columns):
                _write_flat_tile(out, matrix, tiles)
            return
        first, second = (columns, rows) if tiles.along_source else (rows, columns)
        with out.block(first), out.block(second):
            _write_tile(out, matrix, tiles)


def _pass_shape(matrix: _Matrix, tiles: _Tiles) -> tuple[int, int]:
    """Return rows and columns of a pass."""
    if min(matrix.rows, matrix.columns) < tiles.size:
        return 4 * PASS, 4 * PASS
    return (PASS // 2, PASS) if tiles.along_source else (max(PASS // 4, tiles.size), PASS)


def _pass(index: str, length: int, total: int, step: int) -> str:
    """Return the range of the starts of tiles in one pass of at most *length* elements."""
    if total <= length:
        return f"range(0, {total}, {step})"
    return f"range({index} * {length}, min({index} * {length} + {length}, {total}), {step})"


def _write_tile_start(out: SourceWriter, name: str, index: str, total: int, step: int) -> None:
    """Write where a tile starts: the last one so early that it is whole."""
    out.line(f"{name} = {index}" if total % step == 0 else f"{name} = min({index}, {total - step})")


def _write_tile(out: SourceWriter, matrix: _Matrix, tiles: _Tiles) -> None:
    """Write one square tile; the last ones overlap those before, so that all are whole."""
    n, step, apart = tiles.size, matrix.src_stride, matrix.dest_stride
    _write_tile_start(out, "row", "r", matrix.rows, n)
    _write_tile_start(out, "column", "c", matrix.columns, n)
    out.line(
        f"t = tile_load(src{tiles.suffix}, src_row + row + column * {step}, {step}, {n}, 1, {n})"
    )
    place = f"dest_row + row * {apart} + column"
    out.line(f"tile_store(dest{tiles.suffix}, {place}, {apart}, tile_transpose(t, {n}))")


def _write_flat_tile(out: SourceWriter, matrix: _Matrix, tiles: _Tiles) -> None:
    """Write a tile of which the source has fewer than all lanes: ``[n, few]`` to ``[few, n]``."""
    n, step, few = tiles.size, matrix.src_stride, matrix.rows
    _write_tile_start(out, "column", "c", matrix.columns, n)
    place = f"src_row + column * {step}"
    out.line(f"t = tile_load_masked(src{tiles.suffix}, {place}, {step}, {n}, {n}, {few})")
    turned = f"tile_transpose(t, {few})"
    out.line(f"tile_store(dest{tiles.suffix}, dest_row + column, {matrix.dest_stride}, {turned})")


def _write_narrow(out: SourceWriter, matrix: _Matrix, tiles: _Tiles, index: str) -> None:
    """Write tiles of which the destination takes fewer than n lanes: ``[few, n]`` to ``[n, few]``.

    Where rows follow each other without gaps, each is stored with all lanes, and the next one
    overwrites what was too much. The last tile of a pass is masked.
    """
    n, few, apart = tiles.size, matrix.columns, matrix.dest_stride
    length, _ = _pass_shape(matrix, tiles)
    end = f"min({index} * {length} + {length}, {matrix.rows})" if index != "0" else matrix.rows
    out.line(f"last = {end} - {n}")
    load = f"t = tile_load(src{tiles.suffix}, src_row + row, {matrix.src_stride}, {few}, 1, {n})"
    store = f"dest{tiles.suffix}, dest_row + row * {apart}, {apart}, tile_transpose(t, {n})"
    with out.block(f"for row in range({index_text([index], [length])}, last, {n}):"):
        out.line(load)
        out.line(f"tile_store({store})" if apart == few else f"tile_store_masked({store}, {few})")
    out.line("row = last")
    out.line(load)
    out.line(f"tile_store_masked({store}, {few})")
