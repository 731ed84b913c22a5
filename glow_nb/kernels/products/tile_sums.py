"""Source text of what a tile adds up in one inner block of the sum (see :mod:`.product_plan`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from math import prod

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.size import hinted, surely
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.loops import Loops, tile_steps
from glow_nb.kernels.products.open_cut import OpenCut
from glow_nb.kernels.products.product_nest import ProductNest
from glow_nb.kernels.products.reduction import SumLoop
from glow_nb.kernels.writing.index_text import times
from glow_nb.kernels.writing.source import SourceWriter


class TileSums:
    """The part of a product's writer that is innermost; its subclass sets the attributes.

    Attributes:
        nest: The product.
        shape: Its sizes.
        loops: The loops.
        out: Receives the lines.
        source: Name of the pointer to the left operand or its padded copy.
        filter: Name of the pointer to what the tiles read of the right operand.
        row: Elements from row to row of that.
    """

    nest: ProductNest
    shape: ConvolutionShape
    loops: Loops
    out: SourceWriter
    source: str
    filter: str
    row: int

    @property
    def parts(self) -> int | str:
        """Inner blocks of a sum: one of nothing if a run has no products to sum up."""
        blocks = self.loops.sum.blocks
        return blocks if surely(blocks, ">=", 1) else f"max(1, {blocks})"

    @property
    def skips_padding(self) -> bool:
        """Return whether the taps of a line that lie above or below the image are left out."""
        is_zero = self.shape.is_padded and not self.nest.outside
        return is_zero and self.shape.rank > 1 and self.loops.sum.has_tap_rows

    @property
    def reads_whole(self) -> bool:
        """Return whether whole vectors of each panel may be read."""
        return self.nest.right.is_padded and self.nest.block == self.loops.columns.width

    @property
    def reads_whole_rows(self) -> bool:
        """Return whether whole vectors of the rows that tiles read may be read."""
        return self.reads_whole

    def _write_sum(self, name: str, columns: int, size: str) -> None:
        """Accumulate an inner block of a tile of *size*: loops over taps, and the dot."""

        def write_loops(loops: tuple[SumLoop, ...], x: str, w: str) -> None:
            if not loops:
                self._write_dot(name, x, w, columns)
                return
            loop = loops[0]
            tap = f"{'kij'[-len(loops)]}_{name}"
            ends = str(loop.count)
            if self.skips_padding and not self.loops.is_cut and loops is self.loops.sum.inner:
                ends = f"begin_{name[0]}, end_{name[0]}"
            is_chained = self.loops.sum.chain is not None and loops is self.loops.sum.inner
            chains = self._chains(name, loop.count, ends, size) if is_chained else nullcontext(ends)
            with chains as ends, self.out.block(f"for {tap} in range({ends}):"):
                self.out.line(f"x_{tap} = {x} + {times(tap, loop.left)}")
                self.out.line(f"w_{tap} = {w} + {times(tap, self._right_distance(loop))}")
                write_loops(loops[1:], f"x_{tap}", f"w_{tap}")

        loops = () if self.loops.panels_inside else self.loops.sum.inner
        write_loops(loops, f"x_{name}", "weights")

    def _right_distance(self, loop: SumLoop) -> int:
        """Return how far apart the weights of the steps of *loop* are."""
        return loop.right * self.row

    @contextmanager
    def _chains(self, name: str, count: int, ends: str, size: str) -> Iterator[str]:
        """Loop over chains of a tile of *size*, which are summed up from zero on, and add them up.

        Yields the part of the range *ends*, of at most *count* steps, that is in a chain.
        """
        out, steps = self.out, self.loops.sum.chain
        assert steps is not None  # there are chains
        begin, _, end = ends.rpartition(", ")
        out.line(f"whole_{name} = t_{name}")
        with out.block(f"for chain_{name} in range({-(-count // steps)}):"):
            out.line(f"t_{name} = tile_fill(sums, 0, {size})")
            first = f"chain_{name} * {steps}"
            yield f"{f'max({begin}, {first})' if begin else first}, min({end}, {first} + {steps})"
            out.line(f"whole_{name} = add(whole_{name}, t_{name})")
        out.line(f"t_{name} = whole_{name}")

    def _dot_length(self) -> str:
        """Return the steps of a dot; the last piece of a longer one may have less."""
        sum = self.loops.sum
        if sum.whole_dot == sum.dot or sum.whole_dot % sum.dot == 0:
            return str(sum.dot)
        last = f"step{len(sum.outer) - 1}"
        return f"min({sum.dot}, {sum.whole_dot} - {times(last, sum.dot)})"

    def _write_dot(self, name: str, x: str, w: str, columns: int) -> None:
        sum = self.loops.sum
        is_packed = sum.inner and self.loops.panels_inside
        count = str(sum.block_products) if is_packed else self._dot_length()
        self._write_steps(name, x, w, columns, count)

    def _write_steps(self, name: str, x: str, w: str, columns: int, count: str) -> None:
        """Add this number of products, whose factors begin at *x* and at *w*, to each sum of a
        tile.
        """
        loops, used = self.loops, columns
        source = "packed" if loops.panels_inside else self.source
        stride, step = tile_steps(self.nest, self.loops)
        if self.reads_whole_rows:
            used = -(-columns // self.loops.lanes) * self.loops.lanes
        elif self.nest.right.is_padded:  # so that the first vector of a narrow panel is whole
            used = max(columns, min(self.loops.lanes, self.nest.block))
        dot, sum = self.nest.kinds.dot, loops.sum

        def write(function: str, x: str, w: str, *numbers: object) -> None:
            ends = ", ".join(map(str, numbers))
            self.out.line(
                f"t_{name} = {function}(t_{name}, {source}, {x}, {stride}, {step}, {self.filter}, "
                f"{w}, {self.row}, {used}, {ends})"
            )

        if sum.streams == 1:
            write(dot.name, x, w, count, *self._fetch_next_weights(name))
            return
        write(dot.streams, x, w, count, sum.streams, sum.whole_dot)
        if sum.rest:
            last = sum.blocks - 1
            behind = sum.streams * sum.whole_dot - last * sum.dot
            with self.out.block(f"if part == {last}:") if loops.is_cut else nullcontext():
                write(
                    dot.name, f"{x} + {behind * step}", f"{w} + {behind * self.row}", sum.rest, 0, 0
                )

    def _fetch_next_weights(self, name: str) -> tuple[str, int | str]:
        """Return from where on, and in what steps, a dot should fetch weights of the next pass.

        If a block has so many tiles that each fetches less than a column of the weights, the tile
        fetches its lines before the dot. Where only the run knows how many tiles there are, each
        step of a dot fetches as much as these need.
        """
        share = self.fetched_share
        if not share:
            return "0", 0
        products, rows = self.loops.sum.block_products, self.loops.cut.rows
        if self.finds_pace:
            place = f"(tile_{name} - first) * {products} * pace"
            return f"weights + {self._next_pass} + {place}", "pace"
        tile = f"(near_{name} + {rows - 1}) // {rows}"
        first = f"weights + {self._next_pass} + {tile} * {share}"
        if self._tiles_of_block <= self._panel_width:
            return first, share // products
        line = CACHE_LINE_BYTES // self.nest.kinds.right.size_bytes
        self.out.line(f"tile_prefetch({self.filter}, {first}, {line}, {share // line})")
        return "0", 0

    @property
    def finds_pace(self) -> bool:
        """Return whether ``pace`` says how many weights a step fetches: blocks are open lines."""
        return isinstance(self.loops.cut, OpenCut) and self.shape.rank == 1

    @property
    def fetched_share(self) -> int:
        """Elements of the next pass's weights that each tile should fetch, 0 for none.

        The tiles of a block do it together, if the filter does not stay in the cache anyway.
        """
        sum, right, loops = self.loops.sum, self.nest.right, self.loops
        tiles, width = self._tiles_of_block, self._panel_width
        is_dense = right.row == width and (loops.panels_inside or not sum.inner)
        if not (tiles > 1 and loops.is_right_far and is_dense and loops.is_cut):
            return 0
        if tiles <= width:
            return sum.block_products * -(-width // tiles)
        line = CACHE_LINE_BYTES // self.nest.kinds.right.size_bytes
        return -(-sum.block_products * width // (tiles * line)) * line

    @property
    def _tiles_of_block(self) -> int:
        lines = prod(self.shape.output[1:-1]) * self.loops.cut.tiles if self.shape.rank > 1 else 1
        return hinted(self.loops.block_units * lines)

    @property
    def _panel_width(self) -> int:
        """Elements of a row of a panel of the right operand."""
        return self.nest.block * self.nest.kinds.factors

    @property
    def _next_pass(self) -> int:
        """Elements from the weights of a pass to those of the next one."""
        right = self.nest.right
        return right.panel if self.loops.panels_inside else self.loops.sum.dot * right.row
