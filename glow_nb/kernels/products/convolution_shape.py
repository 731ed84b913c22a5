"""Shapes of convolutions, and their reduction to fewer dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from glow_nb.base.size import surely
from glow_nb.base.types import ElementKind


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution of ``[batch, *input, channels]`` to ``[batch, *output, depth]``.

    ``result[n, o, k] = bias[k] + sum over taps t, channels c of
    input[n, o * stride - pads + t * dilation, c] * filter[k, t, c]``, zero outside the input.

    Attributes:
        batch: Images.
        channels: Input channels, of all groups.
        depth: Output channels, of all groups.
        input: Spatial sizes, one to three of them.
        kernel: Taps in each dimension.
        stride: Input pixels from one output pixel to the next.
        pads: Zeros before the first pixel in each dimension, then those after the last.
        dilation: Input pixels from one tap to the next.
        group: Number of independent groups of channels.
    """

    batch: int
    channels: int
    depth: int
    input: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int = 1

    @classmethod
    def of(
        cls,
        input: Sequence[int],
        depth: int,
        kernel: tuple[int, ...],
        pads: tuple[int, ...],
        *,
        stride: tuple[int, ...] | None = None,
        dilation: tuple[int, ...] | None = None,
        group: int = 1,
    ) -> ConvolutionShape:
        """Return the convolution of an *input* ``[batch, *sizes, channels]``.

        Stride and dilation are 1 if they are not given.
        """
        batch, *sizes, channels = input
        ones = (1,) * len(sizes)
        stride, dilation = stride or ones, dilation or ones
        return cls(batch, channels, depth, tuple(sizes), kernel, stride, pads, dilation, group)

    def description(self, kind: ElementKind) -> str:
        """Return all sizes in words, for the comment at the top of a kernel."""
        taps = " x ".join(map(str, self.kernel))
        sizes = " x ".join(map(str, (self.batch, *self.input, self.channels)))
        return (
            f"convolution {taps} of {kind.value}<{sizes}> to {self.depth} channels, stride "
            f"{self.stride}, pads {self.pads}, dilation {self.dilation}, group {self.group}"
        )

    @property
    def rank(self) -> int:
        """Number of spatial dimensions."""
        return len(self.input)

    @property
    def begins(self) -> tuple[int, ...]:
        """Zeros before the first pixel."""
        return self.pads[: self.rank]

    @property
    def ends(self) -> tuple[int, ...]:
        """Zeros after the last pixel."""
        return self.pads[self.rank :]

    @cached_property
    def output(self) -> tuple[int, ...]:
        """Spatial sizes of the result."""
        return tuple(
            (self.input[i] + self.begins[i] + self.ends[i] - self.reach[i]) // self.stride[i] + 1
            for i in range(self.rank)
        )

    @cached_property
    def reach(self) -> tuple[int, ...]:
        """Input pixels from the first to the last tap, both included."""
        return tuple(
            (taps - 1) * dilation + 1
            for taps, dilation in zip(self.kernel, self.dilation, strict=True)
        )

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """Pixels of the padded input that any output reads, from its first on."""
        return tuple(
            (size - 1) * stride + reach
            for size, stride, reach in zip(self.output, self.stride, self.reach, strict=True)
        )

    @property
    def channels_per_group(self) -> int:
        """Input channels of one group."""
        return self.channels // self.group

    @property
    def depth_per_group(self) -> int:
        """Output channels of one group."""
        return self.depth // self.group

    @property
    def steps(self) -> int:
        """Products summed for one output: taps times channels."""
        return prod(self.kernel) * self.channels_per_group

    @property
    def multiply_adds(self) -> int:
        """Multiplications, each with an addition, of the direct sum for all outputs."""
        return self.batch * prod(self.output) * self.depth * self.steps

    @property
    def new_inputs(self) -> int:
        """Elements of a group that an output reads, but not its neighbour before it in the line."""
        *outer, last = self.kernel
        return prod(outer) * min(last, self.stride[-1]) * self.channels_per_group

    @property
    def is_padded(self) -> bool:
        """Return whether some output reads beyond the input, or may do so if sizes are open."""
        axes = zip(self.begins, self.ends, self.needed, self.input, strict=True)
        return any(
            not (surely(begin, "<=", 0) and (end == 0 or surely(needed - begin, "<=", size)))
            for begin, end, needed, size in axes
        )

    def simplified(self, *, keeps_lines: bool = False) -> ConvolutionShape:
        """Return the same computation over the same memory in as few dimensions as possible.

        Outer dimensions that are plain (kernel, stride and pads of nothing) join the batch; inner
        ones join the dimension outside them; a 1x1 convolution becomes one line of pixels, and so
        do lines that follow one another: windows that touch and leave nothing over.

        Args:
            keeps_lines: Lines of pixels do not join a dimension that is padded: its pads would be
                as many pixels as there are in this number of lines.
        """
        shape = self
        while shape.rank > 1 and shape.is_plain(0):
            shape = shape._without(0, batch=shape.batch * shape.input[0])
        while shape.rank > 1 and shape.is_plain(-1) and shape._can_absorb_last(keeps_lines):
            shape = shape._with_last_absorbed()
        if shape.rank == 1 and shape._covers_line():
            return replace(shape, batch=1, input=(shape.batch * shape.input[0],))
        return shape

    def as_lines(self) -> ConvolutionShape:
        """Return that of one dimension as one of images of one line."""
        begin, end = self.pads
        return replace(
            self,
            input=(1, *self.input),
            kernel=(1, *self.kernel),
            stride=(1, *self.stride),
            pads=(0, begin, 0, end),
            dilation=(1, *self.dilation),
        )

    def is_plain(self, axis: int) -> bool:
        """Return whether each output along *axis* is made of the one input at its place."""
        return (
            self.kernel[axis] == self.stride[axis] == 1
            and self.begins[axis] == self.ends[axis] == 0
        )

    def _covers_line(self) -> bool:
        """Return whether the windows of the only dimension lie side by side from start to end."""
        is_plain = self.dilation[0] == 1 or self.kernel[0] == 1
        touches = is_plain and self.kernel[0] == self.stride[0]
        return touches and set(self.pads) == {0} and self.input[0] % self.stride[0] == 0

    def _can_absorb_last(self, keeps_lines: bool) -> bool:
        """Return whether the last dimension, which is plain, can be a part of the one before it."""
        if self.input[-1] == 1:
            return True
        is_padded = self.begins[-2] != 0 or self.ends[-2] != 0
        return self.stride[-2] == 1 and not (keeps_lines and is_padded)

    def _with_last_absorbed(self) -> ConvolutionShape:
        size = self.input[-1]

        def scaled(values: tuple[int, ...]) -> tuple[int, ...]:
            return (*values[:-2], values[-2] * size)

        return replace(
            self,
            input=scaled(self.input),
            kernel=self.kernel[:-1],
            stride=self.stride[:-1],
            pads=(*scaled(self.begins), *scaled(self.ends)),
            dilation=scaled(self.dilation),
        )

    def _without(self, axis: int, batch: int) -> ConvolutionShape:
        def rest(values: tuple[int, ...]) -> tuple[int, ...]:
            return values[:axis] + values[axis + 1 :]

        return replace(
            self,
            batch=batch,
            input=rest(self.input),
            kernel=rest(self.kernel),
            stride=rest(self.stride),
            pads=(*rest(self.begins), *rest(self.ends)),
            dilation=rest(self.dilation),
        )
