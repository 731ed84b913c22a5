"""The gradient of a max pool: each window finds its largest cell again, and adds to it.

Windows overlap, so threads share the lines of the result. A window that reaches over the border of
two shares is looked at by both threads; each adds to its own lines, in the order of the windows.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.size import surely
from glow_nb.hlir.rounding import is_narrow
from glow_nb.kernels.registry import kernel_for
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.index_text import index_text, plus, times
from glow_nb.kernels.writing.source import KernelSource, SourceWriter
from glow_nb.kernels.writing.vectors import Block, blocks_of, native_lanes
from glow_nb.llir.instructions.pooling_gradients import MaxPoolGradientInst
from glow_nb.llir.strides import contiguous_strides


@kernel_for(MaxPoolGradientInst)
def max_pool_gradient_source(instruction: MaxPoolGradientInst, target: Target) -> KernelSource:
    """Return the kernel ``(dest, input, gradient)`` of the gradient of a maximum over windows.

    Raises:
        UnsupportedError: The elements are 16-bit floats, in which sums would be rounded each time.
    """
    kind = instruction.dest.type.kind
    if is_narrow(instruction.dest.type):
        raise UnsupportedError(
            f"{instruction!r}: no kernel for {kind.value}; convert the operands to float32"
        )
    writer = _Writer(instruction, SourceWriter(), native_lanes(target, kind))
    return KernelSource("max_pool_gradient", writer.write(), (kind,) * 3)


@dataclass(frozen=True)
class _Writer:
    """Writes one kernel; every method appends one part of the nest, from the outside in."""

    instruction: MaxPoolGradientInst
    out: SourceWriter
    lanes: int

    @property
    def rank(self) -> int:
        """Spatial dimensions."""
        return len(self.instruction.kernel)

    @property
    def size(self) -> tuple[int, ...]:
        """Spatial sizes of the input."""
        return self.instruction.input.type.shape[1:-1]

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from image to image, and from cell to cell in each dimension of the input."""
        return contiguous_strides(self.instruction.input.type.shape)[:-1]

    def write(self) -> str:
        """Return the whole text."""
        out, type = self.out, self.instruction.dest.type
        with out.block("def kernel(dest, input, gradient, scratch, thread, threads):"):
            if surely(type.size, "==", 0):
                out.line("return")
                return out.text
            batch, high = type.shape[:2]
            out.line(f"line = thread * {batch * high} // threads")
            out.line(f"line_end = (thread + 1) * {batch * high} // threads")
            with out.block("while line < line_end:"):
                out.line(f"image = line // {high}\nfirst = line % {high}")
                out.line(f"last = min(first + line_end - line, {high})")
                out.line("clean = first")
                self._write_windows()
                self._write_clearing("last")
                out.line("line += last - first")
        return out.text

    def _write_clearing(self, end: str) -> None:
        """Write zeros to the lines before *end* that have none, soon before they are added to."""
        out, (_, high, *rest) = self.out, self.instruction.dest.type.shape
        with out.block(f"if clean < {end}:"):
            line = prod(rest)
            out.line(f"clear(dest, (image * {high} + clean) * {line}, ({end} - clean) * {line})")
            out.line(f"clean = {end}")

    def _write_windows(self) -> None:
        """Run over the windows that see lines from ``first`` to ``last`` of the image."""
        out, node, outputs = self.out, self.instruction, self.instruction.gradient.type.shape[1:-1]
        begin, stride = node.pads[0], node.stride[0]
        reach = node.dilation[0] * (node.kernel[0] - 1)
        out.line(f"window = max(0, -(({reach - begin} - first) // {stride}))")
        out.line(f"window_end = min({outputs[0]}, ({plus('last', begin - 1)}) // {stride} + 1)")
        with ExitStack() as loops:
            for axis, count in enumerate(outputs):
                ends = f"0, {count}" if axis else "window, window_end"
                loops.enter_context(out.block(f"for o{axis} in range({ends}):"))
                self._write_bounds(axis)
                if axis == 0:
                    out.line(f"bottom = min(last, cell0 + {reach + 1})")
                    self._write_clearing("bottom")
            cells = [f"cell{axis}" for axis in range(self.rank)]
            out.line(f"origin = {index_text(['image', *cells], self.strides)}")
            strides = contiguous_strides(node.gradient.type.shape)[:-1]
            indices = ["image", *(f"o{axis}" for axis in range(self.rank))]
            out.line(f"source = {index_text(indices, strides)}")
            for block in blocks_of(out, node.input.type.shape[-1], self.lanes):
                self._write_block(block)

    def _write_bounds(self, axis: int) -> None:
        """Write where the window begins along *axis*, and which taps are inside of the input."""
        out, node = self.out, self.instruction
        start = plus(times(f"o{axis}", node.stride[axis]), -node.pads[axis])
        out.line(f"cell{axis} = {start}")
        out.line(f"begin{axis} = {self._taps_before(axis, '0')}")
        out.line(f"end{axis} = {self._taps_before(axis, f'{self.size[axis]}')}")
        if axis == 0:
            out.line(f"own = {self._taps_before(0, 'first')}")
            out.line(f"own_end = {self._taps_before(0, 'last')}")

    def _taps_before(self, axis: int, cell: str) -> str:
        """Return how many taps of the window lie before *cell*."""
        step, taps = self.instruction.dilation[axis], self.instruction.kernel[axis]
        before = f"{cell} - cell{axis}"
        if step > 1:
            before = f"({before} + {step - 1}) // {step}"
        return f"max(0, min({taps}, {before}))"

    def _write_block(self, block: Block) -> None:
        """Loop over the taps of a window that are inside, and then over those of the thread."""
        out, node, lanes = self.out, self.instruction, block.lanes
        names = [f"k{axis}" for axis in range(self.rank)]
        number = index_text(names, contiguous_strides(node.kernel))
        steps = [s * d for s, d in zip(self.strides[1:], node.dilation, strict=True)]
        place = plus("origin", index_text(names, steps), block.column)
        kind = node.input.type.kind.value
        out.line(f"g = {block.load('gradient', plus('source', block.column))}")
        out.line(f"best = splat_{kind}(0, {lanes})\nwhich = splat_int32(-1, {lanes})")
        with ExitStack() as loops:
            for axis, name in enumerate(names):
                header = f"for {name} in range(begin{axis}, end{axis}):"
                loops.enter_context(out.block(header))
            out.line(f"x = {block.load('input', place)}")
            out.line("better = bit_or(greater(x, best), isnan(x))")
            out.line(f"better = bit_or(better, less(which, splat_int32(0, {lanes})))")
            out.line("best = where(better, x, best)")
            out.line(f"which = where(better, splat_int32({number}, {lanes}), which)")
        with ExitStack() as loops:
            for axis, name in enumerate(names):
                ends = f"begin{axis}, end{axis}"
                if axis == 0:
                    ends = "max(begin0, own), min(end0, own_end)"
                loops.enter_context(out.block(f"for {name} in range({ends}):"))
            share = f"equal(which, splat_int32({number}, {lanes}))"
            share = f"where({share}, g, splat_{kind}(0, {lanes}))"
            out.line(block.store("dest", place, f"add({block.load('dest', place)}, {share})"))
