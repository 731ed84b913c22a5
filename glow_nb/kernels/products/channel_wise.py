"""Kernels of channel-wise convolutions of integers, in groups of neighbouring factors.

The lines of the input that an output line reads are copied to scratch first, in the order in which
they are multiplied (:mod:`glow_nb.kernels.operators.tap_groups`), and between what counts as
outside. They stay there for the next output lines: a line has its place in a ring, and is copied
once. So a tile, which is some neighbouring pixels by one or two vectors of channels, is the same
everywhere in the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glow_nb.errors import UnsupportedError
from glow_nb.kernels.operators.channel_wise import ChannelWiseConvolutionInst, tap_groups
from glow_nb.kernels.operators.tap_groups import WIDEST, TapGroups
from glow_nb.kernels.products.blocking import registers_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.dot_form import dot_form
from glow_nb.kernels.products.product_nest import ProductKinds
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.registry import head_kernel_for
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.shares import write_shares
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.traits import KernelTraits
from glow_nb.types import ElementKind

LINE_BYTES = 64
"""Bytes of a line of the cache, of which at least one is copied of a pixel, if it has so many."""


@head_kernel_for(
    ChannelWiseConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
)
def channel_wise_source(
    instruction: ChannelWiseConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias)`` of a convolution and its epilogue.

    Raises:
        UnsupportedError: There are no kernels for such elements, or groups, or so many dimensions.
    """
    writer = ChannelWiseWriter(instruction, target, fusion.named_by_field())
    left = instruction.input.type.kind
    if not suits_steps(writer.shape, left, instruction.factors, target):
        raise UnsupportedError(
            f"{writer.shape.description(left)}: no kernel in groups of {instruction.factors} "
            "factors; take a depthwise_convolution or a grouped_convolution"
        )
    return writer.source()


def suits_steps(shape: ConvolutionShape, left: ElementKind, factors: int, target: Target) -> bool:
    """Return whether a convolution of *left* elements has a kernel in groups of *factors*.

    Its channels are convolved by themselves, or in groups of which whole ones are copied at once;
    if a channel has several results, these are copied at once.
    """
    size, results = shape.channels_per_group, shape.depth_per_group
    copied = copied_at_once(factors * left.size_bytes, target)
    fits = size == 1 or size == results
    groups = tap_groups(shape.kernel, shape.stride, shape.dilation, size, factors)
    return fits and copied % results == 0 and shape.rank <= len("yx") and groups is not None


