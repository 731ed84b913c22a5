"""The source of a Winograd convolution: transforms of a block of tiles, products, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glow_nb.cook_toom import WholeDivision, scale_of
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.winograd.plan import Scratch, WinogradNest, WinogradPlan
from glow_nb.kernels.winograd.weights import MadeWeights, ReadWeights
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import SourceWriter

AHEAD_BYTES = 128
"""From the factors of one element that are written to those that are fetched, to be written next.

They are written in as many streams as a tile has elements, more than processors look ahead for."""


class WinogradWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(self, nest: WinogradNest, plan: WinogradPlan, fusion: Fusion) -> None:
        self.nest, self.shape, self.plan, self.fusion = nest, nest.shape, plan, fusion
        self.tiles = TileStore(fusion, plan.lanes)
        self.step = elements_between_pixels(fusion.input)
        self.scratch = Scratch.of(nest, plan)
        self.deep, *kernel = self.shape.kernel
        self.tile, self.sizes, self.kernel = nest.tile[1:], nest.sizes[1:], tuple(kernel)
        self.stride = self.shape.stride[1:]
        self.factors = plan.kinds.factors
        form = MadeWeights if nest.takes_taps else ReadWeights
        self.weights = form(nest, plan, self.scratch)
        self.out = SourceWriter()

    @property
    def scratch_bytes(self) -> int:
        """Size of the scratch memory of a thread."""
        return self.scratch.bytes

    def write(self, title: str) -> str:
        """Return the whole text."""
        out, shape = self.out, self.shape
        out.line(f"# {title}\n# {self._describe()}")
        with out.block(self.fusion.header):
            if min(shape.batch, self.nest.panels, *shape.output) == 0:
                out.line("return")
            else:
                units, panels = self.plan.cut.tiles, self.nest.panels
                write_shares(out, units, panels, panels_first=self.plan.panels_first)
                self._write_scratch()
                self._write_blocks()
        return out.text

    def _describe(self) -> str:
        plan, cut = self.plan, self.plan.cut
        rows = " and ".join(str(rows) for _, _, rows in cut.runs)
        shared = "panels" if plan.panels_first else "tiles"
        return (
            f"{self.nest.tiles} tiles in blocks of {plan.block_tiles}; register tiles of {rows} "
            f"rows x {plan.columns.vectors} vectors of {plan.lanes}; {self.nest.panels} panels; "
            f"threads share {shared}"
        )

    def _write_scratch(self) -> None:
        out, scratch, kinds = self.out, self.scratch, self.plan.kinds
        left, total = kinds.left.value, kinds.total.value
        out.line(f"patch = as_{self.nest.kind.value}(scratch)")
        out.line(f"line = as_{left}(at(scratch, {scratch.line}))\nresults = as_{total}(line)")
        out.line(f"factors = as_{left}(at(scratch, {scratch.factors}))")
        out.line(f"sums = as_{total}(at(scratch, {scratch.products}))")
        self.weights.write_pointer(out)

    def _write_blocks(self) -> None:
        out, plan = self.out, self.plan
        with out.block("while unit < unit_end and panel_begin < panel_end:"):
            out.line(f"count = min(unit_end - unit, {plan.block_units})")
            out.line(f"begin = {plan.cut.start('unit')}")
            out.line(f"end = {plan.cut.start('(unit + count)')}")
            with out.block("for tile in range(begin, end):"):
                self._write_place()
                with self._planes() as tap:
                    self._write_source(tap)
                    self._write_factors(tap)
            with out.block("for panel in range(panel_begin, panel_end):"):
                self._write_products()
                self._write_channel()
                with out.block("for tile in range(begin, end):"):
                    self._write_place()
                    if plan.fetches_pixels:
                        self._write_prefetch()
                    self._write_results()
            out.line("unit += count")

    def _write_place(self) -> None:
        """Locate tile number ``tile``: its plane of the outputs, and the first one, ``y, x``."""
        out, (high, wide), (rows, columns) = self.out, self.tile, self.nest.counts[1:]
        out.line(f"image = tile // {rows * columns}")
        out.line(f"y = {times(f'(tile // {columns} % {rows})', high)}")
        out.line(f"x = {times(f'(tile % {columns})', wide)}")

    @contextmanager
    def _planes(self) -> Iterator[str]:
        """Write a loop over the planes of the input that a tile reads; yield their number."""
        if self.deep == 1:
            yield "0"
            return
        with self.out.block(f"for tap in range({self.deep}):"):
            yield "tap"

    def _write_corner(self, tap: str) -> None:
        """Find the first pixel of the input of a tile in one plane; it may lie outside.

        A plane that is outside itself is seen as rows below the last one, which are zeros.
        """
        out, shape = self.out, self.shape
        depth, height, _ = shape.input
        top, left = (
            plus(times(name, stride), -pad)
            for name, stride, pad in zip("yx", self.stride, shape.begins[1:], strict=True)
        )
        if self.deep == 1 and not shape.begins[0] and not shape.ends[0]:
            out.line(f"plane = image\ntop = {top}\nleft = {left}")
            return
        images = shape.output[0]
        first = times(f"(image % {images})", shape.stride[0])
        out.line(f"front = {plus(first, tap, -shape.begins[0])}")
        out.line(f"plane = {plus(times(f'(image // {images})', depth), 'front')}")
        out.line(f"top = {top} if 0 <= front < {depth} else {height}\nleft = {left}")

    def _write_source(self, tap: str) -> None:
        """Find the input of a tile in one plane: in place, or a copy where it has a border."""
        out, shape = self.out, self.shape
        (_, height, width), (high, wide), channels = shape.input, self.sizes, shape.channels
        self._write_corner(tap)
        inside = f"0 <= top <= {height - high} and 0 <= left <= {width - wide}"
        with out.block(f"if {inside}:"):
            start = times(f"((plane * {height} + top) * {width} + left)", self.step)
            out.line(f"source = at(input, {start})")
            out.line(f"row_step = {width * self.step}\npixel_step = {self.step}")
        with out.block("else:"):
            self._write_patch()
            out.line("source = patch")
            out.line(f"row_step = {wide * channels}\npixel_step = {channels}")

    def _write_patch(self) -> None:
        """Copy the input of a tile to scratch."""
        shape = self.shape
        numbers = (*shape.input[1:], shape.channels, self.step, *self.sizes, self.nest.outside)
        self.out.line(f"copy_patch(patch, input, plane, top, left, {', '.join(map(str, numbers))})")

    def _write_factors(self, tap: str) -> None:
        """Transform one plane of a tile, a vector of channels after the other.

        The last vector begins where the channels end with it, so that it is as long as the others.
        """
        lanes, channels = self.plan.factor_lanes, self.shape.channels
        plane = times(tap, self.scratch.sums * self.scratch.plane)
        self.out.line(f"to = {plus(f'(tile - begin) * {self.scratch.rows}', plane)}")
        if channels <= lanes:
            self._write_factor("0", channels)
            return
        with self.out.block(f"for first in range(0, {channels}, {lanes}):"):
            if channels % lanes:
                self.out.line(f"c = min(first, {channels - lanes})")
            self._write_factor("c" if channels % lanes else "first", lanes)

    def _write_factor(self, channel: str, count: int) -> None:
        """Transform *count* channels: first along the rows of the tile, then its columns."""
        out, lanes, kind = self.out, self.plan.factor_lanes, self.plan.kinds.left
        pixel_step = self.step if self.step == self.shape.channels else "pixel_step"
        (high, wide), (tile_high, tile_wide) = self.sizes, self.tile
        kernel_high, kernel_wide = self.kernel
        stride_high, stride_wide = self.stride
        masked, mask = ("_masked", f", {count}") if count < lanes else ("", "")
        with out.block(f"for i in range({high}):"):
            place = f"source, i * row_step + {channel}, {pixel_step}, {wide}, 1, {lanes}"
            row = f"tile_load{masked}({place}{mask})"
            if kind is not self.nest.kind:
                row = f"convert_{kind.value}({row})"
            row = f"tile_winograd_input({row}, {tile_wide}, {kernel_wide}, {stride_wide})"
            out.line(f"tile_store(line, i * {wide * lanes}, {lanes}, {row})")
            if self.plan.fetches_pixels and not masked:  # those that are new to the next tile
                place = plus("i * row_step", channel, wide * self.step)
                out.line(f"tile_prefetch(source, {place}, {self.step}, {stride_wide * tile_wide})")
        with out.block(f"for j in range({wide}):"):
            column = f"tile_load(line, j * {lanes}, {wide * lanes}, {high}, 1, {lanes})"
            column = f"tile_winograd_input({column}, {tile_high}, {kernel_high}, {stride_high})"
            place, plane = plus("to", f"j * {self.scratch.plane}", channel), self.scratch.plane
            if self.plan.fetches_factors and not masked:
                ahead = plus(place, AHEAD_BYTES // kind.size_bytes)
                out.line(f"tile_prefetch(factors, {ahead}, {wide * plane}, {high})")
            out.line(f"tile_store(factors, {place}, {wide * plane}, {column})")

    def _write_products(self) -> None:
        """Multiply the factors of the block by the weights of one panel.

        Meanwhile the weights of the next element or panel are brought into the cache.
        """
        out, shape = self.out, self.shape
        source = f"element * {self.scratch.plane}"
        if shape.group > 1:
            source += f" + panel // {self.plan.columns.panels} * {shape.channels_per_group}"
        with self.weights.elements(out) as part:
            out.line(f"place = element * {self.scratch.sums_plane}")
            out.line(f"origin = {plus(source, times(part, self.factors))}")
            self._write_panel()

    def _write_panel(self) -> None:
        with self._if_whole() as cases:
            for tag, vectors in cases:
                self._write_register_tiles(tag, vectors)

    @contextmanager
    def _if_whole(self) -> Iterator[Iterator[tuple[str, int]]]:
        """Give tag and vectors of a whole panel, and those of the last one if it has fewer."""
        columns, number = self.plan.columns, "panel"
        if self.shape.group > 1:
            number = f"panel % {columns.panels}"

        def cases() -> Iterator[tuple[str, int]]:
            if not columns.tail or not columns.full or columns.tail_vectors == columns.vectors:
                yield "a", columns.tail_vectors if columns.full == 0 else columns.vectors
                return
            with self.out.block(f"if {number} < {columns.full}:"):
                yield "a", columns.vectors
            with self.out.block("else:"):
                yield "b", columns.tail_vectors

        yield cases()

    def _write_register_tiles(self, tag: str, vectors: int) -> None:
        out, plan, block = self.out, self.plan, self.nest.block
        dot, weights = plan.dot, self.weights
        row, pace = weights.row, weights.pace
        size = f"{vectors}, {plan.lanes}"
        for number, (first, last, rows) in enumerate(plan.cut.runs):
            name = f"{tag}{number}"
            skipped = first * (plan.cut.rows - rows)
            with out.block(
                f"for u_{name} in range(max(unit, {first}), min(unit + count, {last})):"
            ):
                out.line(f"row_{name} = {plus(times(f'u_{name}', rows), skipped)} - begin")
                out.line(f"t_{name} = tile_fill(sums, 0, {rows}, {size})")
                with self._planes() as tap:
                    x = plus(
                        f"origin + row_{name} * {self.scratch.rows}",
                        times(tap, self.scratch.sums * self.scratch.plane),
                    )
                    w = plus("weights", times(tap, weights.planes * weights.plane))
                    ahead = f"{w} + {dot * row} + (u_{name} - unit) * {dot * pace}"
                    out.line(
                        f"t_{name} = {plan.kinds.form.name}(t_{name}, factors, {x}, "
                        f"{self.scratch.rows}, {self.factors}, {weights.pointer}, {w}, {row}, "
                        f"{vectors * plan.lanes}, {weights.count}, {ahead}, {pace})"
                    )
                to = f"place + row_{name} * {block}"
                if dot < plan.groups:
                    with out.block("if part:"):
                        waiting = f"tile_load(sums, {to}, {block}, {rows}, {size})"
                        out.line(f"t_{name} = add(t_{name}, {waiting})")
                out.line(f"tile_store(sums, {to}, {block}, t_{name})")

    def _write_channel(self) -> None:
        """Find the first output channel of the panel, and how many whole vectors it has."""
        out, columns, block = self.out, self.plan.columns, self.nest.block
        number, first = "panel", "0"
        if self.shape.group > 1:
            number = f"panel % {columns.panels}"
            first = f"panel // {columns.panels} * {columns.depth}"
        out.line(f"channel = {plus(first, f'{number} * {block}')}")
        out.line(f"size = min({columns.depth} - {number} * {block}, {block})")

    def _write_prefetch(self) -> None:
        """Bring what the next tile of the line will write nearer; there may be none."""
        out, (_, height, width), (high, wide) = self.out, self.shape.output, self.tile
        with out.block(f"for i in range(min({height} - y, {high})):"):
            pixel = f"((image * {height} + y + i) * {width} + {plus('x', wide)})"
            self.tiles.write_prefetch(out, wide, self.nest.block, pixel, "channel")

    def _write_results(self) -> None:
        """Transform the products of one tile and panel back, and store its outputs."""
        out, columns, lanes = self.out, self.plan.columns, self.plan.lanes
        tail, rest = divmod(columns.tail, lanes)
        size = f"size // {lanes} * {lanes}" if columns.tail else f"{columns.block}"
        with out.block(f"for c in range(0, {size}, {lanes}):"):
            self._write_result("a", "c", lanes)
        if rest:
            with out.block(f"if size == {columns.tail}:"):
                self._write_result("b", str(tail * lanes), rest)

    def _write_result(self, tag: str, column: str, count: int) -> None:
        self._write_columns(f"start_{tag}", column)
        place, lanes = plus(f"panel * {self.nest.block}", column), self.plan.lanes
        self.out.line(f"bias_{tag} = load(bias, {place}, {lanes})")
        self._write_rows(tag, column, count)

    def _write_columns(self, start: str, column: str) -> None:
        """Transform the columns of one vector of channels back, from *column* of the panel on."""
        out, lanes, scratch = self.out, self.plan.lanes, self.scratch
        (high, wide), (tile_high, _) = self.sizes, self.tile
        kernel_high = self.kernel[0]
        out.line(f"{start} = {plus(f'(tile - begin) * {self.nest.block}', column)}")
        with out.block(f"for j in range({wide}):"):
            rows = f"{start} + j * {scratch.sums_plane}"
            load = f"tile_load(sums, {rows}, {wide * scratch.sums_plane}, {high}, 1, {lanes})"
            numbers = f"{tile_high}, {kernel_high}, {self.stride[0]}, {tile_high}"
            made = f"tile_winograd_output({load}, {numbers})"
            out.line(f"tile_store(results, j * {lanes}, {wide * lanes}, {made})")

    def _write_rows(self, tag: str, column: str, count: int) -> None:
        """Store the outputs that are in the image, *count* channels from *column* on."""
        out, (_, height, width), (tile_high, tile_wide) = self.out, self.shape.output, self.tile
        with out.block(f"for i in range(min({height} - y, {tile_high})):"):
            out.line(f"pixel = (image * {height} + y + i) * {width} + x")
            edge = width % tile_wide
            if edge and width > tile_wide:
                with out.block(f"if x < {width - edge}:"):
                    self._write_line(f"{tag}0", column, count, tile_wide)
                with out.block("else:"):
                    self._write_line(f"{tag}1", column, count, edge)
            else:
                self._write_line(f"{tag}0", column, count, edge or tile_wide)

    def _write_line(self, tag: str, column: str, count: int, pixels: int) -> None:
        """Finish one line of outputs and store it."""
        result = self._finished_line(tag, pixels)
        self.out.line(f"t_{tag} = {result}")
        first = plus("channel", column)
        self.tiles.write(self.out, f"t_{tag}", pixels, columns=count, pixel="pixel", channel=first)

    def _finished_line(self, tag: str, pixels: int) -> str:
        """Return one line of outputs: transformed along its rows, with the bias."""
        lanes, wide = self.plan.lanes, self.sizes[1]
        load = f"tile_load(results, i * {wide * lanes}, {lanes}, {wide}, 1, {lanes})"
        tile, taps = self.tile[1], self.kernel[1]
        made = f"tile_winograd_output({load}, {tile}, {taps}, {self.stride[1]}, {pixels})"
        return f"add({self._divided(made)}, bias_{tag[0]})"

    def _divided(self, outputs: str) -> str:
        """Return *outputs* of integers divided by what the transforms multiply them by."""
        kind, lanes = self.plan.kinds.total.value, self.plan.lanes
        if self.nest.kind.is_float:
            return outputs
        divided = WholeDivision.by(scale_of(self.tile, self.kernel))
        if divided.inverse != 1:
            outputs = f"mul({outputs}, splat_{kind}({divided.inverse}, {lanes}))"
        return f"shift_right({outputs}, splat_{kind}({divided.bits}, {lanes}))"
