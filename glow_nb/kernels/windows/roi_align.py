"""RoiAlign: the samples of a bin one after the other, with neighbouring channels in the lanes.

Only samples that lie on the image are walked over, so a box far larger than it takes no longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.ops.regions import FARTHEST
from glow_nb.kernels.movement.elements import write_place
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, real_text
from glow_nb.kernels.writing.loops import loops
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, blocks_of, computed_kind, native_lanes
from glow_nb.llir.instructions.regions import RoiAlignInst

FLOAT64 = ElementKind.FLOAT64


@kernel_for(RoiAlignInst)
def roi_align_source(instruction: RoiAlignInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input, boxes, indices)`` of sampled regions."""
    kind = instruction.input.type.kind
    out = SourceWriter()
    with out.block("def kernel(dest, input, boxes, indices, scratch, thread, threads):"):
        if surely(instruction.dest.type.size, "==", 0):
            out.line("return")
        else:
            _Regions(instruction, target).write(out)
    kinds = (kind, kind, kind, instruction.batch.type.kind)
    return KernelSource("roi_align", out.text, kinds, 4 * FLOAT64.size_bytes)


def _whole(number: str) -> str:
    """Return the text of a float64 *number* without its fraction, as an index."""
    return f"reduce_add(convert_int64(splat_float64({number}, 1)))"


@dataclass(frozen=True)
class _Axis:
    """One axis of the image.

    Attributes:
        name: ``y`` or ``x``, the end of the names of its variables.
        size: Elements of the image.
        bins: Bins of a region.
        ratio: Samples of a bin; 0 if the box says how many.
    """

    name: str
    size: int
    bins: int
    ratio: int

    def write_bins(self, out: SourceWriter, *, least: float | None) -> None:
        """Write the size of a bin, and the number and distance of its samples."""
        n = self.name
        if least is not None:
            with out.block(f"if not (length_{n} > {least}):"):
                out.line(f"length_{n} = {least}")
        out.line(f"bin_{n} = length_{n} / {self.bins}.0")
        out.line(f"count_{n} = {self.ratio}.0")
        if not self.ratio:
            with out.block(f"if bin_{n} > 0.0:"):
                out.line(f"count_{n} = reduce_add(ceil(splat_float64(bin_{n}, 1)))")
        out.line(f"step_{n} = bin_{n} / count_{n}")

    def write_range(self, out: SourceWriter, index: str) -> None:
        """Write which samples of bin *index* may lie on the image."""
        n = self.name
        out.line(f"base_{n} = start_{n} + {index} * bin_{n}")
        if self.ratio:
            out.line(f"first_{n} = 0\nlast_{n} = {self.ratio}")
            return
        first = f"(-1.0 - base_{n}) / step_{n} - 1.5"
        last = f"({real_text(self.size)} - base_{n}) / step_{n} + 1.5"
        for name, number in (("first", first), ("last", last)):
            out.line(f"number = {number}")
            with out.block("if not (number > 0.0):"):
                out.line("number = 0.0")
            for most in (f"count_{n}", number_text(FARTHEST)):
                with out.block(f"if number > {most}:"):
                    out.line(f"number = {most}")
            out.line(f"{name}_{n} = {_whole('number')}")

    def write_place(self, out: SourceWriter) -> None:
        """Write the elements around sample ``i_``, and its share of the second; skip it outside."""
        n, size, last = self.name, real_text(self.size), real_text(self.size - 1)
        out.line(f"{n} = base_{n} + (i_{n} + 0.5) * step_{n}")
        with out.block(f"if not ({n} >= -1.0 and {n} <= {size}):"):
            out.line("continue")
        with out.block(f"if {n} < 0.0:"):
            out.line(f"{n} = 0.0")
        with out.block(f"if {n} > {last}:"):
            out.line(f"{n} = {last}")
        out.line(f"low_{n} = {_whole(n)}\nhigh_{n} = min(low_{n} + 1, {self.size - 1})")
        out.line(f"far_{n} = {n} - low_{n}\nnear_{n} = 1.0 - far_{n}")


