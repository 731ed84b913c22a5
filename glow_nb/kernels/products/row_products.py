"""Products of rows with rows: a matrix times a transposed one, where sums run along vectors.

``result[m, n] = sum over k of left[m, k] * right[n, k]``. A tile is some rows of the left matrix by
some of the right one; each pair has a vector of sums, and the lanes of each are added at the end.
Both matrices are read as they lie, and each thread reads its share of one of them once, at the
rate of the memory it lies in: of the right one if there are few left rows, and of the left one if
these are many. A tile of its rows is multiplied by all rows of the other matrix before the next.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import nullcontext

from glow_nb.base.plan import Plan
from glow_nb.base.size import Size
from glow_nb.kernels.products.blocking import Cut, lanes_of, registers_of
from glow_nb.kernels.products.matmul_shape import MatMulShape
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import kernel_operands

ROWS = "rows"
"""The algorithm whose vectors run along the sums: rows of both matrices, or columns, meet."""


def plan_row_products(product: UnpackedProduct, kinds: ProductKinds, target: Target) -> Plan:
    """Return the tiles of *product*, of operands whose rows or columns are vectors."""
    lanes, shape = lanes_of(kinds.total, target), product.shape
    if shape.rows == 1:
        lanes = min(lanes, target.machine.unaligned_vector_bytes // kinds.total.size_bytes)
    cut, columns = tile_of(shape.rows, target)
    columns = min(columns, lanes)
    left_once = reads_left_once(shape, cut, columns, target)
    return Plan.of(ROWS, rows=cut.rows, columns=columns, lanes=lanes, left_once=left_once or None)


def generate_row_products(
    product: UnpackedProduct, kinds: ProductKinds, plan: Plan, fusion: Fusion
) -> KernelSource:
    """Return the kernel of *product*, of operands of *kinds* whose rows or columns are vectors."""
    writer = RowProductWriter(product, kinds, plan, fusion)
    return KernelSource("row_products", writer.write(), fusion.kinds)


def tile_of(rows: int, target: Target) -> tuple[Cut, int]:
    """Return how *rows* left rows are cut into tiles, and the right rows of a tile.

    The estimated cycles for each right row and vector are the fewest; then the tiles are.
    """
    machine, registers = target.machine, registers_of(target)

    def cycles(columns: int) -> tuple[float, int, int]:
        cut = _cut(rows, columns, registers)
        steps = (
            (end - begin)
            * max(
                size * columns / machine.fma_per_cycle,
                (size + columns) / machine.load_ports,
                machine.fma_latency_cycles,
            )
            for begin, end, size in cut.runs
        )
        return sum(steps) / columns, cut.tiles, -columns

    widths = [1 << bit for bit in range(machine.row_streams.bit_length())]
    columns = min((width for width in widths if _row_limit(width, registers)), key=cycles)
    return _cut(rows, columns, registers), columns


def reads_left_once(shape: MatMulShape, cut: Cut, columns: int, target: Target) -> bool:
    """Return whether each tile of left rows is multiplied by all right rows before the next one.

    Threads share the tiles then, instead of the panels of *columns* right rows: there must be
    enough of them.
    """
    return cut.tiles >= max(target.machine.min_shared_tiles, -(-shape.depth // columns))


def _cut(rows: int, columns: int, registers: int) -> Cut:
    return Cut.balanced(max(1, rows), _row_limit(columns, registers))


def _row_limit(columns: int, registers: int) -> int:
    """Return the most left rows of a tile: its sums, the fewer operands and one more fit."""
    rows = 0
    while (rows + 1) * columns + min(rows + 1, columns) + 1 <= registers:
        rows += 1
    return rows


TAGS = string.ascii_lowercase
"""Letters that tell names in the code of whole panels from those of narrower ones."""


class RowProductWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(
        self, product: UnpackedProduct, kinds: ProductKinds, plan: Plan, fusion: Fusion
    ) -> None:
        self.product, self.kinds, self.lanes = product, kinds, plan.number("lanes")
        self.fusion, self.columns = fusion.named_by_field(), plan.number("columns")
        self.cut = Cut.balanced(max(1, product.shape.rows), plan.rows)
        self.left_once = plan.is_set("left_once")
        _, *operands = kernel_operands(self.fusion.head)
        self.lhs, self.rhs, *self.bias = (self.fusion.names[buffer] for buffer in operands)
        self.out = SourceWriter()

    def write(self) -> str:
        """Return the whole text."""
        out, shape = self.out, self.product.shape
        sizes = f"{shape.batch} x {shape.rows} x {shape.inner}"
        rows = " and ".join(str(rows) for _, _, rows in self.cut.runs)
        out.line(
            f"# product of {sizes} and {shape.depth} rows, tiles of {rows} x {self.columns} rows "
            f"in vectors of {self.lanes}"
        )
        with out.block(self.fusion.header):
            if 0 in (shape.batch, shape.rows, shape.depth):
                out.line("return")
            else:
                panels = (shape.depth + (self.columns - 1)) // self.columns
                pieces = self.cut.tiles if self.left_once else panels
                piece = "tile" if self.left_once else "panel"
                write_shares(out, shape.batch, pieces, panels_first=True, panel=piece)
                # Nothing is kept there: the pointer tells the kind of the sums.
                out.line(f"sums = as_{self.kinds.total.value}(scratch)")
                with out.block("for image in range(unit, unit_end):"):
                    out.line(f"left = {self.product.left.start('image')}")
                    out.line(f"right = {self.product.right.start('image')}")
                    self._write_image()
        return out.text

    def _write_image(self) -> None:
        """Multiply one matrix: the thread's tiles by all panels, or all tiles by its panels."""
        if self.left_once:
            for number, rows in self._tiles(shared=True):
                for tag, columns in self._panels(shared=False):
                    self._write_tile(f"{tag}{number}", rows, columns)
            return
        for tag, columns in self._panels(shared=True):
            for number, rows in self._tiles(shared=False):
                self._write_tile(f"{tag}{number}", rows, columns)

    def _panels(self, *, shared: bool) -> Iterator[tuple[str, int]]:
        """Loop over panels of right rows, those of the thread if they are *shared*.

        Yields a tag and the rows of a panel; the first of them is ``channel``, and begins at ``w``.
        """
        out, column = self.out, self.product.right.column
        depth = self.product.shape.depth
        whole, rest = depth // self.columns, depth % self.columns
        if whole != 0:
            with out.block(f"for panel in {_range('panel', 0, whole, shared=shared)}:"):
                out.line(f"channel = {times('panel', self.columns)}")
                out.line(f"w = {plus('right', times('channel', column))}")
                yield "a", self.columns
        mine = f"panel_begin <= {whole} < panel_end"
        for columns in range(1, self.columns) if isinstance(rest, Size) else [rest] * bool(rest):
            asked = [f"{rest} == {columns}"] if isinstance(rest, Size) else []
            asked += [mine] if shared else []
            with out.block(f"if {' and '.join(asked)}:") if asked else nullcontext():
                out.line(f"channel = {whole * self.columns}")
                out.line(f"w = {plus('right', f'{whole * self.columns * column}')}")
                yield TAGS[columns if isinstance(rest, Size) else 1], columns

    def _tiles(self, *, shared: bool) -> Iterator[tuple[int, int]]:
        """Loop over tiles of left rows, those of the thread if they are *shared*.

        Yields a number and the rows of a tile; the first of them is ``row``, and begins at ``x``.
        """
        out = self.out
        for number, (begin, end, rows) in enumerate(self.cut.runs):
            with out.block(f"for tile in {_range('tile', begin, end, shared=shared)}:"):
                skipped = begin * (self.cut.rows - rows)
                out.line(f"row = {plus(times('tile', rows), skipped)}")
                out.line(f"x = {plus('left', times('row', self.product.left.row))}")
                yield number, rows

    def _write_tile(self, name: str, rows: int, columns: int) -> None:
        """Sum up the tile of *rows* left rows and *columns* right ones, and store it."""
        out, lanes, inner = self.out, self.lanes, self.product.shape.inner
        out.line(f"t_{name} = tile_fill(sums, 0, {rows}, {columns}, {lanes})")
        whole = inner - inner % lanes
        if whole:
            with out.block(f"for k in range(0, {whole}, {lanes}):"):
                self._write_products(name, "k", lanes)
        if inner > whole:
            self._write_products(name, str(whole), inner - whole)
        out.line(f"s_{name} = tile_sum_lanes(t_{name})")
        width = 1 << (columns - 1).bit_length()
        if self.bias:
            bias = f"tile_bias_masked({self.bias[0]}, channel, {rows}, 1, {width}, {columns})"
            out.line(f"s_{name} = add(s_{name}, {bias})")
        row = f"(image * {self.product.shape.rows} + row)"
        store = TileStore(self.fusion, width)
        store.write(out, f"s_{name}", rows, columns=columns, pixel=row, channel="channel")

    def _write_products(self, name: str, k: str, count: int) -> None:
        left, right = self.product.left, self.product.right
        self.out.line(
            f"t_{name} = tile_multiply_rows(t_{name}, {self.lhs}, {plus('x', k)}, {left.row}, "
            f"{self.rhs}, {plus('w', k)}, {right.column}, {count})"
        )


def _range(name: str, begin: int, end: int, *, shared: bool) -> str:
    """Return the range from *begin* to *end*, or the part of it that the thread has."""
    if not shared:
        return f"range({begin}, {end})"
    return f"range(max({name}_begin, {begin}), min({name}_end, {end}))"
