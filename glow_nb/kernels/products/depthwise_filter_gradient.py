"""Kernels of the gradients of depthwise filters: channels lie in the lanes.

For each line of taps, a sum of each tap and channel is kept in registers over a chunk of pixels.
Where a tap lies in padding, at the ends of a line, the others are summed up by themselves.
"""

from __future__ import annotations

from contextlib import nullcontext

from glow_nb.base.map_sizes import at_hints
from glow_nb.base.size import surely
from glow_nb.kernels.operators.filter_gradient import DepthwiseFilterGradientInst
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.caches import LONGEST_CHAIN
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.filter_gradient_chunks import ChunkWriter
from glow_nb.kernels.products.filter_gradient_plan import FilterGradientNest, chunk_of
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.loops import write_shares
from glow_nb.kernels.writing.pixels import elements_between_pixels
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.llir.traits import KernelTraits

SUMS, MOST_VECTORS = 12, 4
"""Vectors of sums that keep the multipliers busy, and vectors of channels at a time at most."""


@kernel_for(DepthwiseFilterGradientInst, traits=KernelTraits(strided=("input", "gradient")))
def depthwise_filter_gradient_source(
    instruction: DepthwiseFilterGradientInst, target: Target
) -> KernelSource:
    """Return the kernel ``(dest, input, gradient)`` of the gradient of a depthwise filter.

    Raises:
        UnsupportedError: The pixels of an operand do not lie at equal distances.
    """
    kind, channels = instruction.dest.type.kind, instruction.dest.type.shape[-1]
    shape = ConvolutionShape.of(
        instruction.input.type.shape,
        channels,
        instruction.kernel,
        instruction.pads,
        stride=instruction.stride,
        dilation=instruction.dilation,
        group=max(1, channels),
    )
    nest = FilterGradientNest.of(shape, instruction.parts, kind, target)
    pixels = {
        name: elements_between_pixels(getattr(instruction, name)) for name in ("input", "gradient")
    }
    writer = DepthwiseGradientWriter(nest, pixels, target)
    text = writer.write(f"gradient of the filter of a depthwise {shape.description(kind)}")
    return KernelSource("depthwise_filter_gradient", text, (kind,) * 3)


