"""The nest of depthwise convolutions and of those with few channels in a group, as source.

Channels lie in the lanes: each is convolved by itself, or with the others of its group, which lie
in the same vector and are brought to its lane one after the other. A tile is some neighbouring
pixels of one output line by two vectors of channels; the weights of a tap are loaded once for all
its pixels. Nothing is padded: taps above and below the input are left out of the loop over kernel
lines, and the tiles at the ends of a line are written out with the taps that they have. Only where
that would be much code, which one long line with many taps makes, the line is copied to scratch
between zeros. If a channel has several results, what is loaded is spread over the lanes of these;
the lanes of a panel read the same channels, from its first one on, as those of every few panels.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from math import gcd, prod

from glow_nb.base.plan import Plan
from glow_nb.base.size import surely, symbols_of
from glow_nb.kernels.products.blocking import Cut
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.outer_taps import OuterTaps
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import SourceWriter

MOST_WRITTEN_OUT = 64
"""Taps of all tiles at the ends of a line that are written out."""

MOST_SPREADS = 8
"""Ways of repeating the channels of the input in a panel that are written out."""

MIN_CHUNK = 4
"""Panels that are worth taking apart from the others."""


class DepthwiseWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(
        self,
        shape: ConvolutionShape,
        kinds: ProductKinds,
        plan: Plan,
        lanes: int,
        fusion: Fusion,
    ) -> None:
        self.shape, self.kind, self.fusion, self.plan = shape, kinds.left, fusion, plan
        self.lanes, self.vectors = lanes, plan.number("vectors", most=2)
        self.tiles = TileStore(fusion, self.lanes)
        self.step = elements_between_pixels(fusion.input)
        self.block = self.vectors * self.lanes
        self.is_open = bool(symbols_of(shape.input[-1], shape.output[-1]))
        pixels = plan.rows if self.is_open else max(1, shape.output[-1])
        self.cut = Cut.balanced(pixels, plan.rows)
        self.multiplier = max(1, shape.depth_per_group // shape.channels_per_group)
        self.is_expanded = len(self._spreads(range(self._panels_of_period))) > MOST_SPREADS
        self.begin, self.pixels = shape.begins[-1], shape.input[-1]
        ends = self.cut.rows if self.is_open else self._end_tiles()
        self.is_padded = shape.rank == 1 and ends * shape.kernel[0] > MOST_WRITTEN_OUT
        if self.is_padded:  # the line that tiles read begins with zeros, and ends with zeros
            self.begin, self.pixels = 0, shape.needed[0]
        self.are_pads_open = bool(symbols_of(self.begin, shape.ends[-1]))
        self.is_staged = self.is_expanded or self.is_padded
        self.source = "rows" if self.is_staged else "input"
        self.source_depth = shape.depth if self.is_expanded else shape.channels
        self.source_step = self.source_depth if self.is_staged else self.step
        self.out = SourceWriter()
        self.taps = OuterTaps(self.out, shape)

    @property
    def scratch_elements(self) -> int:
        """Room for the staged input lines of one output line; the last store reaches beyond."""
        if not self.is_staged:
            return 0
        return prod(self.shape.kernel[:-1]) * self.pixels * self.source_depth + self.lanes

    @property
    def _panels_of_period(self) -> int:
        """Panels after which the channels of the input are repeated alike."""
        return self.multiplier // gcd(self.multiplier, self.block)

    def _spreads(self, panels: Iterable[int]) -> dict[tuple[int, ...], list[int]]:
        """Return the *panels* by the channel of the input, from its first, that each lane reads."""
        found: dict[tuple[int, ...], list[int]] = {}
        for panel in panels:
            first = self._first(panel)
            order = tuple((first + lane) // self.multiplier for lane in range(self.block))
            found.setdefault(order, []).append(panel)
        return found

    def _first(self, panel: int) -> int:
        """Return which of the results of its input channel the first one of *panel* is."""
        return panel * self.block % self.multiplier

    def write(self, title: str) -> str:
        """Return the whole text."""
        out, shape = self.out, self.shape
        lines, blocks = shape.batch * prod(shape.output[:-1]), -(-shape.depth // self.block)
        out.line(f"# {title}\n# tiles of {self.cut.rows} pixels x {self.vectors} vectors of "
                 f"{self.lanes}, {lines} lines, {blocks} panels")  # fmt: skip
        with out.block(self.fusion.header):
            if 0 in (lines, blocks, shape.output[-1]):
                out.line("return")
                return out.text
            # Lines, as the products before and after share them: each thread reads what it wrote.
            write_shares(out, lines, blocks, panels_first=False)
            if self.is_staged:
                out.line(f"rows = as_{self.kind.value}(scratch)")
            out.line("panels_end = panel_end")
            chunk = self.plan.number("panels", least=min(1, self.shape.depth))
            with out.block(f"for panel_begin in range(panel_begin, panels_end, {chunk}):"):
                out.line(f"panel_end = min(panel_begin + {chunk}, panels_end)")
                with out.block("for line in range(unit, unit_end):"):
                    self._write_line()
        return out.text

    def chunk_in(self, cache_bytes: int) -> int:
        """Return the panels to take through all lines at once, whose lines take *cache_bytes*.

        Each input line is then read once and not once for each line of the kernel. If few panels
        fit, the short pieces of memory cost more than that gains: all panels are taken together.
        """
        shape, panels = self.shape, -(-self.shape.depth // self.block)
        width = max(1, self.block // self.multiplier)
        window = prod(shape.kernel[:-1]) * shape.input[-1] * width * self.kind.size_bytes
        fitting = cache_bytes // max(1, window)
        return panels if self.is_staged or fitting < MIN_CHUNK else min(fitting, panels)

    def _write_line(self) -> None:
        """Locate one output line and the taps it has, then compute it panel by panel."""
        self.taps.write_places("line")
        if self.is_expanded:
            self._write_expansion()
        elif self.is_padded:
            self._write_padded_line()
        self._write_tiles()

    def _write_expansion(self) -> None:
        """Copy the input lines of the output line to scratch, each channel m times."""
        out, shape = self.out, self.shape
        multiplier = shape.depth // shape.channels
        before, elements = "0", f"{shape.input[-1] * shape.channels}"
        if self.is_padded:  # of a line whose end no window sees there is room for a part
            out.line(f"left_e = min({shape.begins[0]}, {self.pixels})")
            out.line(f"kept_e = max(0, min({shape.input[0]}, {self.pixels} - left_e))")
            before, elements = times("left_e", shape.depth), times("kept_e", shape.channels)
        with self.taps.loops("e"):
            out.line(f"from_e = {times(self.taps.input_line('e'), self.step)}")
            place = times(self.taps.number("e"), self.pixels * shape.depth)
            out.line(f"to_e = {plus(place, before)}")
            # A store writes beyond its m elements what the next one writes again.
            with out.block(f"for i_e in range({elements}):"):
                out.line(f"value_e = broadcast(input, from_e + {self._element()}, {self.lanes})")
                for part in range(0, multiplier, self.lanes):
                    place = plus("to_e", times("i_e", multiplier), part)
                    out.line(f"store(rows, {place}, value_e)")
        if self.is_padded:
            out.line(f"clear(rows, 0, {before})")
            end, rest = times("(left_e + kept_e)", shape.depth), f"{self.pixels} - left_e - kept_e"
            out.line(f"clear(rows, {end}, {times(f'({rest})', shape.depth)})")

    def _element(self) -> str:
        """Return where element ``i_e`` of an input line lies, from the first one on."""
        channels = self.shape.channels
        if self.step == channels:
            return "i_e"
        return f"i_e // {channels} * {self.step} + i_e % {channels}"

    def _write_padded_line(self) -> None:
        """Copy the channels of the thread's panels to scratch, for every pixel, or zeros."""
        out, shape = self.out, self.shape
        first, last = f"panel_begin * {self.block}", f"min(panel_end * {self.block}, {shape.depth})"
        if self.multiplier > 1:
            first, last = f"{first} // {self.multiplier}", f"({last} - 1) // {self.multiplier} + 1"
        out.line(f"from_e = {first}\ncount_e = {last} - from_e")
        with out.block(f"for i_e in range({self.pixels}):"):
            out.line(f"x_e = {plus('i_e', -shape.begins[0])}")
            out.line(f"to_e = i_e * {shape.channels} + from_e")
            with out.block(f"if 0 <= x_e < {shape.input[0]}:"):
                place = f"({plus(self.taps.input_line('e'), 'x_e')}) * {self.step} + from_e"
                out.line(f"copy(rows, to_e, input, {place}, count_e)")
            with out.block("else:"):
                out.line("clear(rows, to_e, count_e)")

    def _write_tiles(self) -> None:
        """Compute the tiles of one line: those at its ends one by one, the others in a loop."""
        out = self.out
        if self.is_open:
            self._write_open_tiles()
            return
        for number, (begin, end, rows) in enumerate(self.cut.runs):
            # Tiles of a run have equal sizes: the start is linear in the tile's number.
            skipped = begin * (self.cut.rows - rows)
            starts = {tile: tile * rows + skipped for tile in range(begin, end)}
            inside = [tile for tile, pixel in starts.items() if self._is_inside(pixel, rows)]
            for tile, pixel in starts.items():
                if tile not in inside:
                    self._write_panels(f"{number}_{tile}", rows, str(pixel), self._taps_of(pixel))
            if inside:
                with out.block(f"for tile_{number} in range({inside[0]}, {inside[-1] + 1}):"):
                    start = plus(times(f"tile_{number}", rows), skipped)
                    self._write_panels(str(number), rows, start, self._taps_of(None))

    def _write_open_tiles(self) -> None:
        """Compute the tiles of one line where only the run knows how many pixels it has.

        They are as high as can be, but for the last one.
        """
        out, rows, size = self.out, self.cut.rows, self.shape.output[-1]
        out.line(f"tiles = {size} // {rows}\nrest = {size} % {rows}")
        if self.is_padded:
            out.line("inside = 0\nbehind = tiles")
        else:
            self._write_ends_of_line()
        with out.block("for tile_0 in range(inside, behind):"):
            self._write_panels("0", rows, times("tile_0", rows), self._taps_of(None))
        for number in range(1, rows):
            with out.block(f"if rest == {number}:"):
                self._write_rest(f"r{number}", number, times("tiles", rows))

    def _write_ends_of_line(self) -> None:
        """Compute the whole tiles with taps outside; find those ``inside`` to ``behind``.

        How many cells after the line its last window sees, ``beyond``, is one of few numbers, for
        each of which the tile at the end is written out.
        """
        out, rows, stride = self.out, self.cut.rows, self.shape.stride[-1]
        reach = (rows - 1) * stride + self.shape.reach[-1]
        left = -(-self.begin // (rows * stride))
        size = self.shape.output[-1]
        needed = (size - 1) * stride + self.shape.reach[-1] - self.begin
        out.line(f"beyond = max(0, {needed - self.pixels})")
        out.line(f"fitting = {(self.pixels + self.begin - reach) // (rows * stride) + 1}")
        out.line(f"inside = min({left}, tiles)\nbehind = max(inside, min(fitting, tiles))")
        out.line("first = 0\nend = tiles")
        if left == 1:
            with out.block("if tiles > 0 and fitting > 0:"):
                self._write_panels("l", rows, "0", f"{self.begin}, {reach}")
                out.line("first = 1")
        if not self.are_pads_open and left <= 1:
            with out.block("if rest == 0 and tiles > 0 and fitting == tiles - 1:"):
                with out.block("if tiles > 1:"):
                    self._write_at_the_end("e", rows, times("(tiles - 1)", rows), 0)
                with out.block("else:"):
                    self._write_at_the_end("w", rows, "0", self.begin)
                out.line("end = tiles - 1")
        if self.are_pads_open or left > 1 or self.shape.ends[-1] > stride:
            with out.block("for turn in range(first, end - (behind - inside)):"):
                out.line("tile_1 = turn if turn < inside else turn + (behind - inside)")
                start = times("tile_1", rows)
                self._write_panels("1", rows, start, self._taps_at("at_1"))

    def _write_rest(self, name: str, rows: int, start: str) -> None:
        """Compute the last tile, which has fewer pixels."""
        out, whole = self.out, self.cut.rows
        if self.is_padded:
            self._write_panels(name, rows, start, self._taps_of(None))
        elif self.are_pads_open or self.begin > whole * self.shape.stride[-1]:
            self._write_panels(name, rows, start, self._taps_at(f"at_{name}"))
        elif surely(self.shape.output[-1], ">=", whole):
            self._write_at_the_end(name, rows, start, 0)
        else:
            with out.block("if tiles > 0:"):
                self._write_at_the_end(f"{name}e", rows, start, 0)
            with out.block("else:"):
                self._write_panels(name, rows, start, self._taps_at(f"at_{name}"))

    def _write_at_the_end(self, name: str, rows: int, start: str, begin: int) -> None:
        """Compute the tile at the end of the line, the first cells of which are *begin* outside."""
        end, stride = self.shape.ends[-1], self.shape.stride[-1]
        reach = (rows - 1) * stride + self.shape.reach[-1]
        numbers = sorted({max(0, number) for number in range(end - stride + 1, end + 1)})
        for number in numbers:
            is_one = (
                nullcontext() if len(numbers) == 1 else self.out.block(f"if beyond == {number}:")
            )
            with is_one:
                self._write_panels(f"{name}{number}", rows, start, f"{begin}, {reach - number}")

    def _is_inside(self, pixel: int, rows: int) -> bool:
        """Return whether no tap of the pixels from *pixel* on lies outside the line."""
        shape = self.shape
        first = pixel * shape.stride[-1] - self.begin
        last = first + (rows - 1) * shape.stride[-1] + shape.reach[-1]
        return first >= 0 and last <= self.pixels

    def _end_tiles(self) -> int:
        """Return how many tiles of a line have taps outside of it."""
        return sum(
            not self._is_inside(begin * self.cut.rows + tile * rows, rows)
            for begin, end, rows in self.cut.runs
            for tile in range(end - begin)
        )

    def _taps_of(self, pixel: int | None) -> str:
        """Return which pixels a tile sees that begins with number *pixel*, from its first on.

        It sees all if there is no number.
        """
        stride, reach = self.shape.stride[-1], self.shape.reach[-1]
        if pixel is None:
            return f"0, {(self.cut.rows - 1) * stride + reach}"
        first = pixel * stride - self.begin
        return f"{-first}, {self.pixels - first}"

    def _taps_at(self, place: str) -> str:
        """Return the same of a tile whose first pixel only the run knows."""
        first = plus(times(place, self.shape.stride[-1]), -self.begin)
        return f"-({first}), {self.pixels} - ({first})"

    def _write_panels(self, name: str, rows: int, start: str, seen: str) -> None:
        """Run over the channels of the tile from pixel *start* on; the last may be fewer."""
        out, full, tail = self.out, *divmod(self.shape.depth, self.block)
        out.line(f"at_{name} = {start}")
        if full:
            with out.block(f"for panel_{name}a in range(panel_begin, min(panel_end, {full})):"):
                self._write_full(f"{name}a", rows, f"at_{name}", seen)
        if tail:
            with out.block(f"for panel_{name}b in range(max(panel_begin, {full}), panel_end):"):
                self._write_tile(f"{name}b", f"at_{name}", rows, tail, seen, full)

    def _write_full(self, name: str, rows: int, at: str, seen: str) -> None:
        """Compute the tile of a whole panel, as the channels of the input are repeated in it."""
        out, period = self.out, self._panels_of_period
        spreads = [] if self.is_expanded else [*self._spreads(range(period)).values()]
        if len(spreads) < 2:
            self._write_tile(name, at, rows, self.block, seen, 0)
            return
        out.line(f"turn_{name} = panel_{name} % {period}")
        for number, panels in enumerate(spreads):
            is_turn = " or ".join(f"turn_{name} == {panel}" for panel in panels)
            with out.block(f"if {is_turn}:"):
                out.line(f"panel_{name}{number} = panel_{name}")
                self._write_tile(f"{name}{number}", at, rows, self.block, seen, panels[0])

    def _write_tile(
        self, name: str, at: str, rows: int, columns: int, seen: str, panel: int
    ) -> None:
        """Compute one tile from pixel *at* on, from the first pixel *seen* to the one after all.

        It repeats the channels of the input as *panel* does.
        """
        out, shape = self.out, self.shape
        size = f"{rows}, {-(-columns // self.lanes)}, {self.lanes}"
        out.line(f"channel_{name} = panel_{name} * {self.block}")
        if columns % self.lanes:
            out.line(f"t_{name} = tile_bias_masked(bias, channel_{name}, {size}, {columns})")
        else:
            out.line(f"t_{name} = tile_bias(bias, channel_{name}, {size})")
        with self.taps.loops(name):
            line = self.taps.input_line(name)
            if self.is_staged:
                line = times(self.taps.number(name), self.pixels)
            first = plus(line, times(at, shape.stride[-1]), -self.begin)
            channel = f"channel_{name}"
            if self.multiplier > 1 and not self.is_expanded:
                channel = f"{channel} // {self.multiplier}"
            x = plus(times(f"({first})", self.source_step), channel)
            out.line(f"x_{name} = {x}")
            line_weights = shape.kernel[-1] * shape.channels_per_group * shape.depth
            weights = times(self.taps.number(name), line_weights)
            out.line(f"w_{name} = {plus(weights, f'channel_{name}')}")
            self._write_slide(name, columns, seen, panel)
        self.tiles.write(
            out,
            f"t_{name}",
            rows,
            columns=columns,
            pixel=f"({plus(times('line', shape.output[-1]), at)})",
            channel=f"channel_{name}",
        )

    def _write_slide(self, name: str, columns: int, seen: str, panel: int) -> None:
        """Accumulate one line of taps, of which only those inside the input count."""
        shape = self.shape
        window = f"{shape.kernel[-1]}, {shape.stride[-1]}, {shape.dilation[-1]}"
        repeated = (1, 0) if self.is_expanded else (self.multiplier, self._first(panel))
        slide, size, end_of = "tile_slide", "", f", {repeated[0]}, {repeated[1]}"
        if shape.channels_per_group > 1:
            slide, size, end_of = "tile_slide_groups", f", {shape.channels_per_group}", ""
        self.out.line(
            f"t_{name} = {slide}(t_{name}, {self.source}, x_{name}, {self.source_step}, filter, "
            f"w_{name}, {shape.depth}{size}, {window}, {columns}, {seen}{end_of})"
        )
