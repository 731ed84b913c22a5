"""Kernels of channel-wise convolutions of integers, in groups of neighbouring factors.

The lines of the input that an output line reads are copied to scratch first, in the order in which
they are multiplied (:mod:`glow_nb.kernels.operators.tap_groups`), and between what counts as
outside. They stay there for the next output lines: a line has its place in a ring, and is copied
once. So a tile, which is some neighbouring pixels by one or two vectors of channels, is the same
everywhere in the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.plan import Plan
from glow_nb.base.size import Size, surely
from glow_nb.kernels.operators.channel_wise import ChannelWiseConvolutionInst
from glow_nb.kernels.operators.tap_groups import WIDEST
from glow_nb.kernels.products.channel_wise_plan import (
    CHANNEL_WISE,
    ChannelWisePlan,
    plan_channel_wise,
    shape_of,
    suits_steps,
)
from glow_nb.kernels.products.register_tiles import TileStore
from glow_nb.kernels.registry import head_kernel_for, plan_of
from glow_nb.kernels.stacks.fusion import Fusion
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.traits import KernelTraits


def plan_source(
    instruction: ChannelWiseConvolutionInst,
    target: Target,
    fusion: Fusion,
) -> Plan:
    """Plan a channel-wise convolution.

    Raises:
        UnsupportedError: There are no kernels for such elements, or groups, or this number of
            dimensions.
    """
    shape, left = shape_of(instruction), instruction.input.type.kind
    factors = dot_named_by(instruction.plan).group
    if not suits_steps(shape, left, factors, target):
        raise UnsupportedError(
            f"{shape.description(left)}: no kernel in groups of {factors} factors; "
            "take a depthwise_convolution or a grouped_convolution"
        )
    return plan_channel_wise(instruction, target)


@head_kernel_for(
    ChannelWiseConvolutionInst,
    traits=KernelTraits(fuses_epilogue=True, stores_once=True, strided=("dest", "input")),
    planner=plan_source,
)
def channel_wise_source(
    instruction: ChannelWiseConvolutionInst, target: Target, fusion: Fusion
) -> KernelSource:
    """Return the kernel ``(dest, input, filter, bias)`` of a convolution and its epilogue."""
    loops = ChannelWisePlan.of(instruction, plan_of(instruction, CHANNEL_WISE), target)
    return ChannelWiseWriter(instruction, loops, fusion.named_by_field()).source()


@dataclass(frozen=True)
class ChannelWiseWriter:
    """Writes one kernel.

    Attributes:
        instruction: The convolution.
        plan: The loops of the convolution.
        fusion: The pointers and the epilogue.
    """

    instruction: ChannelWiseConvolutionInst
    plan: ChannelWisePlan
    fusion: Fusion

    def source(self) -> KernelSource:
        """Return the kernel."""
        plan, shape, out = self.plan, self.plan.shape, SourceWriter()
        lines, chunks = shape.batch * shape.output[0], -(-shape.depth // plan.chunk)
        out.line(f"# channel-wise {shape.description(plan.kinds.left)}\n# {plan.rows} pixels x "
                 f"{plan.vectors} vectors of {plan.lanes}, {plan.ring} lines of {plan.steps} "
                 f"steps of {plan.chunk} channels")  # fmt: skip
        is_empty = surely(shape.batch * shape.depth * prod(shape.output), "==", 0)
        with out.block(self.fusion.header):
            if is_empty:
                out.line("return")
            else:
                self._write_lines(out, lines, chunks)
        scratch = 0 if is_empty else plan.ring * plan.line_elements
        scratch_bytes = scratch * plan.kinds.left.size_bytes
        return KernelSource("channel_wise", out.text, self.fusion.kinds, scratch_bytes)

    def _write_lines(self, out: SourceWriter, lines: int, chunks: int) -> None:
        """Write the loops over chunks of channels and output lines, for the share of a thread."""
        shape = self.plan.shape
        write_shares(out, lines, chunks, panels_first=False)
        out.line(f"rows = as_{self.plan.kinds.left.value}(scratch)")
        with out.block("for panel in range(panel_begin, panel_end):"):
            out.line(f"base = {times('panel', self.plan.chunk)}")
            out.line(f"count = min({self.plan.chunk}, {shape.depth} - base)")
            out.line(f"whole = count // {self.plan.copied} * {self.plan.copied}")
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
        shape, groups = self.plan.shape, self.plan.groups
        step, width = elements_between_pixels(self.fusion.input), shape.input[1]
        out.line(f"to = {self._place('y')}\nsource = {plus('y', -shape.begins[0])}")
        with out.block(f"if 0 <= source < {shape.input[0]}:"):
            line = f"(image * {shape.input[0]} + source)"
            out.line(f"first = {times(line, width * step)} + base // {self.plan.multiplier}")
            with out.block(f"for j in range({self.plan.steps}):"):
                out.line(f"x = {plus(times('j', groups.pixels), -shape.begins[1])}")
                with out.block(f"if 0 <= x < {width - self.plan.seen + 1}:"):
                    self._write_channels(out, self.plan.seen, step, is_inside=True)
                with out.block("else:"):
                    self._write_channels(out, self.plan.seen, step, is_inside=False)
                out.line(f"to += {self.plan.step_elements}")
        with out.block("else:"):
            out.line(f"fill(rows, to, {self.instruction.pad_value}, {self.plan.line_elements})")

    def _place(self, line: str) -> str:
        return times(f"({line} & {self.plan.ring - 1})", self.plan.line_elements)

    def _write_channels(self, out: SourceWriter, seen: int, step: int, *, is_inside: bool) -> None:
        """Copy the channels of step ``j``, which begins with pixel ``x``."""
        lanes, tail = self.plan.copied, self.plan.shape.depth % self.plan.copied
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
        read = self.plan.copied // self.plan.multiplier
        for number in range(seen):
            place = f"first + ({plus('x', number)}) * {step} + c // {self.plan.multiplier}"
            load = f"load(input, {place}, {read})"
            if tail is not None:
                load = f"load_masked(input, {place}, {read}, {-(-tail // self.plan.multiplier)})"
            if is_inside:
                out.line(f"v{number} = {load}")
                continue
            with out.block(f"if 0 <= {plus('x', number)} < {self.plan.shape.input[1]}:"):
                out.line(f"v{number} = {load}")
            with out.block("else:"):
                kind = self.plan.kinds.left.value
                out.line(f"v{number} = splat_{kind}({self.instruction.pad_value}, {read})")
        for part, vector in enumerate(self._parts([f"v{n}" for n in range(seen)])):
            place = plus("to", part * self.plan.part_elements, times("c", self.plan.groups.factors))
            out.line(f"store(rows, {place}, {vector})")

    def _parts(self, pixels: list[str]) -> list[str]:
        """Return the vectors of groups of a step, made of those of its *pixels*."""
        size, factors = self.instruction.size, self.plan.groups.factors
        if size > 1:
            parts = range(self.plan.groups.parts)
            return [f"spread({pixels[0]}, {size}, {factors}, {part})" for part in parts]
        for _ in range(self.plan.multiplier.bit_length() - 1):
            pixels = [f"interleave({pixel}, {pixel})" for pixel in pixels]
        while len(pixels) > 1:
            half = len(pixels) // 2
            pairs = zip(pixels[:half], pixels[half:], strict=True)
            pixels = [f"interleave({a}, {b})" for a, b in pairs]
        return pixels

    def _write_tiles(self, out: SourceWriter) -> None:
        """Compute the tiles of one line; the last one may have fewer pixels."""
        rows, width = self.plan.rows, self.plan.shape.output[1]
        whole, rest = width // rows, width % rows
        if whole != 0:
            with out.block(f"for tile in range({whole}):"):
                out.line(f"at = {times('tile', rows)}")
                self._write_blocks(out, "a", rows)
        if isinstance(rest, Size):
            out.line(f"at = {whole * rows}\nrest = {rest}")
            for number in range(1, rows):
                with out.block(f"if rest == {number}:"):
                    self._write_blocks(out, f"r{number}", number)
        elif rest:
            out.line(f"at = {whole * rows}")
            self._write_blocks(out, "b", rest)

    def _write_blocks(self, out: SourceWriter, name: str, rows: int) -> None:
        """Run over the channels of the tile of *rows* pixels from ``at`` on."""
        block = self.plan.vectors * self.plan.lanes
        tail = self.plan.shape.depth % block
        with out.block(f"for c in range(0, count // {block} * {block}, {block}):"):
            self._write_tile(out, f"{name}0", rows, block)
        if tail:
            with out.block(f"if count % {block}:"):
                out.line(f"c = count // {block} * {block}")
                self._write_tile(out, f"{name}1", rows, tail)

    def _write_tile(self, out: SourceWriter, name: str, rows: int, columns: int) -> None:
        """Compute one tile of *columns* channels from ``c`` of the chunk on."""
        shape, groups, factors = self.plan.shape, self.plan.groups, self.plan.groups.factors
        size = f"{rows}, {-(-columns // self.plan.lanes)}, {self.plan.lanes}"
        out.line(f"channel_{name} = base + c")
        suffix, mask = ("_masked", f", {columns}") if columns % self.plan.lanes else ("", "")
        out.line(f"t_{name} = tile_bias{suffix}(bias, channel_{name}, {size}{mask})")
        width = -(-shape.depth // WIDEST) * WIDEST * factors
        units = times(f"(at // {groups.phases})", groups.advance * self.plan.step_elements)
        with out.block(f"for k in range({shape.kernel[0]}):"):
            place = self._place(f"(top + {times('k', shape.dilation[0])})")
            out.line(f"x_{name} = {plus(place, units, times('c', factors))}")
            weights = times("k", len(groups.rows) * width)
            out.line(f"w_{name} = {plus(weights, times(f'channel_{name}', factors))}")
            for entry in groups.entries:
                shift = entry.step * self.plan.step_elements + entry.part * self.plan.part_elements
                out.line(
                    f"t_{name} = {self._function}(t_{name}, rows, {plus(f'x_{name}', shift)}, "
                    f"{groups.advance * self.plan.step_elements}, {entry.phase}, {groups.phases}, "
                    f"filter, {plus(f'w_{name}', entry.row * width)}, {entry.shift})"
                )
        TileStore(self.fusion, self.plan.lanes).write(
            out,
            f"t_{name}",
            rows,
            columns=columns,
            pixel=f"({plus(times('line', shape.output[1]), 'at')})",
            channel=f"channel_{name}",
        )

    @property
    def _function(self) -> str:
        return self.plan.kinds.dot.taps
