"""Kernels of Winograd convolutions: fewer products for more additions (see ``cook_toom``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

from glow_nb.kernels.convolution_shape import ConvolutionShape
from glow_nb.kernels.index_text import plus, times
from glow_nb.kernels.register_tiles import Epilogue, result_pointers, write_tile_store
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.shares import write_shares
from glow_nb.kernels.source import KernelSource, SourceWriter
from glow_nb.kernels.target import Target
from glow_nb.kernels.winograd_plan import Scratch, WinogradNest, WinogradPlan, plan_winograd
from glow_nb.llir.instructions.winograd import WinogradConvolutionInst
from glow_nb.llir.program import Buffer, pixel_stride

LONGEST_CHAIN = 64
"""Products that are summed up one after the other. Sums over channels alone are short, and their
rounding errors are not the largest: so chains are longer than those of the direct sum."""


def generate_winograd(
    nest: WinogradNest,
    target: Target,
    epilogue: Epilogue | None = None,
    plan: WinogradPlan | None = None,
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias, *epilogue operands)`` of a convolution.

    Input ``[N, *spatial, C]``, filter ``[group, panels, *n, C / group, block]``, transformed, bias
    ``[group * panels * block]``, dest ``[N, *out, depth]``, where
    ``panels = ceil(depth / group / block)``.

    Args:
        nest: What to compute.
        target: The processor.
        epilogue: What to do with each vector of results before it is stored.
        plan: How to cut it up, if not by :func:`plan_winograd`.
    """
    writer = WinogradWriter(nest.plane, plan or plan_winograd(nest, target), epilogue)
    extra = [kind for _, kind in epilogue.operands] if epilogue else []
    results = [kind for _, kind in result_pointers(epilogue, nest.kind)]
    kinds = (*results, *[nest.kind] * 3, *extra)
    text = writer.write(_title(nest))
    return KernelSource("winograd", text, kinds, writer.scratch.size * nest.kind.size_bytes)


def _title(nest: WinogradNest) -> str:
    shape = nest.shape
    taps, tile = (" x ".join(map(str, sizes)) for sizes in (shape.kernel, nest.tile))
    sizes = " x ".join(map(str, (shape.batch, *shape.input, shape.channels)))
    return (
        f"convolution {taps} by tiles of {tile} of {nest.kind.value}<{sizes}> to {shape.depth} "
        f"channels, pads {shape.pads}, group {shape.group}"
    )


class WinogradWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(self, nest: WinogradNest, plan: WinogradPlan, epilogue: Epilogue | None) -> None:
        self.nest, self.shape, self.plan, self.epilogue = nest, nest.shape, plan, epilogue
        self.scratch = Scratch.of(nest, plan)
        self.out = SourceWriter()

    def write(self, title: str) -> str:
        """Return the whole text."""
        out, shape = self.out, self.shape
        out.line(f"# {title}\n# {self._describe()}")
        extra = [name for name, _ in self.epilogue.operands] if self.epilogue else []
        names = [name for name, _ in result_pointers(self.epilogue, self.nest.kind)]
        names += ["input", "filter", "bias", *extra, "scratch", "thread", "threads"]
        with out.block(f"def kernel({', '.join(names)}):"):
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
        out, scratch = self.out, self.scratch
        out.line(f"patch = as_{self.nest.kind.value}(scratch)")
        out.line(f"line = at(patch, {scratch.patch})")
        out.line(f"factors = at(line, {scratch.line})")
        out.line(f"sums = at(factors, {scratch.elements * scratch.plane})")
        if self.nest.guarded:
            out.line(f"taps = at(sums, {scratch.elements * scratch.sums_plane})")
            out.line(f"taps_of = as_int64(at(taps, {scratch.taps}))\nput(taps_of, 0, -1)")

    def _write_blocks(self) -> None:
        out, plan = self.out, self.plan
        with out.block("while unit < unit_end and panel_begin < panel_end:"):
            out.line(f"count = min(unit_end - unit, {plan.block_units})")
            out.line(f"begin = {plan.cut.start('unit')}")
            out.line(f"end = {plan.cut.start('(unit + count)')}")
            with out.block("for tile in range(begin, end):"):
                self._write_place()
                self._write_source()
                self._write_factors()
            with out.block("for panel in range(panel_begin, panel_end):"):
                with out.block(f"for element in range({self.nest.elements}):"):
                    self._write_products()
                self._write_channel()
                with out.block("for tile in range(begin, end):"):
                    self._write_place()
                    self._write_results()
            out.line("unit += count")

    def _write_place(self) -> None:
        """Locate tile number ``tile``: its image, and its first output ``y``, ``x``."""
        out, (high, wide), (rows, columns) = self.out, self.nest.tile, self.nest.counts
        out.line(f"image = tile // {rows * columns}")
        out.line(f"y = {times(f'(tile // {columns} % {rows})', high)}")
        out.line(f"x = {times(f'(tile % {columns})', wide)}")

    def _write_source(self) -> None:
        """Find the input of a tile: in place, or copied to scratch where zeros surround it."""
        out, shape, nest = self.out, self.shape, self.nest
        (height, width), (high, wide), channels = shape.input, nest.sizes, shape.channels
        self._write_corner()
        inside = f"0 <= top <= {height - high} and 0 <= left <= {width - wide}"
        with out.block(f"if {inside}:"):
            start = times(f"((image * {height} + top) * {width} + left)", channels)
            out.line(f"source = at(input, {start})\nrow_step = {width * channels}")
        with out.block("else:"):
            out.line(f"source = patch\nrow_step = {wide * channels}")
            self._write_patch()

    def _write_corner(self) -> None:
        """Find the first pixel of the input of a tile; it may lie outside the image."""
        top, left = (plus(name, -pad) for name, pad in zip("yx", self.shape.begins, strict=True))
        self.out.line(f"top = {top}\nleft = {left}")

    def _write_patch(self) -> None:
        """Copy the input of a tile to scratch."""
        sizes = (*self.shape.input, self.shape.channels, *self.nest.sizes)
        self.out.line(f"copy_patch(patch, input, image, top, left, {', '.join(map(str, sizes))})")

    def _write_factors(self) -> None:
        """Transform the input of one tile: first along its rows, then along its columns."""
        lanes, (whole, rest) = self.plan.lanes, divmod(self.shape.channels, self.plan.lanes)
        self.out.line(f"to = (tile - begin) * {self.scratch.rows}")
        if whole:
            with self.out.block(f"for c in range(0, {whole * lanes}, {lanes}):"):
                self._write_factor("c", None)
        if rest:
            self._write_factor(str(whole * lanes), rest)

    def _write_factor(self, channel: str, count: int | None) -> None:
        out, lanes, channels = self.out, self.plan.lanes, self.shape.channels
        (high, wide), (tile_high, tile_wide) = self.nest.sizes, self.nest.tile
        kernel_high, kernel_wide = self.shape.kernel
        with out.block(f"for i in range({high}):"):
            start = f"i * row_step + {channel}"
            row = f"tile_load(source, {start}, {channels}, {wide}, 1, {lanes})"
            if count:
                row = f"tile_load_masked(source, {start}, {channels}, {wide}, {lanes}, {count})"
            row = f"tile_winograd_input({row}, {tile_wide}, {kernel_wide})"
            out.line(f"tile_store(line, i * {wide * lanes}, {lanes}, {row})")
        with out.block(f"for j in range({wide}):"):
            column = f"tile_load(line, j * {lanes}, {wide * lanes}, {high}, 1, {lanes})"
            column = f"tile_winograd_input({column}, {tile_high}, {kernel_high})"
            place = plus("to", f"j * {self.scratch.plane}", channel)
            out.line(f"tile_store(factors, {place}, {wide * self.scratch.plane}, {column})")

    def _write_products(self) -> None:
        """Multiply the factors of the block by those of one panel, for one element of a tile.

        Meanwhile the weights of the next element or panel are brought into the cache.
        """
        out, columns, shape = self.out, self.plan.columns, self.shape
        size = shape.channels_per_group * self.nest.block
        out.line(f"weights = (panel * {self.nest.elements} + element) * {size}")
        out.line(f"next_weights = weights + {size}")
        source = f"element * {self.scratch.plane}"
        if shape.group > 1:
            source += f" + panel // {columns.panels} * {shape.channels_per_group}"
        out.line(f"origin = {source}")
        out.line(f"place = element * {self.scratch.sums_plane}")
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
        out, cut, inner = self.out, self.plan.cut, self.shape.channels_per_group
        units = self.plan.block_units  # a single one is as fast as memory in any case
        pace = -(-self.nest.block // units) if units > 1 else 0
        chain = self._chain()
        for number, (first, last, rows) in enumerate(cut.runs):
            name = f"{tag}{number}"
            skipped = first * (cut.rows - rows)
            with out.block(
                f"for u_{name} in range(max(unit, {first}), min(unit + count, {last})):"
            ):
                out.line(f"row_{name} = {plus(times(f'u_{name}', rows), skipped)} - begin")
                out.line(f"t_{name} = tile_fill(filter, 0, {rows}, {vectors}, {self.plan.lanes})")
                x = f"origin + row_{name} * {self.scratch.rows}"
                out.line(
                    f"t_{name} = tile_dot(t_{name}, factors, {x}, {self.scratch.rows}, filter, "
                    f"weights, {self.nest.block}, {inner}, 0, {chain}, "
                    f"next_weights + (u_{name} - unit) * {inner * pace}, {pace})"
                )
                to = f"place + row_{name} * {self.nest.block}"
                out.line(f"tile_store(sums, {to}, {self.nest.block}, t_{name})")

    def _chain(self) -> int:
        """Return how many products are summed up one after the other, 0 for all of them."""
        inner = self.shape.channels_per_group
        chain = -(-inner // -(-inner // LONGEST_CHAIN))
        return chain if chain < inner else 0

    def _write_channel(self) -> None:
        """Find the first output channel of the panel, and how many whole vectors it has."""
        out, columns, block = self.out, self.plan.columns, self.nest.block
        number, first = "panel", "0"
        if self.shape.group > 1:
            number = f"panel % {columns.panels}"
            first = f"panel // {columns.panels} * {columns.depth}"
        out.line(f"channel = {plus(first, f'{number} * {block}')}")
        out.line(f"size = min({columns.depth} - {number} * {block}, {block})")

    def _write_results(self) -> None:
        """Transform the products of one tile and panel back, and store its outputs."""
        out, columns, lanes = self.out, self.plan.columns, self.plan.lanes
        rest = columns.tail % lanes
        with out.block(f"for c in range(0, size, {lanes}):"):
            self._write_columns()
            if self.nest.guarded:
                self._write_guarded_rows()
                with out.block("if not tile_is_finite(guard):"):
                    self._write_outputs_directly()
            out.line(f"offsets = load(bias, panel * {self.nest.block} + c, {lanes})")
            if not rest:
                self._write_rows("a", lanes)
                return
            with out.block(f"if c + {lanes} <= size:"):
                self._write_rows("a", lanes)
            with out.block("else:"):
                self._write_rows("b", rest)

    def _write_columns(self) -> None:
        """Transform the columns of one vector of channels back."""
        out, lanes, scratch = self.out, self.plan.lanes, self.scratch
        (high, wide), (tile_high, _) = self.nest.sizes, self.nest.tile
        kernel_high = self.shape.kernel[0]
        out.line(f"start = (tile - begin) * {self.nest.block} + c")
        with out.block(f"for j in range({wide}):"):
            rows = f"start + j * {scratch.sums_plane}"
            load = f"tile_load(sums, {rows}, {wide * scratch.sums_plane}, {high}, 1, {lanes})"
            made = f"tile_winograd_output({load}, {tile_high}, {kernel_high}, {tile_high})"
            out.line(f"tile_store(line, j * {lanes}, {wide * lanes}, {made})")

    def _write_guarded_rows(self) -> None:
        """Transform the rows too, and find out whether all outputs are finite."""
        out, lanes, wide = self.out, self.plan.lanes, self.nest.sizes[1]
        (tile_high, tile_wide), kernel_wide = self.nest.tile, self.shape.kernel[1]
        out.line(f"guard = tile_fill(filter, 0, {tile_wide}, 1, {lanes})")
        with out.block(f"for i in range({tile_high}):"):
            load = f"tile_load(line, i * {wide * lanes}, {lanes}, {wide}, 1, {lanes})"
            out.line(f"t = tile_winograd_output({load}, {tile_wide}, {kernel_wide}, {tile_wide})")
            out.line(f"guard = fma(t, splat_{self.nest.kind.value}(0.0, {lanes}), guard)")
            out.line(f"tile_store(line, i * {wide * lanes}, {lanes}, t)")

    def _write_outputs_directly(self) -> None:
        """Sum up the outputs of one vector of channels, to where the transform leaves them.

        The transforms mix all inputs of a tile. So one that is NaN or infinite also spoils outputs
        whose own windows do not hold it, and what is large may overflow before it cancels out. An
        output that is finite has nothing of that in it.
        """
        out, shape, lanes, inner = (
            self.out,
            self.shape,
            self.plan.lanes,
            self.shape.channels_per_group,
        )
        (high, wide), (tile_high, tile_wide), block = (
            self.nest.sizes,
            self.nest.tile,
            self.nest.block,
        )
        kernel_wide, size = shape.kernel[1], inner * block
        with out.block("if get(taps_of, 0) != panel:"):
            sizes = ", ".join(map(str, (size, *self.nest.tile, *shape.kernel, lanes)))
            out.line(f"winograd_taps(taps, filter, panel * {high * wide * size}, {sizes})")
            out.line("put(taps_of, 0, panel)")
        self._write_corner()
        self._write_patch()
        with out.block(f"for i in range({tile_high}):"):
            out.line(f"t = tile_fill(taps, 0, {tile_wide}, 1, {lanes})")
            with out.block(f"for tap in range({prod(shape.kernel)}):"):
                pixel = f"((i + tap // {kernel_wide}) * {wide} + tap % {kernel_wide})"
                group = times(f"(panel // {self.plan.columns.panels})", inner)
                x = plus(times(pixel, shape.channels), group if shape.group > 1 else "0")
                out.line(
                    f"t = tile_dot(t, patch, {x}, {shape.channels}, taps, tap * {size} + c, "
                    f"{block}, {inner}, 0, {self._chain()}, 0, 0)"
                )
            out.line(f"tile_store(line, i * {wide * lanes}, {lanes}, t)")

    def _write_rows(self, tag: str, count: int) -> None:
        """Store the outputs that are in the image."""
        out, (height, width), (tile_high, tile_wide) = self.out, self.shape.output, self.nest.tile
        with out.block(f"for i in range(min({height} - y, {tile_high})):"):
            pixel = f"((image * {height} + y + i) * {width} + x)"
            out.line(f"index = {plus(times(pixel, self.nest.pixel_stride), 'channel', 'c')}")
            edge = width % tile_wide
            if not edge:
                self._write_store(f"{tag}0", count, tile_wide)
            elif width > tile_wide:
                with out.block(f"if x < {width - edge}:"):
                    self._write_store(f"{tag}0", count, tile_wide)
                with out.block("else:"):
                    self._write_store(f"{tag}1", count, edge)
            else:
                self._write_store(f"{tag}0", count, edge)

    def _write_store(self, tag: str, count: int, pixels: int) -> None:
        """Finish one line of outputs, transformed back if that was not done yet, and store it."""
        out, lanes, wide = self.out, self.plan.lanes, self.nest.sizes[1]
        loaded = pixels if self.nest.guarded else wide
        made = f"tile_load(line, i * {wide * lanes}, {lanes}, {loaded}, 1, {lanes})"
        if not self.nest.guarded:
            taps = self.shape.kernel[1]
            made = f"tile_winograd_output({made}, {self.nest.tile[1]}, {taps}, {pixels})"
        out.line(f"t_{tag} = add({made}, offsets)")
        write_tile_store(
            out,
            f"t_{tag}",
            pixels,
            columns=count,
            lanes=lanes,
            index="index",
            channel="channel + c",
            stride=self.nest.pixel_stride,
            epilogue=self.epilogue,
        )


@kernel_for(WinogradConvolutionInst)
def winograd_convolution_source(
    instruction: WinogradConvolutionInst,
    target: Target,
    epilogue: Epilogue | None = None,
    dest: Buffer | None = None,
) -> KernelSource:
    """Return the kernel of an instruction whose stack ends in *epilogue* and writes *dest*."""
    dest = dest or instruction.dest
    shape = ConvolutionShape.of(
        instruction.input.type.shape,
        instruction.depth,
        instruction.kernel,
        instruction.pads,
        group=instruction.group,
    )
    nest = WinogradNest(
        shape,
        instruction.tile,
        instruction.input.type.kind,
        instruction.block,
        None if dest.is_contiguous else pixel_stride(dest),
        instruction.guarded,
    )
    return generate_winograd(nest, target, epilogue)