class DepthwiseGradientWriter:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    def __init__(self, nest: FilterGradientNest, pixels: dict[str, int], target: Target) -> None:
        self.nest, self.pixels = nest, pixels
        self.lanes = lanes_of(nest.kind, target)
        self.channels, self.taps = nest.group, nest.axes[-1].taps
        vectors = min(MOST_VECTORS, SUMS // self.taps, -(-self.channels // self.lanes))
        self.block = max(1, vectors) * self.lanes
        self.out = SourceWriter()
        self.chunks = ChunkWriter(self.out, nest.axes, *chunk_of(at_hints(nest), LONGEST_CHAIN))

    def write(self, title: str) -> str:
        """Return the whole text."""
        out, nest, panels = self.out, self.nest, -(-self.channels // self.block)
        size = nest.parts * nest.taps * self.channels
        out.line(f"# {title}\n# {panels} panels of {self.block} channels")
        with out.block("def kernel(dest, input, gradient, scratch, thread, threads):"):
            if surely(size * nest.lines * nest.axes[-1].outputs, "==", 0):
                out.line(f"clear(dest, 0, {size} if thread == 0 else 0)")
                return out.text
            write_shares(out, nest.parts, panels, panels_first=True)
            with out.block("for part in range(unit, unit_end):"):
                out.line("begun = 0")
                parts = nest.parts
                begin, end = (f"{at} * {nest.lines} // {parts}" for at in ("part", "(part + 1)"))
                with self.chunks.each(begin, end):
                    with out.block("for panel in range(panel_begin, panel_end):"):
                        self._write_panel()
                    out.line("begun = 1")
        return out.text

    def _write_panel(self) -> None:
        """Sum up a chunk for a block of channels; the last may be fewer."""
        out, full, tail = self.out, *divmod(self.channels, self.block)
        out.line(f"channel = panel * {self.block}")
        if full and tail:
            with out.block(f"if panel < {full}:"):
                self._write_tap_lines("a", self.block)
            with out.block("else:"):
                self._write_tap_lines("b", tail)
        else:
            self._write_tap_lines("a", self.block if full else tail)

    def _write_tap_lines(self, tag: str, columns: int) -> None:
        """Sum up a chunk for each line of taps."""
        out, (deep, high, _) = self.out, self.nest.axes
        with out.block(f"for tap0 in range({deep.taps}):") if deep.taps > 1 else nullcontext():
            if deep.taps == 1:
                out.line("tap0 = 0")
            with out.block(f"for tap1 in range({high.taps}):"):
                vectors = [
                    (f"{tag}{number}", plus("channel", start), min(self.lanes, columns - start))
                    for number, start in enumerate(range(0, columns, self.lanes))
                ]
                sums = [
                    (f"{name}_{tap}", tap, channel, count)
                    for name, channel, count in vectors
                    for tap in range(self.taps)
                ]
                for name, *_ in sums:
                    out.line(f"{name} = splat_{self.nest.kind.value}(0, {self.lanes})")
                with self.chunks.output_lines():
                    self._write_line(vectors)
                place = times(f"((part * {deep.taps} + tap0) * {high.taps} + tap1)", self.taps)
                for name, tap, channel, count in sums:
                    at = f"({plus(place, tap)}) * {self.channels} + {channel}"
                    with out.block("if begun:"):
                        out.line(f"{name} = add({name}, {self._load('dest', at, count)})")
                    form = "store" if count == self.lanes else "store_masked"
                    mask = "" if count == self.lanes else f", {count}"
                    out.line(f"{form}(dest, {at}, {name}{mask})")

    def _write_line(self, vectors: list[tuple[str, str, int]]) -> None:
        """Add a line of pixels: where all taps are inside, and then those at the ends."""
        out, axis = self.out, self.nest.axes[-1]
        out.line(f"from_gradient = first_pixel + chunk_line * {axis.outputs} - x_begin")
        out.line(f"from_input = {plus(times('input_line', axis.memory), axis.offset)}")
        end = (axis.inputs + axis.begin - axis.reach) // axis.stride + 1
        out.line(f"inside = max(x_begin, {-(-axis.begin // axis.stride)})")
        out.line(f"outside = min(x_end, {end})")
        out.line("inside = min(inside, x_end)\noutside = max(outside, inside)")
        with out.block("for p in range(inside, outside):"):
            self._write_products(vectors, are_inside=True)
        if axis.begin or end != axis.outputs:
            with out.block("for end in range(x_end - x_begin - outside + inside):"):
                out.line("p = x_begin + end")
                with out.block("if p >= inside:"):
                    out.line("p += outside - inside")
                self._write_products(vectors, are_inside=False)

    def _write_products(self, vectors: list[tuple[str, str, int]], *, are_inside: bool) -> None:
        """Add the products of pixel ``p`` with all taps, or with those that are inside."""
        out, axis = self.out, self.nest.axes[-1]
        out.line(f"of_gradient = (from_gradient + p) * {self.pixels['gradient']}")
        out.line(f"x = {plus(times('p', axis.stride), -axis.begin)}")
        cell = plus("from_input", times("x", axis.step))
        out.line(f"of_input = ({cell}) * {self.pixels['input']}")
        factors = [self._load("gradient", f"of_gradient + {at}", n) for _, at, n in vectors]
        for (name, _, _), factor in zip(vectors, factors, strict=True):
            out.line(f"g_{name} = {factor}")
        for tap in range(self.taps):
            shift = tap * axis.dilation
            cell = plus("of_input", shift * axis.step * self.pixels["input"])
            is_inside = f"if 0 <= {plus('x', shift)} < {axis.inputs}:"
            with nullcontext() if are_inside else out.block(is_inside):
                for name, channel, count in vectors:
                    x = self._load("input", f"{cell} + {channel}", count)
                    out.line(f"{name}_{tap} = fma(g_{name}, {x}, {name}_{tap})")

    def _load(self, pointer: str, place: str, count: int) -> str:
        if count == self.lanes:
            return f"load({pointer}, {place}, {self.lanes})"
        return f"load_masked({pointer}, {place}, {self.lanes}, {count})"
