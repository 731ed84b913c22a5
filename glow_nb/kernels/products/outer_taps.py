"""The taps of a kernel's outer dimensions, as source: all but those along a line of pixels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.writing.index_text import plus, times
from glow_nb.kernels.writing.source import SourceWriter


class OuterTaps:
    """Loops over the taps that lie inside the input, for one line of the output.

    Taps above and below the input are left out, so that nothing need be padded.
    """

    def __init__(self, out: SourceWriter, shape: ConvolutionShape) -> None:
        """Write to *out* for a convolution of *shape*."""
        self.out, self.shape = out, shape
        self.axes = "zy"[3 - shape.rank :]

    def write_places(self, line: str) -> None:
        """Write which ``image`` the output *line* is of, where its taps begin, and which it has."""
        out, shape, rest = self.out, self.shape, line
        for axis, name in reversed(list(enumerate(self.axes))):
            size = shape.output[axis]
            number = times(f"({rest} % {size})", shape.stride[axis])
            out.line(f"{name} = {plus(number, -shape.begins[axis])}")
            rest = f"{rest} // {size}"
            step, taps, inputs = shape.dilation[axis], shape.kernel[axis], shape.input[axis]
            low, high = f"{step - 1} - {name}", f"{inputs + step - 1} - {name}"
            if step > 1:
                low, high = f"({low}) // {step}", f"({high}) // {step}"
            out.line(f"{name}_begin = max(0, {low})\n{name}_end = min({taps}, {high})")
        out.line(f"image = {rest}")

    @contextmanager
    def loops(self, name: str) -> Iterator[None]:
        """Loop over the taps; variables end in *name*."""
        with ExitStack() as loops:
            for axis in self.axes:
                header = f"for {axis}_{name} in range({axis}_begin, {axis}_end):"
                loops.enter_context(self.out.block(header))
            yield

    def number(self, name: str) -> str:
        """Return the number of the tap that the loops of :meth:`loops` are at."""
        if self.shape.rank == len("zyx"):
            return f"(z_{name} * {self.shape.kernel[1]} + y_{name})"
        return f"y_{name}" if self.axes else "0"

    def input_line(self, name: str) -> str:
        """Return the number of the first pixel of the input line that the loops are at."""
        line = "image"
        for number, axis in enumerate(self.axes):
            place = plus(axis, times(f"{axis}_{name}", self.shape.dilation[number]))
            line = f"({plus(times(line, self.shape.input[number]), place)})"
        return times(line, self.shape.input[-1])
