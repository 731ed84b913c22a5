"""Source text of the loops of a convolution or matrix product (see :mod:`.convolution_plan`)."""

from __future__ import annotations

from math import prod

from glow_nb.kernels.products.convolution_plan import Plan, ProductNest, plan_product, units_of
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.shares import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.program import kernel_operands

LONGEST_CHAIN, SHORTEST_CHAIN = 32, 24
"""Products that are summed up one after the other. The rounding error of a sum grows with the root
of the length of its chain; sums of sums keep it small, and cost little if the parts are not too
short: the totals wait in the first-level cache."""

LONGEST_CHAIN_OF_CHAINS = 512
"""Products in a sum of sums, for the same reason."""


def generate_product(
    nest: ProductNest,
    target: Target,
    fusion: Fusion,
    *,
    family: str,
    title: str,
) -> KernelSource:
    """Return the kernel of *nest*.

    Args:
        nest: What to compute.
        target: For which processor.
        fusion: The product, and what to do with its results before they are stored.
        family: Family of the kernel.
        title: Comment at the top of the text.
    """
    plan = plan_product(nest, target)
    fusion = fusion.named_by_field()
    text = ProductWriter(nest, plan, fusion).write(title)
    return KernelSource(family, text, fusion.kinds, plan.scratch_elements * nest.kind.size_bytes)


class ProductWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(self, nest: ProductNest, plan: Plan, fusion: Fusion) -> None:
        self.nest, self.shape, self.plan, self.fusion = nest, nest.shape, plan, fusion
        self.tiles = TileStore(fusion, plan.lanes, nest.pixel_stride)
        _, *operands = kernel_operands(fusion.head)
        self.input, self.filter, *self.bias = (fusion.names[buffer] for buffer in operands)
        self.out = SourceWriter()
        self.units = units_of(self.shape, plan.cut)
        self.panels = plan.columns.panels * self.shape.group
        staged_sizes = self.shape.needed if plan.is_staged else self.shape.input
        self.source = "rows" if plan.is_staged else self.input
        self.steps_between = _row_major(staged_sizes, self.shape.channels)

    def write(self, title: str) -> str:
        """Return the whole text."""
        out = self.out
        out.line(f"# {title}\n# {self._describe()}")
        with out.block(self.fusion.header):
            if min(self.shape.batch, self.panels, *self.shape.output) == 0:
                out.line("return")
            else:
                units = self.shape.batch * self.units
                write_shares(out, units, self.panels, panels_first=self.plan.panels_first)
                if self.plan.is_staged:
                    out.line(f"rows = as_{self.nest.kind.value}(scratch)")
                self._write_blocks()
        return out.text

    def _describe(self) -> str:
        cut, columns = self.plan.cut, self.plan.columns
        rows = " and ".join(str(rows) for _, _, rows in cut.runs)
        unit = "tiles" if self.shape.rank == 1 else "lines"
        staged = ", padded in scratch" if self.plan.is_staged else ""
        shared = "panels" if self.plan.panels_first else unit
        return (
            f"tiles of {rows} rows x {columns.vectors} vectors of {self.plan.lanes}, {self.panels} "
            f"panels, blocks of {self.plan.block_units} {unit}{staged}, threads share {shared}"
        )

    def _write_blocks(self) -> None:
        out = self.out
        with out.block("while unit < unit_end and panel_begin < panel_end:"):
            out.line(f"image = unit // {self.units}")
            out.line(f"first = unit % {self.units}")
            out.line(f"count = min(unit_end - unit, {self.units} - first)")
            if self.plan.block_units < self.units:
                out.line(f"count = min(count, {self.plan.block_units})")
            if self.plan.is_staged:
                self._write_staging()
            with out.block("for panel in range(panel_begin, panel_end):"):
                self._write_panel()
            out.line("unit += count")

    def _write_staging(self) -> None:
        """Copy the input of one block to scratch, between zeros."""
        if self.shape.rank == 1:
            self._write_staged_line()
            return
        out, shape = self.out, self.shape
        low, size = shape.begins[0], shape.input[0]
        rows = plus(times("(count - 1)", shape.stride[0]), shape.reach[0])
        with out.block(f"for row in range({rows}):"):
            out.line(f"y = {plus(times('first', shape.stride[0]), 'row', -low)}")
            inside = f"0 <= y < {size}"
            if shape.rank == 2:
                self._write_staged_row(inside, "row", f"(image * {size} + y)")
                return
            with out.block(f"for column in range({shape.needed[1]}):"):
                out.line(f"z = {plus('column', -shape.begins[1])}")
                inside += f" and 0 <= z < {shape.input[1]}"
                place = f"(row * {shape.needed[1]} + column)"
                origin = f"((image * {size} + y) * {shape.input[1]} + z)"
                self._write_staged_row(inside, place, origin)

    def _write_staged_row(self, inside: str, place: str, origin: str) -> None:
        """Copy input row number *origin* to row number *place* of the scratch, or write zeros."""
        out, shape = self.out, self.shape
        channels, width = shape.channels, shape.needed[-1]
        left = min(shape.begins[-1], width)
        kept = max(0, min(shape.input[-1], width - left))
        right = width - left - kept
        out.line(f"to = {times(place, width * channels)}")
        with out.block(f"if {inside}:"):
            if left:
                out.line(f"clear(rows, to, {left * channels})")
            if kept:
                to, size = plus("to", left * channels), kept * channels
                source = times(origin, shape.input[-1] * channels)
                out.line(f"copy(rows, {to}, {self.input}, {source}, {size})")
            if right:
                out.line(f"clear(rows, to + {(left + kept) * channels}, {right * channels})")
        with out.block("else:"):
            out.line(f"clear(rows, to, {width * channels})")

    def _write_staged_line(self) -> None:
        """Copy a part of the only line, whose ends may lie outside of it."""
        out, shape = self.out, self.shape
        size, channels, stride = shape.input[0], shape.channels, shape.stride[0]
        out.line(f"pixel = {self.plan.cut.start('first')}")
        out.line(f"pixel_end = {self.plan.cut.start('(first + count)')}")
        out.line(f"y = {plus(times('pixel', stride), -shape.begins[0])}")
        out.line(f"length = {plus(times('(pixel_end - pixel - 1)', stride), shape.reach[0])}")
        out.line("left = min(max(-y, 0), length)")
        out.line(f"kept = max(min(y + length, {size}) - max(y, 0), 0)")
        left, kept = times("left", channels), times("kept", channels)
        out.line(f"clear(rows, 0, {left})")
        source = times(f"(image * {size} + max(y, 0))", channels)
        with out.block("if kept > 0:"):
            out.line(f"copy(rows, {left}, {self.input}, {source}, {kept})")
        end, rest = times("(left + kept)", channels), times("(length - left - kept)", channels)
        out.line(f"clear(rows, {end}, {rest})")

    def _write_panel(self) -> None:
        """Compute all tiles of the block for one panel, whole or the narrower last one."""
        out, columns = self.out, self.plan.columns
        if self.shape.group == 1:
            out.line("channel = panel * " + str(self.nest.block))
        else:
            out.line(f"group = panel // {columns.panels}")
            number = f"panel % {columns.panels}"
            out.line(f"channel = group * {columns.depth} + {number} * {self.nest.block}")
        if self.nest.filter_per_image:
            out.line(f"weights = (image * {self.panels} + panel) * {self._panel_elements}")
        else:
            out.line(f"weights = panel * {self._panel_elements}")
        if not columns.tail:
            self._write_lines("a", columns.block)
        elif not columns.full:
            self._write_lines("a", columns.tail)
        else:
            with out.block(f"if panel % {columns.panels} < {columns.full}:"):
                self._write_lines("a", columns.block)
            with out.block("else:"):
                self._write_lines("b", columns.tail)

    @property
    def _panel_elements(self) -> int:
        return self.shape.steps * self.nest.block

    def _write_lines(self, tag: str, columns: int) -> None:
        """Run over the lines of the block; the last *columns* of the panel are not in use."""
        out, shape = self.out, self.shape
        if shape.rank == 1:
            self._write_tiles(tag, columns, "", "image")
            return
        image = times("image", prod(shape.input) * shape.channels)
        origin = "0" if self.plan.is_staged else image
        step = shape.stride[0] * self.steps_between[0]
        with out.block(f"for line_{tag} in range(count):"):
            row = f"line_{tag}" if self.plan.is_staged else f"(first + line_{tag})"
            place = f"image * {shape.output[0]} + first + line_{tag}"
            out.line(f"origin_{tag} = {plus(origin, times(row, step))}")
            if self.skips_padding:
                self._write_taps_inside(tag)
            if shape.rank == 2:
                self._write_tiles(tag, columns, f"origin_{tag}", f"({place})")
                return
            with out.block(f"for row_{tag} in range({shape.output[1]}):"):
                step = shape.stride[1] * self.steps_between[1]
                out.line(f"start_{tag} = {plus(f'origin_{tag}', times(f'row_{tag}', step))}")
                place = f"(({place}) * {shape.output[1]} + row_{tag})"
                self._write_tiles(tag, columns, f"start_{tag}", place)

    @property
    def skips_padding(self) -> bool:
        """True if the taps of a line that lie above or below the image are left out."""
        if not self.plan.is_staged or self.shape.rank == 1 or self.shape.kernel[0] == 1:
            return False
        return bool(self._tap_loops()[0])  # otherwise lines and columns are one loop

    def _write_taps_inside(self, tag: str) -> None:
        """Write which taps of the first dimension lie inside the image for the present line."""
        shape, out = self.shape, self.out
        step = shape.dilation[0]
        line = times(f"(first + line_{tag})", shape.stride[0])
        out.line(f"top_{tag} = {plus(line, -shape.begins[0])}")
        low, high = f"{step - 1} - top_{tag}", f"{shape.input[0] + step - 1} - top_{tag}"
        if step > 1:
            low, high = f"({low}) // {step}", f"({high}) // {step}"
        out.line(f"begin_{tag} = max(0, {low})\nend_{tag} = min({shape.kernel[0]}, {high})")

    def _write_tiles(self, tag: str, columns: int, origin: str, place: str) -> None:
        """Compute the tiles of one line, whose input begins at *origin*; *place* is its number."""
        out, cut = self.out, self.plan.cut
        for number, (begin, end, rows) in enumerate(cut.runs):
            name = f"{tag}{number}"
            # Tiles of a run have equal sizes: the start is linear in the tile's number.
            skipped = begin * (cut.rows - rows)
            if self.shape.rank > 1 and end - begin == 1:
                out.line(f"at_{name} = {begin * rows + skipped}")
                self._write_tile(name, rows, columns, origin, place)
                continue
            header = f"for tile_{name} in range({begin}, {end}):"
            if self.shape.rank == 1:
                header = self._tile_range(name, begin, end)
            with out.block(header):
                out.line(f"at_{name} = {plus(times(f'tile_{name}', rows), skipped)}")
                self._write_tile(name, rows, columns, origin, place)

    def _tile_range(self, name: str, begin: int, end: int) -> str:
        """Return the loop over those tiles of the block that are in the run *begin* to *end*."""
        if self.plan.cut.small == 0:
            return f"for tile_{name} in range(first, first + count):"
        if begin == 0:
            return f"for tile_{name} in range(first, min(first + count, {end})):"
        return f"for tile_{name} in range(max(first, {begin}), first + count):"

    def _write_tile(self, name: str, rows: int, columns: int, origin: str, place: str) -> None:
        """Sum up one tile, from pixel ``at_<name>`` on, and store it."""
        out, shape, plan = self.out, self.shape, self.plan
        vectors = -(-columns // plan.lanes)
        pixel_step = shape.stride[-1] * shape.channels
        pixel, start = f"at_{name}", origin
        if shape.rank == 1:
            start = "0" if plan.is_staged else times("image", shape.input[0] * shape.channels)
            pixel = f"(at_{name} - pixel)" if plan.is_staged else pixel
        group = "0" if shape.group == 1 else times("group", shape.channels_per_group)
        out.line(f"x_{name} = {plus(start, times(pixel, pixel_step), group)}")
        size = f"{rows}, {vectors}, {plan.lanes}"
        if self.bias:
            out.line(f"t_{name} = tile_bias({self.bias[0]}, panel * {self.nest.block}, {size})")
        else:
            out.line(f"t_{name} = tile_fill({self.filter}, 0, {size})")
        self._write_taps(name, pixel_step)
        line = f"{place} * {shape.output[-1]} + at_{name}"
        out.line(f"y_{name} = ({line}) * {self.nest.pixel_stride} + channel")
        self.tiles.write(
            out, f"t_{name}", rows, columns=columns, index=f"y_{name}", channel="channel"
        )

    def _write_taps(self, name: str, pixel_step: int) -> None:
        """Accumulate over taps and channels; taps whose inputs are neighbours make one loop."""
        all_loops, inner = self._tap_loops()
        is_short = self.shape.steps <= LONGEST_CHAIN
        ahead, pace = ("0", 0) if all_loops else self._next_panel(name)
        chains = (0, 0) if is_short else _chains(inner)

        def write_dot(total: str, x: str, w: str, pieces: tuple[int, int]) -> None:
            self.out.line(
                f"{total} = tile_dot({total}, {self.source}, {x}, {pixel_step}, {self.filter}, "
                f"{w}, {self.nest.block}, {inner}, {pieces[0]}, {pieces[1]}, {ahead}, {pace})"
            )

        def write_loops(total: str, loops: list[tuple[int, int]], x: str, w: str) -> None:
            is_part = total.startswith("s_")
            if not (is_short or is_part) and _is_one_chain(loops, inner):
                self.out.line(f"s_{name} = tile_zero({total})")
                write_loops(f"s_{name}", loops, x, w)
                self.out.line(f"{total} = add({total}, s_{name})")
                return
            if not loops:
                write_dot(total, x, w, (0, 0) if is_part else chains)
                return
            (taps, step), rest = loops[0], loops[1:]
            weights = prod(taps for taps, _ in rest) * inner * self.nest.block
            tap = f"{'kij'[-len(loops)]}_{name}"
            ends = str(taps)
            if self.skips_padding and len(loops) == len(all_loops):
                ends = f"begin_{name[0]}, end_{name[0]}"
            with self.out.block(f"for {tap} in range({ends}):"):
                self.out.line(f"x_{tap} = {x} + {times(tap, step)}")
                self.out.line(f"w_{tap} = {w} + {times(tap, weights)}")
                write_loops(total, rest, f"x_{tap}", f"w_{tap}")

        write_loops(f"t_{name}", all_loops, f"x_{name}", "weights")

    def _next_panel(self, name: str) -> tuple[str, int]:
        """Return from where on, and in what steps, a tile should fetch weights of the next panel.

        The tiles of a block do it together, if the filter does not stay in the cache anyway.
        """
        if self.shape.rank > 1 or self.plan.block_units < 2 or not self.plan.is_streamed:
            return "0", 0
        pace = -(-self.nest.block // self.plan.block_units)
        begin = f"weights + {self._panel_elements}"
        return f"{begin} + (tile_{name} - first) * {self.shape.steps * pace}", pace

    def _tap_loops(self) -> tuple[list[tuple[int, int]], int]:
        """Return (taps, input step) of the outer loops, and the length of the innermost one."""
        shape, inner = self.shape, self.shape.channels_per_group
        steps = zip(shape.kernel, shape.dilation, self.steps_between, strict=True)
        loops = [(taps, dilation * step) for taps, dilation, step in steps]
        while loops and (loops[-1][0] == 1 or loops[-1][1] == inner):
            inner *= loops.pop()[0]
        return [loop for loop in loops if loop[0] > 1], inner


def _is_one_chain(loops: list[tuple[int, int]], inner: int) -> bool:
    """True if these loops should sum up from zero: neither too many steps nor too few."""
    if not loops:
        return False
    lengths = [prod(taps for taps, _ in loops[depth:]) * inner for depth in range(2)]
    return lengths[0] <= LONGEST_CHAIN or lengths[1] < SHORTEST_CHAIN


def _chains(inner: int) -> tuple[int, int]:
    """Return the lengths of balanced pieces of *inner* products: of sums of sums, and of sums."""
    longer = -(-inner // -(-inner // LONGEST_CHAIN_OF_CHAINS))
    shorter = -(-longer // -(-longer // LONGEST_CHAIN))
    return (longer if longer < inner else 0), shorter


def _row_major(sizes: tuple[int, ...], last: int) -> tuple[int, ...]:
    """Return the elements between neighbours in each dimension, *last* in the innermost."""
    return tuple(prod(sizes[axis + 1 :]) * last for axis in range(len(sizes)))
