"""Products of few rows with a large run-time matrix, which is read in its own order.

A few rows of the matrix are multiplied from end to end, then the next ones, while the sums of all
columns wait in scratch. So each byte of the matrix is read once, at the rate of the memory that it
lies in.

A user's matrix begins anywhere, not where a line of the cache does, and vectors that lie in two
lines each are slower. Where all rows begin at the same place of a vector, the vectors of a sweep
therefore begin at multiples of their size: up to ``lanes - 1`` elements before the first column.
There is nothing to fear from what they read there or after the last column. Matrices begin at a
multiple of an element's size, so it lies in a line that holds columns, too, and is memory of the
process; and its sums are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from glow_nb.base.alignment import CACHE_LINE_BYTES, aligned_bytes
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.products.sweep_plan import SweepPlan
from glow_nb.kernels.products.unpacked_product import UnpackedProduct
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import kernel_operands


def generate_swept_product(
    product: UnpackedProduct, kinds: ProductKinds, plan: SweepPlan, fusion: Fusion
) -> KernelSource:
    """Return the kernel of *product*, whose right matrices have columns that are neighbours."""
    writer = SweptProductWriter(product, kinds, plan, fusion)
    return KernelSource("swept_product", writer.write(), fusion.kinds, writer.scratch_bytes)


class SweptProductWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(
        self, product: UnpackedProduct, kinds: ProductKinds, plan: SweepPlan, fusion: Fusion
    ) -> None:
        self.product, self.kinds, self.plan = product, kinds, plan
        self.shape = shape = product.shape
        self.fusion = fusion.named_by_field()
        self.tiles = TileStore(self.fusion, plan.lanes)
        _, *operands = kernel_operands(self.fusion.head)
        self.lhs, self.rhs, *self.bias = (self.fusion.names[buffer] for buffer in operands)
        self.panels = -(-shape.depth // plan.block)
        # with an odd number of lines from row to row, they fall into several places of a cache
        line = CACHE_LINE_BYTES // kinds.total.size_bytes
        self.width = (-(-(self.panels * plan.block + plan.lanes) // line) | 1) * line
        self.sums_at = aligned_bytes(shape.rows * plan.steps * kinds.staged.size_bytes)
        self.scratch_bytes = self.sums_at + shape.rows * self.width * kinds.total.size_bytes
        self.out = SourceWriter()

    def write(self) -> str:
        """Return the whole text."""
        out, shape, plan = self.out, self.shape, self.plan
        sizes = f"{self.kinds.left.value}<{shape.batch} x {shape.rows} x {shape.inner}>"
        rows = " and ".join(str(rows) for _, _, rows in plan.cut.runs)
        out.line(
            f"# product of {sizes} and {shape.depth} columns, which are swept "
            f"{plan.steps} rows at a time\n# tiles of {rows} rows x {plan.vectors} vectors of "
            f"{plan.lanes}, threads share columns"
        )
        with out.block(self.fusion.header):
            if min(shape.batch, shape.rows, shape.depth) == 0:
                out.line("return")
                return out.text
            write_shares(out, shape.batch, self.panels, panels_first=True)
            out.line(f"packed = as_{self.kinds.staged.value}(scratch)")
            out.line(f"sums = as_{self.kinds.total.value}(at(scratch, {self.sums_at}))")
            with out.block("if panel_begin < panel_end:"):
                with out.block("for image in range(unit, unit_end):"):
                    self._write_image()
        return out.text

    def _write_image(self) -> None:
        """Multiply one matrix: sweep the thread's columns of it, and store their sums."""
        out, plan, depth = self.out, self.plan, self.shape.depth
        first = times("panel_begin", plan.block)
        out.line(f"left = {self.product.left.start('image')}")
        out.line(f"right = {plus(self.product.right.start('image'), first)}")
        if plan.is_aligned:
            out.line(f"columns = min({times('panel_end', plan.block)}, {depth}) - {first}")
            out.line(f"before = -to_line(at({self.rhs}, right)) % {plan.lanes}")
            out.line(f"vectors = (before + columns + {plan.lanes - 1}) // {plan.lanes}")
            out.line("right -= before")
        panels = f"(panel_end - panel_begin) * {plan.block}"
        used = times("vectors", plan.lanes) if plan.is_aligned else panels
        with out.block(f"for near in range({self.shape.rows}):"):
            out.line(f"clear(sums, {times('near', self.width)}, {used})")
        whole, rest = divmod(self.shape.inner, plan.steps)
        if whole:
            with out.block(f"for part in range({whole}):"):
                self._write_part(times("part", plan.steps), plan.steps)
        if rest:
            self._write_part(str(whole * plan.steps), rest)
        with out.block("for panel in range(panel_begin, panel_end):"):
            out.line(f"channel = {times('panel', plan.block)}")
            self._write_panel(self._write_results)

    def _write_part(self, step: str, steps: int) -> None:
        """Multiply this number of right rows from end to end, from row *step* on."""
        out, plan, shape = self.out, self.plan, self.shape
        left, right = self.product.left, self.product.right
        # neighbours in memory are neighbours in the copy: products of a row, or left rows
        is_transposed = left.column != 1
        size, copies = (shape.rows, steps) if is_transposed else (steps, shape.rows)
        x = plus("left", times(step, left.column))
        with out.block(f"for near in range({copies}):"):
            at = times("near", left.column if is_transposed else left.row)
            out.line(f"copy(packed, {times('near', size)}, {self.lhs}, {plus(x, at)}, {size})")
        strides = (1, shape.rows) if is_transposed else (steps, 1)
        out.line(f"row = {plus('right', times(step, right.row))}")
        if not plan.is_aligned:
            with out.block("for panel in range(panel_begin, panel_end):"):
                out.line(f"column = {times('(panel - panel_begin)', plan.block)}")
                self._write_panel(
                    lambda tag, columns: self._write_tiles(tag, columns, steps, strides)
                )
            return
        whole = f"vectors // {plan.vectors} * {plan.vectors}" if plan.vectors > 1 else "vectors"
        with out.block(f"for vector in range(0, {whole}, {plan.vectors}):"):
            out.line(f"column = {times('vector', plan.lanes)}")
            self._write_tiles("a", plan.block, steps, strides)
        if plan.vectors > 1:
            with out.block(f"for vector in range({whole}, vectors):"):
                out.line(f"column = {times('vector', plan.lanes)}")
                self._write_tiles("b", plan.lanes, steps, strides)

    def _write_panel(self, write: Callable[[str, int], None]) -> None:
        """Call *write* with a tag and the columns of ``panel``, maybe the last, narrow one."""
        out, (whole, rest) = self.out, divmod(self.shape.depth, self.plan.block)
        if not rest:
            write("a", self.plan.block)
            return
        with out.block(f"if panel < {whole}:"):
            write("a", self.plan.block)
        with out.block("else:"):
            write("b", rest)

    def _write_tiles(self, tag: str, columns: int, steps: int, strides: tuple[int, int]) -> None:
        """Add *steps* products to the sums of all left rows and *columns* columns."""
        out, width = self.out, self.width
        stride, step = strides
        for name, rows in self._runs(tag):
            size = self._size(rows, columns)
            out.line(f"t_{name} = tile_fill(sums, 0, {size})")
            out.line(
                f"t_{name} = tile_dot(t_{name}, packed, {times(f'at_{name}', stride)}, {stride}, "
                f"{step}, {self.rhs}, row + column, {self.product.right.row}, {columns}, {steps}, "
                "0, 0)"
            )
            out.line(f"wait_{name} = {plus(times(f'at_{name}', width), 'column')}")
            out.line(f"t_{name} = add(t_{name}, tile_load(sums, wait_{name}, {width}, {size}))")
            out.line(f"tile_store(sums, wait_{name}, {width}, t_{name})")

    def _write_results(self, tag: str, columns: int) -> None:
        """Store the sums of *columns* columns from ``channel`` on, with bias and epilogue."""
        out, plan, width = self.out, self.plan, self.width
        column = times("(panel - panel_begin)", plan.block)
        column = plus("before" if plan.is_aligned else "0", column)
        for name, rows in self._runs(f"s{tag}"):
            size = self._size(rows, columns)
            at = plus(times(f"at_{name}", width), column)
            out.line(f"t_{name} = tile_load(sums, {at}, {width}, {size})")
            if self.bias:
                bias = f"tile_bias_masked({self.bias[0]}, channel, {size}, {columns})"
                out.line(f"t_{name} = add(t_{name}, {bias})")
            pixel = f"(image * {self.shape.rows} + at_{name})"
            self.tiles.write(
                out, f"t_{name}", rows, columns=columns, pixel=pixel, channel="channel"
            )

    def _runs(self, tag: str) -> Iterator[tuple[str, int]]:
        """Loop over tiles of equal height; yields their name and rows, finds ``at_<name>``."""
        cut = self.plan.cut
        for number, (begin, end, rows) in enumerate(cut.runs):
            name = f"{tag}{number}"
            if end - begin == 1:
                self.out.line(f"at_{name} = {begin * cut.rows}")
                yield name, rows
                continue
            with self.out.block(f"for tile_{name} in range({begin}, {end}):"):
                skipped = begin * (cut.rows - rows)
                self.out.line(f"at_{name} = {plus(times(f'tile_{name}', rows), skipped)}")
                yield name, rows

    def _size(self, rows: int, columns: int) -> str:
        """Return the sizes of a tile."""
        return f"{rows}, {-(-columns // self.plan.lanes)}, {self.plan.lanes}"
