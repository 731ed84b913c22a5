"""Products of rows with rows: a matrix times a transposed one, where sums run along vectors.

``result[m, n] = sum over k of left[m, k] * right[n, k]``. A tile is some rows of the left matrix by
some of the right one; each pair has a vector of sums, and the lanes of each are added at the end.
Both matrices are read as they lie, the right one once for each tile of left rows: with few left
rows, that is at the rate of the memory it lies in.
"""

from __future__ import annotations

from glow_nb.kernels.products.blocking import (
    FMA_LATENCY_CYCLES,
    FMA_PER_CYCLE,
    LOADS_PER_CYCLE,
    Cut,
    lanes_of,
    registers_of,
)
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import kernel_operands

MOST_COLUMNS = 8
"""Right rows of a tile: as many streams of memory as processors follow well."""

STREAMED_BYTES = 32
"""Bytes of a vector for a single left row, when loads are all that counts: those of 64 bytes, which
meet two cache lines each where operands of users begin anywhere, are up to 1.5 times slower."""


def generate_row_products(
    product: UnpackedProduct, kinds: ProductKinds, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel of *product*, of operands of *kinds* whose rows or columns are vectors."""
    lanes, registers = lanes_of(kinds.total, target), registers_of(target)
    if product.shape.rows == 1:
        lanes = min(lanes, STREAMED_BYTES // kinds.total.size_bytes)
    writer = RowProductWriter(product, kinds, lanes, registers, fusion)
    return KernelSource("row_products", writer.write(), fusion.kinds)


def tile_of(rows: int, registers: int) -> tuple[Cut, int]:
    """Return how *rows* left rows are cut into tiles, and the right rows of a tile.

    The estimated cycles for each right row and vector are the fewest; then the tiles are.
    """

    def cycles(columns: int) -> tuple[float, int, int]:
        cut = _cut(rows, columns, registers)
        steps = (
            (end - begin)
            * max(
                size * columns / FMA_PER_CYCLE,
                (size + columns) / LOADS_PER_CYCLE,
                FMA_LATENCY_CYCLES,
            )
            for begin, end, size in cut.runs
        )
        return sum(steps) / columns, cut.tiles, -columns

    widths = [1 << bit for bit in range(MOST_COLUMNS.bit_length())]
    columns = min((width for width in widths if _row_limit(width, registers)), key=cycles)
    return _cut(rows, columns, registers), columns


def _cut(rows: int, columns: int, registers: int) -> Cut:
    return Cut.balanced(max(1, rows), _row_limit(columns, registers))


def _row_limit(columns: int, registers: int) -> int:
    """Return the most left rows of a tile: its sums, the fewer operands and one more fit."""
    rows = 0
    while (rows + 1) * columns + min(rows + 1, columns) + 1 <= registers:
        rows += 1
    return rows


class RowProductWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(
        self,
        product: UnpackedProduct,
        kinds: ProductKinds,
        lanes: int,
        registers: int,
        fusion: Fusion,
    ) -> None:
        self.product, self.kinds, self.lanes = product, kinds, lanes
        self.fusion = fusion.named_by_field()
        self.cut, self.columns = tile_of(product.shape.rows, registers)
        self.columns = min(self.columns, lanes)
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
            if min(shape.batch, shape.rows, shape.depth) == 0:
                out.line("return")
            else:
                panels = -(-shape.depth // self.columns)
                write_shares(out, shape.batch, panels, panels_first=True)
                # Nothing is kept there: the pointer tells the kind of the sums.
                out.line(f"sums = as_{self.kinds.total.value}(scratch)")
                with out.block("for image in range(unit, unit_end):"):
                    out.line(f"left = {self.product.left.start('image')}")
                    out.line(f"right = {self.product.right.start('image')}")
                    self._write_panels()
        return out.text

    def _write_panels(self) -> None:
        """Compute the columns of the thread's share, whole tiles of them and the rest."""
        out, depth, columns = self.out, self.product.shape.depth, self.columns
        whole, rest = divmod(depth, columns)
        if whole:
            with out.block(f"for panel in range(panel_begin, min(panel_end, {whole})):"):
                out.line(f"channel = {times('panel', columns)}")
                self._write_tiles("a", columns)
        if rest:
            with out.block(f"if panel_begin <= {whole} < panel_end:"):
                out.line(f"channel = {whole * columns}")
                self._write_tiles("b", rest)

    def _write_tiles(self, tag: str, columns: int) -> None:
        """Compute the tiles of *columns* right rows with all left rows."""
        out = self.out
        out.line(f"w_{tag} = {plus('right', times('channel', self.product.right.column))}")
        for number, (begin, end, rows) in enumerate(self.cut.runs):
            name = f"{tag}{number}"
            skipped = begin * (self.cut.rows - rows)
            with out.block(f"for tile_{name} in range({begin}, {end}):"):
                out.line(f"at_{name} = {plus(times(f'tile_{name}', rows), skipped)}")
                self._write_tile(tag, name, rows, columns)

    def _write_tile(self, tag: str, name: str, rows: int, columns: int) -> None:
        """Sum up one tile, from left row ``at_<name>`` on, and store it."""
        out, product, lanes = self.out, self.product, self.lanes
        inner = product.shape.inner
        out.line(f"x_{name} = {plus('left', times(f'at_{name}', product.left.row))}")
        out.line(f"t_{name} = tile_fill(sums, 0, {rows}, {columns}, {lanes})")
        whole = inner - inner % lanes
        if whole:
            with out.block(f"for k_{name} in range(0, {whole}, {lanes}):"):
                self._write_products(tag, name, f"k_{name}", lanes)
        if inner > whole:
            self._write_products(tag, name, str(whole), inner - whole)
        out.line(f"s_{name} = tile_sum_lanes(t_{name})")
        width = 1 << (columns - 1).bit_length()
        if self.bias:
            bias = f"tile_bias_masked({self.bias[0]}, channel, {rows}, 1, {width}, {columns})"
            out.line(f"s_{name} = add(s_{name}, {bias})")
        row = f"(image * {product.shape.rows} + at_{name})"
        store = TileStore(self.fusion, width)
        store.write(out, f"s_{name}", rows, columns=columns, pixel=row, channel="channel")

    def _write_products(self, tag: str, name: str, k: str, count: int) -> None:
        left, right = self.product.left, self.product.right
        x, w = (plus(f"{start}", k) for start in (f"x_{name}", f"w_{tag}"))
        self.out.line(
            f"t_{name} = tile_multiply_rows(t_{name}, {self.lhs}, {x}, {left.row}, {self.rhs}, "
            f"{w}, {right.column}, {count})"
        )
