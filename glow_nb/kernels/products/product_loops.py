"""Source text of the loops of a convolution or matrix product (see :mod:`.loops`)."""

from __future__ import annotations

import string
from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.quantities import count_of
from glow_nb.base.size import Size
from glow_nb.kernels.products.inner_blocks import input_distances
from glow_nb.kernels.products.loops import (
    Loops,
    block_pixels,
    is_open_block,
    most_units,
    packed_elements,
    panels_ahead,
    staged_elements,
    units_of,
    waiting_elements,
)
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.product_tiles import ProductTiles
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.products.run_staging import write_run_staging
from glow_nb.kernels.products.staging import write_packing, write_staging
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import kernel_operands


def generate_product(
    nest: ProductNest,
    loops: Loops,
    fusion: Fusion,
    *,
    family: str,
    title: str,
    writes: type[ProductWriter] | None = None,
    few: Loops | None = None,
) -> KernelSource:
    """Return the kernel of *nest*.

    Args:
        nest: The loop nest.
        loops: In which loops.
        fusion: The product, and what to do with its results before they are stored.
        family: Family of the kernel.
        title: Comment at the top of the text.
        writes: Writes the loops, by default for operands that tiles read where they lie.
        few: In which loops if a run has no more rows than a single tile of these.
    """
    fusion = fusion.named_by_field()
    writer = (writes or ProductWriter)(nest, loops, fusion)
    other = None if few is None else ProductWriter(nest.by_vectors(), few, fusion)
    return write_product(writer, other, fusion, family=family, title=title)


def write_product(
    writer: ProductWriter, few: ProductWriter | None, fusion: Fusion, *, family: str, title: str
) -> KernelSource:
    """Return the kernel that *writer* writes, with the loops of *few* for runs of few rows."""
    text = writer.write(title, few)
    scratch = max(each.scratch_bytes for each in (writer, few) if each is not None)
    return KernelSource(family, text, fusion.kinds, scratch, aligned=writer.aligned)


TAGS = string.ascii_lowercase
"""Letters that tell names in the code of one kind of panel from those of others."""