def copied_at_once(group_bytes: int, target: Target) -> int:
    """Return the channels whose groups of so many bytes fill a register."""
    return max(1, 4 * min(target.lanes, target.native_lanes) // group_bytes)


@dataclass(frozen=True)
class ChannelWiseWriter:
    """Writes one kernel.

    Attributes:
        instruction: The convolution.
        target: The processor.
        fusion: The pointers and the epilogue.
    """

    instruction: ChannelWiseConvolutionInst
    target: Target
    fusion: Fusion

    @cached_property
    def shape(self) -> ConvolutionShape:
        """The convolution over lines of pixels; of one line, the outer dimension has one."""
        node = self.instruction
        shape = ConvolutionShape.of(
            node.input.type.shape,
            node.bias.type.size,
            node.kernel,
            node.pads,
            stride=node.stride,
            dilation=node.dilation,
            group=node.input.type.shape[-1] // node.size,
        )
        return shape if shape.rank > 1 else shape.as_lines()

    @cached_property
    def kinds(self) -> ProductKinds:
        """The kinds of the operands, and how they are multiplied."""
        node = self.instruction
        kinds = (node.input.type.kind, node.filter.type.kind)
        return ProductKinds.of(*kinds, dot_form(*kinds, node.factors, self.target))

    @cached_property
    def groups(self) -> TapGroups:
        """The groups of a line of taps."""
        node = self.instruction
        found = tap_groups(node.kernel, node.stride, node.dilation, node.size, node.factors)
        assert found is not None, "the operator was verified"
        return found

    @property
    def lanes(self) -> int:
        """Channels of a vector of sums."""
        return self.target.lanes

    @cached_property
    def vectors(self) -> int:
        """Vectors of a tile."""
        return 2 if self.shape.depth > self.lanes else 1

    @cached_property
    def rows(self) -> int:
        """Pixels of a tile: whole phases, and as many sums as half of the registers hold."""
        registers = registers_of(self.target, self.kinds.form)
        limit = max(registers // 2 // self.vectors, 4)
        width, phases = self.shape.output[-1], self.groups.phases
        tiles = -(-width // limit)
        rows = -(-width // max(1, tiles))
        return -(-rows // phases) * phases

    @property
    def copied(self) -> int:
        """Channels that are copied at once."""
        return copied_at_once(self.group_bytes, self.target)

    @property
    def group_bytes(self) -> int:
        """Bytes of a group of factors."""
        return self.groups.factors * self.kinds.left.size_bytes

    @cached_property
    def ring(self) -> int:
        """Lines in scratch, a power of two."""
        return 1 << (self.shape.reach[0] - 1).bit_length()

    @cached_property
    def steps(self) -> int:
        """Steps of a line."""
        tiles = -(-self.shape.output[-1] // self.rows)
        return self.groups.steps(tiles * self.rows)

    @cached_property
    def chunk(self) -> int:
        """Channels whose lines are in scratch together: as many as fit half of L1.

        At least those are that lie in one line of the cache.
        """
        depth, whole = self.shape.depth, max(self.vectors * self.lanes, self.copied)
        one = self.ring * self.steps * self.groups.parts * self.group_bytes
        fitting = self.target.l1_bytes // 2 // max(1, one)
        wanted = max(fitting, LINE_BYTES // self.kinds.left.size_bytes)
        return -(-min(wanted, depth) // whole) * whole

    @property
    def step_elements(self) -> int:
        """Elements of scratch from step to step."""
        return self.groups.parts * self.part_elements

    @property
    def part_elements(self) -> int:
        """Elements of scratch from part to part of a step."""
        return self.chunk * self.groups.factors

    @property
    def line_elements(self) -> int:
        """Elements of scratch from line to line."""
        return self.steps * self.step_elements

    def source(self) -> KernelSource:
        """Return the kernel."""
        shape, out = self.shape, SourceWriter()
        lines, chunks = shape.batch * shape.output[0], -(-shape.depth // self.chunk)
        out.line(f"# channel-wise {shape.description(self.kinds.left)}\n# {self.rows} pixels x "
                 f"{self.vectors} vectors of {self.lanes}, {self.ring} lines of {self.steps} "
                 f"steps of {self.chunk} channels")  # fmt: skip
        is_empty = min(shape.batch, shape.depth, *shape.output) == 0
        with out.block(self.fusion.header):
            if is_empty:
                out.line("return")
            else:
                self._write_lines(out, lines, chunks)
        scratch = 0 if is_empty else self.ring * self.line_elements
        scratch_bytes = scratch * self.kinds.left.size_bytes
        return KernelSource("channel_wise", out.text, self.fusion.kinds, scratch_bytes)

    def _write_lines(self, out: SourceWriter, lines: int, chunks: int) -> None:
        """Write the loops over chunks of channels and output lines, for the share of a thread."""
        shape = self.shape
        write_shares(out, lines, chunks, panels_first=False)
        out.line(f"rows = as_{self.kinds.left.value}(scratch)")
        with out.block("for panel in range(panel_begin, panel_end):"):
            out.line(f"base = {times('panel', self.chunk)}")
            out.line(f"count = min({self.chunk}, {shape.depth} - base)")
            out.line(f"whole = count // {self.copied} * {self.copied}")
            out.line("ready = 0")
            with out.block("for line in range(unit, unit_end):"):
                out.line(f"image = line // {shape.output[0]}")
                out.line(f"top = {times(f'(line % {shape.output[0]})', shape.stride[0])}")
                with out.block("if line == unit or top == 0:"):
                    out.line("ready = top")
                with out.block(f"for y in range(max(ready, top), top + {shape.reach[0]}):"):
                    self._write_copy(out)
                out.line(f"ready = top + {shape.reach[0]}")
                self._write_tiles(out)

    def _write_copy(self, out: SourceWriter) -> None:
        """Copy line ``y``, counted from the first one outside, to its place in the ring."""
        shape, groups = self.shape, self.groups
        step, width = elements_between_pixels(self.fusion.input), shape.input[1]
        seen = groups.factors if self.instruction.size == 1 else 1
        out.line(f"to = {self._place('y')}\nsource = {plus('y', -shape.begins[0])}")
        with out.block(f"if 0 <= source < {shape.input[0]}:"):
            line = f"(image * {shape.input[0]} + source)"
            out.line(f"first = {times(line, width * step)} + base // {self._multiplier}")
            with out.block(f"for j in range({self.steps}):"):
                out.line(f"x = {plus(times('j', groups.pixels), -shape.begins[1])}")
                with out.block(f"if 0 <= x < {width - seen + 1}:"):
                    self._write_channels(out, seen, step, is_inside=True)
                with out.block("else:"):
                    self._write_channels(out, seen, step, is_inside=False)
                out.line(f"to += {self.step_elements}")
        with out.block("else:"):
            out.line(f"fill(rows, to, {self.instruction.outside}, {self.line_elements})")

    @property
    def _multiplier(self) -> int:
        return self.shape.depth_per_group if self.instruction.size == 1 else 1

    def _place(self, line: str) -> str:
        return times(f"({line} & {self.ring - 1})", self.line_elements)

    def _write_channels(self, out: SourceWriter, seen: int, step: int, *, is_inside: bool) -> None:
        """Copy the channels of step ``j``, which begins with pixel ``x``."""
        lanes, tail = self.copied, self.shape.depth % self.copied
        with out.block(f"for c in range(0, whole, {lanes}):"):
            self._write_groups(out, seen, step, is_inside, None)
        if tail:
            with out.block("if whole < count:"):
                out.line("c = whole")
                self._write_groups(out, seen, step, is_inside, tail)

    def _write_groups(
        self, out: SourceWriter, seen: int, step: int, is_inside: bool, tail: int | None
    ) -> None:
        """Copy the groups of some channels from ``c`` on, or of the last *tail* ones."""
        read = self.copied // self._multiplier
        for number in range(seen):
            place = f"first + ({plus('x', number)}) * {step} + c // {self._multiplier}"
            load = f"load(input, {place}, {read})"
            if tail is not None:
                load = f"load_masked(input, {place}, {read}, {-(-tail // self._multiplier)})"
            if is_inside:
                out.line(f"v{number} = {load}")
                continue
            with out.block(f"if 0 <= {plus('x', number)} < {self.shape.input[1]}:"):
                out.line(f"v{number} = {load}")
            with out.block("else:"):
                kind = self.kinds.left.value
                out.line(f"v{number} = splat_{kind}({self.instruction.outside}, {read})")
        for part, vector in enumerate(self._parts([f"v{n}" for n in range(seen)])):
            place = plus("to", part * self.part_elements, times("c", self.groups.factors))
            out.line(f"store(rows, {place}, {vector})")

    def _parts(self, pixels: list[str]) -> list[str]:
        """Return the vectors of groups of a step, made of those of its *pixels*."""
        size, factors = self.instruction.size, self.groups.factors
        if size > 1:
            parts = range(self.groups.parts)
            return [f"spread({pixels[0]}, {size}, {factors}, {part})" for part in parts]
        for _ in range(self._multiplier.bit_length() - 1):
            pixels = [f"interleave({pixel}, {pixel})" for pixel in pixels]
        while len(pixels) > 1:
            half = len(pixels) // 2
            pairs = zip(pixels[:half], pixels[half:], strict=True)
            pixels = [f"interleave({a}, {b})" for a, b in pairs]
        return pixels

    def _write_tiles(self, out: SourceWriter) -> None:
        """Compute the tiles of one line; the last one may have fewer pixels."""
        whole, rest = divmod(self.shape.output[1], self.rows)
        if whole:
            with out.block(f"for tile in range({whole}):"):
                out.line(f"at = {times('tile', self.rows)}")
                self._write_blocks(out, "a", self.rows)
        if rest:
            out.line(f"at = {whole * self.rows}")
            self._write_blocks(out, "b", rest)

    def _write_blocks(self, out: SourceWriter, name: str, rows: int) -> None:
        """Run over the channels of the tile of *rows* pixels from ``at`` on."""
        block, tail = self.vectors * self.lanes, self.shape.depth % (self.vectors * self.lanes)
        with out.block(f"for c in range(0, count // {block} * {block}, {block}):"):
            self._write_tile(out, f"{name}0", rows, block)
        if tail:
            with out.block(f"if count % {block}:"):
                out.line(f"c = count // {block} * {block}")
                self._write_tile(out, f"{name}1", rows, tail)

    def _write_tile(self, out: SourceWriter, name: str, rows: int, columns: int) -> None:
        """Compute one tile of *columns* channels from ``c`` of the chunk on."""
        shape, groups, factors = self.shape, self.groups, self.groups.factors
        size = f"{rows}, {-(-columns // self.lanes)}, {self.lanes}"
        out.line(f"channel_{name} = base + c")
        suffix, mask = ("_masked", f", {columns}") if columns % self.lanes else ("", "")
        out.line(f"t_{name} = tile_bias{suffix}(bias, channel_{name}, {size}{mask})")
        width = -(-shape.depth // WIDEST) * WIDEST * factors
        units = times(f"(at // {groups.phases})", groups.advance * self.step_elements)
        with out.block(f"for k in range({shape.kernel[0]}):"):
            place = self._place(f"(top + {times('k', shape.dilation[0])})")
            out.line(f"x_{name} = {plus(place, units, times('c', factors))}")
            weights = times("k", len(groups.entries) * width)
            out.line(f"w_{name} = {plus(weights, times(f'channel_{name}', factors))}")
            for number, entry in enumerate(groups.entries):
                shift = entry.step * self.step_elements + entry.part * self.part_elements
                out.line(
                    f"t_{name} = {self._function}(t_{name}, rows, {plus(f'x_{name}', shift)}, "
                    f"{groups.advance * self.step_elements}, {entry.phase}, {groups.phases}, "
                    f"filter, {plus(f'w_{name}', number * width)})"
                )
        TileStore(self.fusion, self.lanes).write(
            out,
            f"t_{name}",
            rows,
            columns=columns,
            pixel=f"({plus(times('line', shape.output[1]), 'at')})",
            channel=f"channel_{name}",
        )

    @property
    def _function(self) -> str:
        return self.kinds.form.name.replace("dot", "taps")
