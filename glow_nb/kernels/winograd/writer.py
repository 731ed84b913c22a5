"""The source of a Winograd convolution: how tiles are transformed, and their products back."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from glow_nb.base.size import Size
from glow_nb.kernels.bilinear.plan import BilinearPlan
from glow_nb.kernels.bilinear.weights import ReadWeights
from glow_nb.kernels.bilinear.writer import BilinearWriter
from glow_nb.kernels.operators.winograd import tiles_of_phase
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.winograd.nest import WinogradNest
from glow_nb.kernels.winograd.weights import MadeWeights
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.numerics.cook_toom import WholeDivision, scale_of


class WinogradWriter(BilinearWriter):
    """Writes one kernel; every method appends one part of the nest."""

    nest: WinogradNest

    def __init__(self, nest: WinogradNest, plan: BilinearPlan, fusion: Fusion) -> None:
        super().__init__(nest, plan, fusion)
        self.kernel = tuple(self.shape.kernel[1:])
        self.tile, self.sizes = nest.tile[1:], nest.sizes[1:]
        self.stride, self.dilation = self.shape.stride[1:], self.shape.dilation[1:]
        self.tiles = replace(self.tiles, apart=self.dilation[1])
        if nest.takes_taps:
            self.weights = MadeWeights(nest, plan, self.scratch)
        else:
            self.weights = ReadWeights(nest, plan, self.scratch, "filter")

    @override
    def _write_scratch(self) -> None:
        kinds = self.plan.kinds
        self.out.line(f"patch = as_{self.nest.kind.value}(scratch)")
        self.out.line(f"line = as_{kinds.left.value}(at(scratch, {self.scratch.line}))")
        self.out.line(f"results = as_{kinds.total.value}(line)")
        super()._write_scratch()

    @override
    def _write_input(self) -> None:
        self._write_place()
        with self._planes() as tap:
            self._write_source(tap)
            self._write_factors(tap)

    @override
    def _write_output(self) -> None:
        self._write_place()
        if self.plan.fetches_pixels:
            self._write_prefetch()
        self._write_results()

    def _write_place(self) -> None:
        """Locate tile number ``tile``: its plane of the outputs, and the first one, ``y, x``."""
        out, (rows, columns) = self.out, self.nest.counts[1:]
        out.line(f"image = tile // {rows * columns}")
        out.line(f"y = {self._first(0, f'(tile // {columns} % {rows})')}")
        out.line(f"x = {self._first(1, f'(tile % {columns})')}")

    def _first(self, axis: int, number: str) -> str:
        """Return the first output of a tile by its *number* along an axis, phase by phase."""
        outputs, dilation = self.tile[axis], self.dilation[axis]
        if dilation == 1:
            return times(number, outputs)
        tiles = tiles_of_phase(self.shape.output[axis + 1], outputs, dilation)
        return f"{number} // {tiles} + {times(f'({number} % {tiles})', outputs * dilation)}"

    def _left(self, axis: int, place: str) -> str:
        """Return how many outputs of a phase there are from *place* on along an axis."""
        size, dilation = self.shape.output[axis + 1], self.dilation[axis]
        if dilation == 1:
            return f"{size} - {place}"
        return f"({size + dilation - 1} - {place}) // {dilation}"

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
        (_, height, width), (_, wide), channels = shape.input, self.sizes, shape.channels
        last_row, last_pixel = (
            (size - 1) * dilation for size, dilation in zip(self.sizes, self.dilation, strict=True)
        )
        self._write_corner(tap)
        inside = f"0 <= top < {height - last_row} and 0 <= left < {width - last_pixel}"
        with out.block(f"if {inside}:"):
            start = times(f"((plane * {height} + top) * {width} + left)", self.step)
            out.line(f"source = at(input, {start})")
            row_step, pixel_step = (
                self.dilation[0] * width * self.step,
                self.dilation[1] * self.step,
            )
            out.line(f"row_step = {row_step}\npixel_step = {pixel_step}")
        with out.block("else:"):
            self._write_patch()
            out.line("source = patch")
            out.line(f"row_step = {wide * channels}\npixel_step = {channels}")

    def _write_patch(self) -> None:
        """Copy the input of a tile to scratch."""
        shape = self.shape
        sizes = (*shape.input[1:], shape.channels, self.step, *self.sizes)
        numbers = ", ".join(f"{n}" for n in (*sizes, *self.dilation, self.nest.outside))
        self.out.line(f"copy_patch(patch, input, plane, top, left, {numbers})")

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
        apart = self.dilation[1] * self.step
        pixel_step = apart if apart == self.shape.channels else "pixel_step"
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
                place = plus("i * row_step", channel, wide * apart)
                out.line(f"tile_prefetch(source, {place}, {apart}, {stride_wide * tile_wide})")
        with out.block(f"for j in range({wide}):"):
            column = f"tile_load(line, j * {lanes}, {wide * lanes}, {high}, 1, {lanes})"
            column = f"tile_winograd_input({column}, {tile_high}, {kernel_high}, {stride_high})"
            place, plane = plus("to", f"j * {self.scratch.plane}", channel), self.scratch.plane
            if self.plan.factors_ahead and not masked:
                ahead = plus(place, self.plan.factors_ahead // kind.size_bytes)
                out.line(f"tile_prefetch(factors, {ahead}, {wide * plane}, {high})")
            out.line(f"tile_store(factors, {place}, {wide * plane}, {column})")

    def _write_prefetch(self) -> None:
        """Bring what the next tile of the line will write nearer; there may be none."""
        out, (_, height, width), (high, wide) = self.out, self.shape.output, self.tile
        with out.block(f"for i in range(min({self._left(0, 'y')}, {high})):"):
            row, column = (
                plus("y", times("i", self.dilation[0])),
                plus("x", wide * self.dilation[1]),
            )
            pixel = f"((image * {height} + {row}) * {width} + {column})"
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
        with out.block(f"for i in range(min({self._left(0, 'y')}, {tile_high})):"):
            row = plus("y", times("i", self.dilation[0]))
            out.line(f"pixel = (image * {height} + {row}) * {width} + x")
            lengths = self._line_lengths()
            if len(lengths) == 1:
                self._write_line(f"{tag}0", column, count, lengths[0])
                return
            out.line(f"pixels = min({self._left(1, 'x')}, {tile_wide})")
            for number, pixels in enumerate(lengths):
                if pixels > 0:
                    with out.block(f"if pixels == {pixels}:"):
                        self._write_line(f"{tag}{number}", column, count, pixels)

    def _line_lengths(self) -> list[int]:
        """Return how many outputs the lines of tiles have, the most first; 0 if there are none."""
        tile, dilation, size = self.tile[1], self.dilation[1], self.shape.output[2]
        if isinstance(size, Size):
            return [*range(tile, -1, -1)]
        tiles = tiles_of_phase(size, tile, dilation)
        whole, longer = divmod(size, dilation)  # outputs of a phase; the first phases have one more
        phases = {whole, whole + bool(longer)}
        found = {
            min(tile, max(0, phase - number * tile)) for phase in phases for number in range(tiles)
        }
        return sorted(found, reverse=True)

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