@dataclass(frozen=True)
class _Regions:
    """The body of the kernel."""

    instruction: RoiAlignInst
    target: Target

    @property
    def _axes(self) -> tuple[_Axis, _Axis]:
        """The axes from top to bottom and from left to right."""
        one = self.instruction
        _, height, width, _ = one.input.type.shape
        return (
            _Axis("y", height, one.height, one.ratio),
            _Axis("x", width, one.width, one.ratio),
        )

    def write(self, out: SourceWriter) -> None:
        """Write the loop over rows of bins, for the share of one thread."""
        images = self.instruction.input.type.shape[0]
        y, x = self._axes
        boxes = self.instruction.batch.type.size
        with loops(out, [boxes, y.bins], shared=True) as (box, bin_y):
            self._write_box(out, box)
            write_place(out, "image", box, images)
            y.write_range(out, bin_y)
            with out.block(f"for bin in range({x.bins}):"):
                x.write_range(out, "bin")
                to = index_text([box, bin_y, "bin"], [y.bins * x.bins, x.bins, 1])
                out.line(f"to = ({to}) * {self.instruction.input.type.shape[3]}")
                self._write_bin(out)

    def _write_box(self, out: SourceWriter, box: str) -> None:
        """Write the box in elements: where it begins, and its bins."""
        one = self.instruction
        wide = computed_kind(one.input.type.kind).value
        corners = f"convert_{wide}(load(boxes, {index_text([box], [4])}, 4))"
        scaled = f"mul({corners}, splat_{wide}({number_text(one.scale)}, 4))"
        offset = f"splat_{wide}({0.5 if one.half_pixel else 0.0}, 4)"
        out.line("corners = as_float64(scratch)")
        out.line(f"store(corners, 0, convert_float64(sub({scaled}, {offset})))")
        for axis, place in zip(self._axes, (1, 0), strict=True):
            out.line(f"start_{axis.name} = get(corners, {place})")
            out.line(f"length_{axis.name} = get(corners, {place + 2}) - start_{axis.name}")
            axis.write_bins(out, least=None if one.half_pixel else 1.0)
        out.line("samples = count_y * count_x")
        with out.block("if not (samples >= 1.0):"):
            out.line("samples = 1.0")

    def _write_bin(self, out: SourceWriter) -> None:
        """Write the samples of one bin, for all channels."""
        kind = self.instruction.input.type.kind
        wide = computed_kind(kind)
        lanes = self.target.machine.unroll_vectors * native_lanes(self.target, wide)
        for block in blocks_of(out, self.instruction.input.type.shape[3], lanes):
            is_mean = self.instruction.mode == "avg"
            zero = f"splat_{wide.value}(0, {block.lanes})"
            out.line(f"total = {zero if is_mean else zero.replace('(0', '(-1e999')}")
            out.line("seen = 0.0")
            y, x = self._axes
            with out.block("for i_y in range(first_y, last_y):"):
                y.write_place(out)
                with out.block("for i_x in range(first_x, last_x):"):
                    x.write_place(out)
                    self._write_sample(out, block, wide)
                    out.line("seen = seen + 1.0")
            if is_mean:
                out.line(f"total = div(total, splat_{wide.value}(samples, {block.lanes}))")
            else:
                with out.block("if seen < samples:"):
                    out.line(f"total = maximum(total, {zero})")
            stored = f"convert_{kind.value}(total)"
            out.line(block.store("dest", f"to + {block.column}", stored))

    def _write_sample(self, out: SourceWriter, block: Block, wide: ElementKind) -> None:
        """Write the four elements around a sample, each times its weight."""
        _, height, width, channels = self.instruction.input.type.shape
        for row, above in (("low_y", "near_y"), ("high_y", "far_y")):
            for column, beside in (("low_x", "near_x"), ("high_x", "far_x")):
                place = index_text(["image", row, column], [height * width, width, 1])
                element = block.load("input", f"({place}) * {channels} + {block.column}")
                weight = f"splat_{wide.value}({above} * {beside}, {block.lanes})"
                tap = f"convert_{wide.value}({element})"
                if self.instruction.mode == "avg":
                    out.line(f"total = fma({weight}, {tap}, total)")
                else:
                    out.line(f"total = maximum(total, mul({weight}, {tap}))")
