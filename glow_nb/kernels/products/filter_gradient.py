"""Kernels of the gradients of filters (see :mod:`.filter_gradient_plan`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from glow_nb.base.alignment import CACHE_LINE_BYTES
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.size import surely
from glow_nb.kernels.operators.filter_gradient import FilterGradientPartsInst
from glow_nb.kernels.products.caches import level_2_bytes
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.filter_gradient_chunks import ChunkWriter
from glow_nb.kernels.products.filter_gradient_plan import (
    FILTER_GRADIENT,
    FilterGradientNest,
    FilterGradientPlan,
    can_transpose,
)
from glow_nb.kernels.registry import kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.traits import KernelTraits


def plan_filter_gradient(
    instruction: FilterGradientPartsInst,
    target: Target,
    fusion: Fusion,
) -> Plan:
    """Plan the gradient of a filter.

    Raises:
        UnsupportedError: The taps of a line cannot be the rows.
    """
    shape = _shape_of(instruction)
    if instruction.is_transposed and not can_transpose(shape):
        raise UnsupportedError(
            f"{instruction!r}: no kernel for the gradient of {shape.kernel[-1]} taps and dilation "
            f"{shape.dilation[-1]} along the last dimension transposed; leave it as it is"
        )
    nest = _nest_of(instruction, target)
    plan = FilterGradientPlan.of(nest, target).as_plan()
    dest_bytes = nest.taps * nest.columns * nest.depth * nest.group * nest.kind.size_bytes
    return plan.updated(fetch_results=dest_bytes > level_2_bytes(target) or None)


@kernel_for(
    FilterGradientPartsInst,
    traits=KernelTraits(strided=("input", "gradient")),
    planner=plan_filter_gradient,
)
def filter_gradient_source(instruction: FilterGradientPartsInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input, gradient)`` of the gradient of a filter.

    Raises:
        UnsupportedError: The pixels of an operand do not lie at equal distances.
    """
    nest, plan = _nest_of(instruction, target), plan_of(instruction, FILTER_GRADIENT)
    pixels = (
        elements_between_pixels(instruction.input),
        elements_between_pixels(instruction.gradient),
    )
    loops = FilterGradientPlan.from_plan(plan, nest, target)
    writer = FilterGradientWriter(nest, pixels, loops, is_far=plan.is_set("fetch_results"))
    title = f"gradient of the filter of a {_shape_of(instruction).description(nest.kind)}"
    text = writer.write(title)
    return KernelSource("filter_gradient", text, (nest.kind,) * 3, writer.scratch_bytes)


def _shape_of(instruction: FilterGradientPartsInst) -> ConvolutionShape:
    return ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.gradient.type.shape[-1],
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=instruction.group,
    )


def _nest_of(instruction: FilterGradientPartsInst, target: Target) -> FilterGradientNest:
    shape, kind, is_transposed = (
        _shape_of(instruction),
        instruction.dest.type.kind,
        instruction.is_transposed,
    )
    return FilterGradientNest.of(
        shape, instruction.parts, kind, target, is_transposed=is_transposed
    )


class FilterGradientWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(
        self,
        nest: FilterGradientNest,
        pixels: tuple[int, int],
        plan: FilterGradientPlan,
        *,
        is_far: bool,
    ) -> None:
        self.nest, self.plan, self.is_far = nest, plan, is_far
        self.input_pixel, self.gradient_pixel = pixels
        self.out = SourceWriter()
        self.chunks = ChunkWriter(self.out, nest.axes, self.plan.chunk_lines, self.plan.pieces)
        plan, size = self.plan, nest.kind.size_bytes
        self.element = nest.channels if nest.joins_taps else plan.columns.block
        self.slab_line = self.chunks.slab_width(pads=nest.joins_taps) * self.element
        strips = plan.block_strips * plan.cut.rows * plan.chunk_pixels(nest) * size
        strips = 0 if nest.is_transposed else strips
        self.slab_at = -(-strips // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        slab = self.chunks.slab_lines * self.slab_line + plan.columns.block  # vectors reach beyond
        self.scratch_bytes = self.slab_at + slab * size

    @property
    def row_elements(self) -> int:
        """Elements of the result from row to row."""
        return self.nest.columns * (1 if self.nest.is_transposed else self.nest.taps)

    def write(self, title: str) -> str:
        """Return the whole text."""
        out, nest, plan = self.out, self.nest, self.plan
        kind, columns, strips = nest.kind.value, plan.columns, plan.cut.tiles
        size = nest.parts * nest.group * nest.taps * nest.rows * nest.columns
        rows = " and ".join(str(rows) for _, _, rows in plan.cut.runs)
        out.line(
            f"# {title}\n# tiles of {rows} rows x {columns.vectors} vectors of {plan.lanes}, "
            f"{columns.panels * nest.group} panels, chunks of {plan.chunk_lines} lines of "
            f"{nest.lines}, {plan.pieces} pieces of each, blocks of {plan.block_strips} strips"
        )
        with out.block("def kernel(dest, input, gradient, scratch, thread, threads):"):
            if surely(size * nest.lines * nest.axes[-1].outputs, "==", 0):
                out.line(f"clear(dest, 0, {size} if thread == 0 else 0)")
                return out.text
            write_shares(out, nest.parts * strips, columns.panels * nest.group, panels_first=False)
            out.line(f"strips = as_{kind}(scratch)")
            out.line(f"slab = as_{kind}(at(scratch, {self.slab_at}))")
            with out.block("while unit < unit_end and panel_begin < panel_end:"):
                self._write_block()
        return out.text

    def _write_block(self) -> None:
        """Sum up a block of strips over all chunks of a part."""
        out, plan, strips, lines = self.out, self.plan, self.plan.cut.tiles, self.nest.lines
        out.line(f"part = unit // {strips}\nstrip = unit % {strips}")
        out.line(f"strip_end = min(strip + min(unit_end - unit, {plan.block_strips}), {strips})")
        out.line(f"row_begin = {plan.cut.start('strip')}")
        parts = self.nest.parts
        begin, end = (f"{at} * {lines} // {parts}" for at in ("part", "(part + 1)"))
        out.line("begun = 0")
        with self.chunks.each(begin, end):
            self._write_panels()
            out.line("begun = 1")
        out.line("unit += strip_end - strip")

    def _write_panels(self) -> None:
        """Sum up a chunk in all panels of the thread."""
        out, nest, columns = self.out, self.nest, self.plan.columns
        with out.block("for panel in range(panel_begin, panel_end):"):
            number, is_first = "panel", "panel == panel_begin"
            if nest.group > 1:
                number = "number"
                out.line(f"group = panel // {columns.panels}")
                out.line(f"number = panel % {columns.panels}")
                is_first += " or number == 0"
            out.line(f"column = {times(number, columns.block)}")
            if not nest.is_transposed:
                with out.block(f"if {is_first}:"):
                    self._write_strips()
            planes = nest.axes[0].taps
            loop = out.block(f"for tap0 in range({planes}):") if planes > 1 else nullcontext()
            if planes == 1:
                out.line("tap0 = 0")
            with loop:
                self._write_slab(number)
                self._write_taps(number)

    def _strip_runs(self) -> Iterator[tuple[int, int]]:
        """Write loops over the strips of the block, for each number of rows; find ``row``.

        Yields the number of the loop and the rows of its strips.
        """
        cut = self.plan.cut
        for number, (begin, end, rows) in enumerate(cut.runs):
            with self.out.block(f"for s in range(max(strip, {begin}), min(strip_end, {end})):"):
                self.out.line(f"row = {plus(times('s', rows), begin * (cut.rows - rows))}")
                yield number, rows

    def _strip_start(self) -> str:
        return times("(row - row_begin)", self.plan.chunk_pixels(self.nest))

    def _write_strips(self) -> None:
        """Copy the gradient of the chunk to ``strips``: ``[strip, pixel, row]``."""
        out, nest = self.out, self.nest
        for _, rows in self._strip_runs():
            group = times("group", nest.depth) if nest.group > 1 else "0"
            source = plus(times("first_pixel", self.gradient_pixel), group, "row")
            out.line(f"to = {self._strip_start()}\nsource = {source}")
            with out.block("for pixel in range(pixels):"):
                places = times("pixel", rows), times("pixel", self.gradient_pixel)
                out.line(f"copy(strips, to + {places[0]}, gradient, source + {places[1]}, {rows})")

    def _write_slab(self, number: str) -> None:
        """Copy the input of the chunk to ``slab``: ``[image, line, pixel, column]``."""
        out, nest, columns = self.out, self.nest, self.plan.columns
        if nest.joins_taps:
            is_kept = nest.axes[0].taps == 1  # from panel to panel
            with out.block("if panel == panel_begin:") if is_kept else nullcontext():
                with self._slab_lines():
                    self._write_padded_line()
            return
        out.line(f"channel = {plus(times('group', nest.channels), 'column')}"
                 if nest.group > 1 else "channel = column")  # fmt: skip
        with self._slab_lines():
            whole, tail = columns.full, columns.tail
            if whole and tail:
                with out.block(f"if {number} < {whole}:"):
                    self._write_pixels(columns.block)
                with out.block("else:"):
                    self._write_pixels(tail)
            else:
                self._write_pixels(columns.block if whole else tail)

    @contextmanager
    def _slab_lines(self) -> Iterator[None]:
        """Loop over the lines of a slab; find ``to`` and ``source``, where they begin."""
        with self.chunks.input_lines():
            self.out.line(f"to = slab_line * {self.slab_line}")
            self.out.line(f"source = input_line * {self.input_pixel * self.chunks.input_width}")
            yield

    def _write_pixels(self, columns: int) -> None:
        """Copy one line of a slab, the first *columns* columns of a panel."""
        out, axis, block = self.out, self.nest.axes[-1], self.plan.columns.block
        begin, end = self.chunks.inputs_met
        with out.block(f"for x in range({begin}, {end}):"):
            place = times(f"({plus('x', f'-({begin})')})" if begin != "0" else "x", block)
            cell = times(f"({plus(times('x', axis.step), axis.offset)})", self.input_pixel)
            out.line(f"copy(slab, to + {place}, input, source + {cell} + channel, {columns})")
            if columns < block:
                out.line(f"clear(slab, to + {plus(place, columns)}, {block - columns})")

    def _write_padded_line(self) -> None:
        """Copy one line of a slab with all channels, zeros at its ends."""
        out, axis, channels = self.out, self.nest.axes[-1], self.nest.channels
        out.line(f"x = {plus(times('x_begin', axis.stride), -axis.begin)}")
        out.line(
            f"width = {plus(times('(x_end - x_begin)', axis.stride), axis.reach - axis.stride)}"
        )
        out.line("left = min(max(-x, 0), width)")
        out.line(f"kept = max(min(x + width, {axis.inputs}) - max(x, 0), 0)")
        out.line(f"clear(slab, to, {times('left', channels)})")
        to = f"to + {times('left', channels)}"
        source = f"source + {times('max(x, 0)', self.input_pixel)}"
        if self.input_pixel == channels:
            out.line(f"copy(slab, {to}, input, {source}, {times('kept', channels)})")
        else:
            with out.block("for near in range(kept):"):
                places = times("near", channels), times("near", self.input_pixel)
                out.line(
                    f"copy(slab, {to} + {places[0]}, input, {source} + {places[1]}, {channels})"
                )
        end, rest = times("(left + kept)", channels), times("(width - left - kept)", channels)
        out.line(f"clear(slab, to + {end}, {rest})")

    def _write_taps(self, number: str) -> None:
        """Sum up a chunk for all taps that read one slab."""
        out, nest, columns = self.out, self.nest, self.plan.columns
        *_, high, wide = (axis.taps for axis in nest.axes)
        wide = 1 if nest.joins_taps else wide
        with out.block(f"for tap in range({high * wide}):"):
            out.line(f"tap1 = {f'tap // {wide}' if wide > 1 else 'tap'}")
            if not nest.joins_taps:
                out.line(f"tap2 = {f'tap % {wide}' if wide > 1 else '0'}")
                self.chunks.write_outputs(2)
            out.line(f"at_tap = {self._tap_start(high * wide)} * {nest.columns} + column")
            whole, tail = columns.full, columns.tail
            if whole and tail:
                with out.block(f"if {number} < {whole}:"):
                    self._write_tiles("a", columns.block)
                with out.block("else:"):
                    self._write_tiles("b", tail)
            else:
                self._write_tiles("a", columns.block if whole else tail)

    def _write_tiles(self, tag: str, columns: int) -> None:
        """Sum up a chunk in the tiles of one tap and panel, of which *columns* are in use."""
        out, nest, plan = self.out, self.nest, self.plan
        vectors, stride = -(-columns // plan.lanes), self.row_elements
        for number, rows in self._strip_runs():
            name, size = f"t_{tag}{number}", f"{rows}, {vectors}, {plan.lanes}"
            first = "0"
            if not nest.is_transposed:
                depth = times("group", nest.depth) if nest.group > 1 else "0"
                part = times("part", nest.group * nest.depth) if nest.parts > 1 else "0"
                first = plus(part, depth)
            out.line(f"at_tile = ({plus(first, 'row')}) * {stride} + at_tap")
            if self.is_far:
                for column in range(0, columns, plan.lanes):
                    out.line(f"tile_prefetch(dest, {plus('at_tile', column)}, {stride}, {rows})")
            out.line(f"{name} = tile_fill(dest, 0, {size})")
            if nest.is_transposed:
                self._write_transposed_sum(name, columns)
            else:
                out.line(f"left = {self._strip_start()}")
                self._write_sum(name, rows, vectors * plan.lanes)
            is_whole = columns == vectors * plan.lanes
            suffix, used = ("", "") if is_whole else ("_masked", f", {columns}")
            with out.block("if begun:"):
                earlier = f"tile_load{suffix}(dest, at_tile, {stride}, {size}{used})"
                out.line(f"{name} = add({name}, {earlier})")
            out.line(f"tile_store{suffix}(dest, at_tile, {stride}, {name}{used})")

    def _write_sum(self, name: str, rows: int, columns: int) -> None:
        """Add the pixels of the chunk to tile *name*."""
        nest, element, axis = self.nest, self.element, self.nest.axes[-1]
        panel = "column" if nest.joins_taps else "0"
        if nest.is_plain:
            self._write_dot(name, rows, columns, "left", panel, "pixels")
            return
        with self.chunks.output_lines():
            begin, count, cell = "x_begin", "x_end - x_begin", panel
            if not nest.joins_taps:
                begin, count = "o_begin", "max(o_end - o_begin, 0)"
                x = f"o_begin * {axis.stride} + tap2 * {axis.dilation} - {axis.begin}"
                cell = times(f"({plus(x, f'-({self.chunks.inputs_met[0]})')})", element)
            factors = f"left + (chunk_line * {axis.outputs} + {begin} - x_begin) * {rows}"
            cells = plus(f"slab_line * {self.slab_line}", cell)
            self._write_dot(name, rows, columns, factors, cells, count)

    def _tap_start(self, taps: int) -> str:
        """Return the rows of the result before those of the present tap, or the taps themselves."""
        nest = self.nest
        tap = f"(tap0 * {taps} + tap)"
        if not nest.is_transposed:
            return tap
        part = times("part", nest.taps) if nest.parts > 1 else "0"
        return times(f"({plus(part, tap)})", nest.rows)

    def _write_transposed_sum(self, name: str, columns: int) -> None:
        """Add the pixels of the chunk to a tile whose columns are channels of the gradient."""
        nest, axis = self.nest, self.nest.axes[-1]
        with self.chunks.output_lines():
            cells = plus(f"slab_line * {self.slab_line}", "row")
            pixel = f"(first_pixel + chunk_line * {axis.outputs})"
            factors = plus(times(pixel, self.gradient_pixel), "column")
            self.out.line(
                f"{name} = tile_dot({name}, slab, {cells}, 1, {axis.stride * nest.channels}, "
                f"gradient, {factors}, {self.gradient_pixel}, {columns}, x_end - x_begin, 0, 0)"
            )

    def _write_dot(
        self, name: str, rows: int, columns: int, factors: str, cells: str, count: str
    ) -> None:
        step = self.nest.axes[-1].stride * self.element
        self.out.line(
            f"{name} = tile_dot({name}, strips, {factors}, 1, {rows}, slab, {cells}, {step}, "
            f"{columns}, {count}, 0, 0)"
        )