class ProductWriter(ProductTiles):
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(self, nest: ProductNest, loops: Loops, fusion: Fusion) -> None:
        self.nest, self.shape, self.fusion = nest, nest.shape, fusion
        self.loops = loops
        self.tiles = TileStore(fusion, loops.lanes)
        tiles = loops.tiles_ahead or 0
        self.rows_ahead = loops.cut.rows * tiles
        self.panels_ahead = panels_ahead(nest, loops, tiles)
        _, *operands = kernel_operands(fusion.head)
        self.input, self.filter, *self.bias = (fusion.names[buffer] for buffer in operands)
        self.row = nest.right.row  # from row to row of what the tiles read
        self.out = SourceWriter()
        self.units = units_of(self.shape, loops.cut)
        self.panels = loops.columns.panels * self.shape.group
        self.source = "rows" if loops.is_staged else self.input
        self.tags = TAGS
        self.used: str | None = None  # how many columns are in use, where only the run knows
        staged, packed = (
            -(-elements * nest.kinds.staged.size_bytes // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
            for elements in (staged_elements(nest, loops), packed_elements(nest, loops))
        )
        waiting = waiting_elements(nest, loops) * nest.kinds.total.size_bytes
        self.packed_at, self.sums_at = staged, staged + packed
        self.scratch_bytes = staged + packed + waiting

    @property
    def aligned(self) -> frozenset[int]:
        """The numbers of the pointers that it reads much faster where they begin on cache lines."""
        return frozenset()

    def write(self, title: str, few: ProductWriter | None = None) -> str:
        """Return the whole text, in which *few* writes what runs of a single tile of it do."""
        out = self.out
        out.line(f"# {title}\n# {self._describe()}")
        if few is not None:
            out.line(f"# or {few._describe()}")
        with out.block(self.fusion.header):
            if 0 in (self.shape.batch, self.panels, *self.shape.output):
                out.line("return")
            elif few is None:
                self._write_nest()
            else:
                few.out, few.tags = out, TAGS[len(TAGS) // 2 :]
                with out.block(f"if {self.shape.output[-1]} <= {few.loops.cut.rows}:"):
                    few._write_nest()
                with out.block("else:"):
                    self._write_nest()
        return out.text

    def _write_nest(self) -> None:
        """Write the loops of the thread."""
        units = self.shape.batch * self.units
        if isinstance(self.loops.cut, OpenCut):
            cut = self.loops.cut
            (cut.write_heights if self.has_open_tiles else cut.write)(self.out)
        write_shares(self.out, units, self.panels, panels_first=self.loops.panels_first)
        self._write_pointers()
        self._write_blocks()

    def _write_pointers(self) -> None:
        """Write the pointers to the parts of the scratch."""
        out, kinds = self.out, self.nest.kinds
        if self.loops.is_staged:
            out.line(f"rows = as_{kinds.staged.value}(scratch)")
        if self.loops.panels_inside:
            out.line(f"packed = as_{kinds.staged.value}(at(scratch, {self.packed_at}))")
        out.line(f"sums = as_{kinds.total.value}(at(scratch, {self.sums_at}))")

    def _describe(self) -> str:
        cut, columns, sum, lanes = (
            self.loops.cut,
            self.loops.columns,
            self.loops.sum,
            self.loops.lanes,
        )
        rows = " and ".join(str(loop.rows) for loop in cut.loops)
        unit = "tiles" if self.shape.rank == 1 else "lines"
        staged = self._describe_copy()
        shared = "panels" if self.loops.panels_first else unit
        if self.nest.kinds.is_widened:
            staged += ", panels widened in scratch"
        if sum.streams > 1:
            staged += f", weights from {sum.streams} places"
        order = "panels of inner blocks" if self.loops.panels_inside else "inner blocks of panels"
        return (
            f"tiles of {rows} rows x {columns.vectors} vectors of {lanes}, "
            f"{count_of(self.panels, 'panel')}, "
            f"sums in {count_of(sum.blocks, 'block')} of {sum.block_products}, {order}; "
            f"blocks of {self.loops.block_units} {unit}{staged}, threads share {shared}"
        )

    def _describe_copy(self) -> str:
        """Say what becomes of the left operand before tiles read it; nothing if they do so."""
        if self.shape.is_padded:
            return ", padded in scratch"
        return ", copied to scratch" if self.loops.is_staged else ""

    def _write_blocks(self) -> None:
        out = self.out
        with out.block("while unit < unit_end and panel_begin < panel_end:"):
            out.line(f"image = unit // {self.units}")
            out.line(f"first = unit % {self.units}")
            out.line(f"count = min(unit_end - unit, {self.units} - first)")
            is_open = isinstance(self.units, Size) or is_open_block(self.shape)
            if is_open or self.loops.block_units < self.units:
                out.line(f"count = min(count, {self._most_units})")
            if self.finds_pace and self.fetched_share:
                out.line(f"pace = ({self._panel_width - 1} + count) // count")
            if self.shape.rank == 1 and (self.loops.is_staged or self.loops.is_cut):
                out.line(f"pixel = {self.loops.cut.start('first')}")
            if self.loops.is_staged:
                stage = write_staging if self.nest.runs_of is None else write_run_staging
                stage(out, self.nest, self.loops, self.input)
            with self._passes():
                self._write_pass()
            out.line("unit += count")

    @property
    def _most_units(self) -> str:
        """The most units of a block."""
        return most_units(self.shape, self.loops)

    @contextmanager
    def _passes(self) -> Iterator[None]:
        """Loop over panels and over inner blocks of the sum, in the order of the plan."""
        outside, inside = self._panels, self._inner_blocks
        if self.loops.panels_inside:
            outside, inside = inside, outside
        with outside(), inside():
            yield

    @contextmanager
    def _panels(self) -> Iterator[None]:
        """Loop over the panels of the thread; find ``channel`` and ``panel_start``."""
        out, columns = self.out, self.loops.columns
        with out.block("for panel in range(panel_begin, panel_end):"):
            if self.shape.group == 1:
                out.line(f"channel = panel * {self.nest.block}")
            else:
                out.line(f"group = panel // {columns.panels}")
                number = f"panel % {columns.panels}"
                out.line(f"channel = group * {columns.depth} + {number} * {self.nest.block}")
            out.line(f"panel_start = {self._panel_start()}")
            if self.panels_ahead:
                self._write_panel_ahead()
            yield

    def _write_panel_ahead(self) -> None:
        """Find ``channel_ahead``, where the panel begins whose results the tiles ask for.

        They lie ``later`` pixels after those of the tile: after the last panel of the thread comes
        the first one, in the next block.
        """
        out, pixels = self.out, block_pixels(self.shape, self.loops)
        out.line("panel_count = panel_end - panel_begin")
        out.line(f"panel_ahead = panel - panel_begin + {self.panels_ahead}")
        out.line(f"later = {times('panel_ahead // panel_count', pixels)}")
        first = "panel_begin + panel_ahead % panel_count"
        out.line(f"channel_ahead = {times(f'({first})', self.nest.block)}")

    def _panel_start(self) -> str:
        """Return where the weights of a panel begin."""
        right = self.nest.right
        return plus(times("image", right.image), times("panel", right.panel))

    @contextmanager
    def _inner_blocks(self) -> Iterator[None]:
        """Loop over the inner blocks; find ``shift`` and ``row`` in the two operands.

        ``shift`` counts elements of the left operand, ``row`` rows of the right one.
        """
        if not self.loops.is_cut:
            yield
            return
        out, sum = self.out, self.loops.sum
        with out.block(f"for part in range({self.parts}):"):
            shift, row, inside = ["0"], ["0"], 1
            for number in reversed(range(len(sum.outer))):
                loop = sum.outer[number]
                index = "part" if inside == 1 else f"part // {inside}"
                out.line(f"step{number} = {index}" + (f" % {loop.count}" if number else ""))
                shift.append(times(f"step{number}", loop.left))
                row.append(times(f"step{number}", loop.right))
                inside *= loop.count
            out.line(f"shift = {plus(*shift)}\nrow = {plus(*row)}")
            if self.loops.panels_inside:
                write_packing(out, self.nest, self.loops, self.source, self._dot_length())
            yield

    def _write_pass(self) -> None:
        """Compute all tiles of the block for one panel and inner block."""
        out, columns = self.out, self.loops.columns
        out.line(f"weights = {self._first_weight()}")
        if self.loops.is_cut:
            waiting = block_pixels(self.shape, self.loops) * columns.width
            panel = times("(panel - panel_begin)", waiting) if self.loops.panels_inside else "0"
            out.line(f"waiting = {panel}")
        if isinstance(columns.depth, Size):
            self._write_open_panel()
        elif not columns.tail:
            self._write_lines(self.tags[0], columns.block)
        elif not columns.full:
            self._write_lines(self.tags[0], columns.tail)
        else:
            with out.block(f"if panel % {columns.panels} < {columns.full}:"):
                self._write_lines(self.tags[0], columns.block)
            with out.block("else:"):
                self._write_lines(self.tags[1], columns.tail)

    def _write_open_panel(self) -> None:
        """Compute all tiles of a panel of which only the run knows how many columns are in use."""
        out, columns = self.out, self.loops.columns
        out.line(f"used = min({columns.block}, {columns.depth} - channel)")
        with out.block(f"if used == {columns.block}:"):
            self._write_lines(self.tags[0], columns.block)
        for fewer in range(columns.vectors):
            vectors = columns.vectors - fewer
            last = f"elif used > {(vectors - 1) * columns.lanes}:" if vectors > 1 else "else:"
            with out.block(last):
                self.used = "used"
                self._write_lines(self.tags[1 + fewer], vectors * columns.lanes)
                self.used = None

    def _first_weight(self) -> str:
        """Return where the weights of a pass begin."""
        return plus("panel_start", times("row", self.nest.right.row) if self.loops.is_cut else "0")

    def _write_lines(self, tag: str, columns: int) -> None:
        """Run over the lines of the block; the last *columns* of the panel are not in use."""
        out, shape = self.out, self.shape
        image = "0" if self.loops.is_staged else times("image", self.nest.left.image)
        if shape.rank == 1:
            self._write_tiles(tag, columns, image, "image", "0")
            return
        distances = input_distances(self.nest)
        with out.block(f"for line_{tag} in range(count):"):
            if self.skips_padding:
                self._write_taps_inside(tag)
            row = f"line_{tag}" if self.loops.is_staged else f"(first + line_{tag})"
            place = f"image * {shape.output[0]} + first + line_{tag}"
            out.line(f"origin_{tag} = {plus(image, times(row, shape.stride[0] * distances[0]))}")
            if shape.rank == 2:
                self._write_tiles(tag, columns, f"origin_{tag}", f"({place})", f"line_{tag}")
                return
            with out.block(f"for row_{tag} in range({shape.output[1]}):"):
                step = shape.stride[1] * distances[1]
                out.line(f"start_{tag} = {plus(f'origin_{tag}', times(f'row_{tag}', step))}")
                place = f"(({place}) * {shape.output[1]} + row_{tag})"
                line = f"(line_{tag} * {shape.output[1]} + row_{tag})"
                self._write_tiles(tag, columns, f"start_{tag}", place, line)

    def _write_taps_inside(self, tag: str) -> None:
        """Write which taps of the first dimension lie inside the image for the present line.

        One is computed in any case: it makes the sums of a line that sees zeros only.
        """
        shape, out = self.shape, self.out
        step, taps = shape.dilation[0], shape.kernel[0]
        line = times(f"(first + line_{tag})", shape.stride[0])
        out.line(f"top_{tag} = {plus(line, -shape.begins[0])}")
        low, high = f"{step - 1} - top_{tag}", f"{shape.input[0] + step - 1} - top_{tag}"
        if step > 1:
            low, high = f"({low}) // {step}", f"({high}) // {step}"
        out.line(f"begin_{tag} = min(max(0, {low}), {taps - 1})")
        out.line(f"end_{tag} = max(min({taps}, {high}), begin_{tag} + 1)")
        if self.loops.is_cut:
            with out.block(f"if not begin_{tag} <= step0 < end_{tag}:"):
                out.line("continue")
