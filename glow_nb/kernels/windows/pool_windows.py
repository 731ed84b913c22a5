"""The problem of a pool: windows over spatial dimensions, and how their cells are combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glow_nb.base.errors import UnsupportedError
from glow_nb.base.size import surely, symbols_of
from glow_nb.base.types import ElementKind
from glow_nb.fuse.vector_code import number_text
from glow_nb.hlir.ops.families import bounds_of
from glow_nb.kernels.writing.index_text import index_text, plus
from glow_nb.kernels.writing.source import SourceWriter
from glow_nb.kernels.writing.vectors import Block, computed_kind
from glow_nb.llir.instructions.pooling import AvgPoolInst, MaxPoolInst
from glow_nb.llir.program import Buffer

Bounds = tuple[tuple[str, str], ...]
"""For each spatial dimension, the first tap inside of the input and the one after the last."""


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial dimensions of an input.

    Attributes:
        source: The input, ``[N, *in, C]``.
        out: Spatial sizes of the result.
        kernel, stride, dilation, begins, ends: For each spatial dimension.
    """

    source: Buffer
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, instruction: Any, dest: Buffer) -> Windows:
        """Return the windows of a pooling *instruction*."""
        source, rank = instruction.input, len(instruction.kernel)
        for buffer in (source, dest):
            if buffer.strides[-1] != 1 and buffer.type.shape[-1] > 1:
                raise UnsupportedError(
                    f"{instruction!r}: channels of {buffer!r} lie {buffer.strides[-1]} elements "
                    "apart; copy them side by side first"
                )
        return cls(
            source,
            dest.type.shape[1:-1],
            instruction.kernel,
            instruction.stride,
            instruction.dilation,
            instruction.pads[:rank],
            instruction.pads[rank:],
        )

    @property
    def size(self) -> tuple[int, ...]:
        """Spatial sizes of the input."""
        return self.source.type.shape[1:-1]

    @property
    def channels(self) -> int:
        """Number of channels."""
        return self.source.type.shape[-1]

    def span(self, axis: int) -> int:
        """Return how many cells lie from the first tap to the last, both included."""
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def is_clipped(self, axis: int) -> bool:
        """Return whether some window reaches into padding along *axis*, or may do so."""
        if not surely(self.begins[axis], "<=", 0):
            return True
        span, stride, size = self.span(axis), self.stride[axis], self.size[axis]
        if self.out[axis] == (size - span) // stride + 1:  # as many as there is room for
            return False
        return not surely((self.out[axis] - 1) * stride + span, "<=", size)

    @property
    def has_dense_rows(self) -> bool:
        """Whether neighbours of a row lie side by side, if it has one channel."""
        return self.channels != 1 or self.source.strides[-2] == 1 or self.size[-1] == 1

    def is_row(self, axis: int) -> bool:
        """Return whether neighbours along *axis* are neighbours in memory."""
        return self.channels == 1 and axis == len(self.out) - 1

    def is_open(self, axis: int) -> bool:
        """Return whether only the run knows how many windows there are along *axis*."""
        return bool(symbols_of(self.size[axis], self.out[axis]))

    def inside(self, axis: int) -> range:
        """Return the windows that see no padding along *axis*, of a known size."""
        begin, stride, count = self.begins[axis], self.stride[axis], self.out[axis]
        first = min(-(-begin // stride), count)
        last = (self.size[axis] + begin - self.span(axis)) // stride
        return range(first, max(first, min(count, last + 1)))

    def limits_inside(self, axis: int) -> tuple[str, str] | None:
        """Return between which numbers windows see no padding along *axis*; None if none do.

        Where sizes are open, the second may lie below the first, or after the last window.
        """
        if not self.is_open(axis):
            whole = self.inside(axis)
            return (str(whole.start), str(whole.stop)) if whole else None
        begin, stride = self.begins[axis], self.stride[axis]
        end = (self.size[axis] + begin - self.span(axis)) // stride + 1
        return f"{-(-begin // stride)}", f"{end}"

    def is_single(self, axis: int) -> bool:
        """Return whether each window is one cell along *axis*, and each cell is in one."""
        pads = (self.begins[axis], self.ends[axis])
        return self.kernel[axis] == self.stride[axis] == 1 and pads == (0, 0)

    def taps_before(self, axis: int, limit: str) -> str:
        """Return how many taps of a window lie before the cell *limit*, relative to its start."""
        step = self.dilation[axis]
        count = limit if step == 1 else f"({plus(limit, str(step - 1))}) // {step}"
        return f"min({self.kernel[axis]}, {count})"

    def write_bounds(self, out: SourceWriter, axis: int, index: str) -> tuple[str, str]:
        """Write where window *index* begins along *axis*, and return which taps see the input."""
        start = index_text([index], [self.stride[axis]], -self.begins[axis])
        out.line(f"cell{axis} = {start}")
        if not self.is_clipped(axis):
            return "0", str(self.kernel[axis])
        out.line(f"begin{axis} = max(0, {self.taps_before(axis, f'-cell{axis}')})")
        out.line(f"end{axis} = {self.taps_before(axis, f'{self.size[axis]} - cell{axis}')}")
        return f"begin{axis}", f"end{axis}"


@dataclass(frozen=True)
class Fold:
    """How cells are combined: a sum, or a maximum.

    Attributes:
        function: The function that combines two vectors.
        kind: Kind of the vectors.
        neutral: The initial total.
    """

    function: str
    kind: ElementKind
    neutral: float

    def start(self, lanes: int) -> str:
        """Return the vector that the total starts with."""
        return f"splat_{self.kind.value}({number_text(self.neutral)}, {lanes})"

    def write(self, out: SourceWriter, total: str, cell: str, result: str = "total") -> None:
        """Write ``result = total + cell``; of zeros, a maximum is the first one."""
        if self.function == "maximum" and self.kind.is_float:
            out.line(f"x = {cell}")
            if total != "total":
                out.line(f"before = {total}")
                total = "before"
            out.line(f"{result} = where(bit_or(less({total}, x), isnan(x)), x, {total})")
        else:
            out.line(f"{result} = {self.function}({total}, {cell})")


@dataclass(frozen=True)
class Pool:
    """A maximum or a mean over windows.

    Attributes:
        instruction: The instruction.
        windows: The windows of the instruction.
        fold: How the cells of a window are combined.
    """

    instruction: MaxPoolInst | AvgPoolInst
    windows: Windows
    fold: Fold

    @classmethod
    def of(cls, instruction: MaxPoolInst | AvgPoolInst) -> Pool:
        """Return what *instruction* computes."""
        kind = instruction.dest.type.kind
        windows, wide = Windows.of(instruction, instruction.dest), computed_kind(kind)
        if isinstance(instruction, AvgPoolInst):
            return cls(instruction, windows, Fold("add", wide, 0.0))
        return cls(instruction, windows, Fold("maximum", wide, bounds_of(kind)[0]))

    @property
    def kind(self) -> ElementKind:
        """The kind of input and result."""
        kind: ElementKind = self.instruction.dest.type.kind
        return kind

    @property
    def is_mean(self) -> bool:
        """Whether it divides by the cells that count."""
        return isinstance(self.instruction, AvgPoolInst)

    def result(self, total: str, count: str = "") -> str:
        """Return the result of windows that come to *total*, in its kind.

        Both are vectors, as *count* is: how many cells count, of a mean.
        """
        return narrowed(self.kind, f"div({total}, {count})" if self.is_mean else total)


def cells(kind: ElementKind, block: Block, place: str) -> str:
    """Return the load of a block of cells, in the kind that they are computed in."""
    loaded, wide = block.load("src", place), computed_kind(kind)
    return loaded if kind is wide else f"convert_{wide.value}({loaded})"


def narrowed(kind: ElementKind, vector: str) -> str:
    """Return a vector of the kind that is computed in as *kind*."""
    return vector if computed_kind(kind) is kind else f"convert_{kind.value}({vector})"


def count_text(instruction: Any, windows: Windows, bounds: Bounds) -> str:
    """Return how many cells count of the window ``cell0, cell1, ...``, as text.

    A dimension without *bounds* is left out.
    """
    axes = enumerate(bounds)
    return " * ".join(count_along(instruction, windows, axis, own) for axis, own in axes)


def count_along(instruction: Any, windows: Windows, axis: int, bounds: tuple[str, str]) -> str:
    """Return how many cells count of a window along one dimension."""
    begin, end = bounds
    if not instruction.count_padding:
        return end if begin == "0" else f"max(0, {end} - {begin})"
    skipped = instruction.uncounted[axis] if instruction.uncounted else 0
    limit = windows.size[axis] + windows.ends[axis] - skipped
    return f"max(0, {windows.taps_before(axis, f'{limit} - cell{axis}')})"
