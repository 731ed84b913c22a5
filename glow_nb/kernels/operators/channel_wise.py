"""Convolutions of integers in which channels are the lanes, in groups of neighbouring factors."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.convolution import require_pad_value
from glow_nb.hlir.ops.families import (
    SHORT_INTEGERS,
    fitted,
    product_kind,
    require_kind,
    widest,
)
from glow_nb.hlir.ops.gather import Gather
from glow_nb.hlir.ops.shape import Pad, Reshape, Transpose
from glow_nb.hlir.ops.windows import Windowed, pad_spatial
from glow_nb.kernels.operators.panels import check_dot
from glow_nb.kernels.operators.tap_groups import WIDEST, Entry, TapGroups
from glow_nb.llir.instructions.derived import derive_instruction


@define_node("channel_wise_convolution")
class ChannelWiseConvolution(Windowed):
    """Convolve channels by themselves, or in small groups, by groups of neighbouring factors.

    ``filter`` is ``[*outer, rows, channels * factors]`` with the sizes *outer* of the kernel but
    the last, the rows of :class:`~glow_nb.kernels.operators.tap_groups.TapGroups` for a line of
    taps, and ``K`` channels, filled up with zeros to a multiple of 16. ``bias`` is ``[K]`` and the
    result ``[N, *out, K]``. If *size* is 1, output channel ``k`` reads input channel
    ``k // multiplier``; if not, it reads those from ``k - k % size`` on.

    Attributes:
        size: Channels of a group.
        pad_value: The number that cells outside the input count as.
    """

    input: Value
    filter: Value
    bias: Value
    size: int
    pad_value: int

    @property
    def factors(self) -> int:
        """Neighbouring factors that the dot instruction of the plan multiplies at once."""
        return dot_named_by(self.plan).group

    @property
    def groups(self) -> TapGroups:
        """The groups of a line of taps."""
        found = tap_groups(self.kernel, self.stride, self.dilation, self.size, self.factors)
        self.require(
            found is not None,
            f"lines of {self.kernel[-1]} taps, stride {self.stride[-1]}, and groups of {self.size} "
            f"channels have no groups of {self.factors} factors",
        )
        assert found is not None
        return found

    @override
    def infer_type(self) -> TensorType:
        input, filter, bias = self.input.type, self.filter.type, self.bias.type
        require_kind(self, "input", input, SHORT_INTEGERS)
        self.require(self.size > 0, f"size is {self.size}, but must be positive")
        dot = dot_named_by(self.plan)
        self.require(
            dot.group > 1 and not dot.is_block,
            f"its plan has dot = {dot.name!r}, but must name an instruction that multiplies groups "
            "for a vector of sums",
        )
        check_dot(self, dot, input, filter, dot.group)
        out = self.window.checked(self, input)
        kind, channels, depth = product_kind(self, input, filter), input.shape[-1], bias.size
        self.require(
            channels > 0 and depth % channels == 0 and channels % self.size == 0,
            f"bias {bias} and groups of {self.size} do not go with the channels of input {input}",
        )
        self.require(
            self.size == 1 or depth == channels,
            f"bias is {bias}, but groups of {self.size} of {channels} channels need as many",
        )
        width = whole_vectors(depth) * self.factors
        sizes = (*self.kernel[:-1], len(self.groups.rows), width)
        wanted = TensorType(filter.kind, sizes)
        self.require(filter == wanted, f"'filter' is {filter}, but input {input} needs {wanted}")
        wanted = TensorType(kind, (depth,))
        self.require(bias == wanted, f"'bias' is {bias}, but filter {filter} needs {wanted}")
        require_pad_value(self, input, self.pad_value)
        return TensorType(kind, (input.shape[0], *out, depth))

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        """Add up ``weight * cell`` of all entries and factors.

        Of a packed filter that is a convolution; another one may hold other weights where zeros
        would be.
        """
        groups, rank, batch = self.groups, len(self.kernel), input.shape[0]
        out, depth = self.type.shape[1:-1], bias.size
        result: Any = np.empty((batch, *out, depth), widest(bias).dtype)
        result[...] = bias
        last = (groups.steps(out[-1]) + 1) * groups.pixels * groups.factors
        pads = (*self.pads[:-1], self.pads[-1] + last)
        padded = pad_spatial(widest(input), pads, self.pad_value)
        weights = widest(filter).reshape(*filter.shape[:-1], -1, groups.factors)[..., :depth, :]
        with np.errstate(all="ignore"):
            for *line, number, place in np.ndindex(
                *self.kernel[: rank - 1], len(groups.entries), groups.factors
            ):
                entry = groups.entries[number]
                stored = place - entry.shift
                if not 0 <= stored < groups.factors:
                    continue
                cells = self._cells(padded, line, entry, place)
                result[..., entry.phase :: groups.phases, :] += (
                    cells * weights[*line, entry.row, :, stored]
                )
            return fitted(result, self.type)

    def _cells(self, padded: Any, line: list[int], entry: Entry, place: int) -> Any:
        """Return the cells of *padded* that one factor of an entry multiplies, by channel."""
        groups, out, depth = self.groups, self.type.shape[1:-1], self.bias.type.size
        channels, step = np.arange(depth), groups.advance * groups.pixels
        first = entry.step * groups.pixels
        if self.size == 1:
            channels //= depth // self.input.type.shape[-1]
            first += place
        else:
            channels += entry.part * groups.factors + place - channels % self.size
        count = len(range(entry.phase, out[-1], groups.phases))
        spatial = [
            slice(tap * dilation, tap * dilation + size * stride, stride)
            for tap, dilation, size, stride in zip(
                line, self.dilation, out, self.stride, strict=False
            )
        ]
        return padded[:, *spatial, first : first + count * step : step][..., channels]

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size * prod(self.kernel) * self.size, self.type.size)


ChannelWiseConvolutionInst = derive_instruction(ChannelWiseConvolution)


def tap_groups(
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
    size: int,
    factors: int,
) -> TapGroups | None:
    """Return the groups of the lines of taps of a window; None if none fit."""
    return TapGroups.of(
        kernel[-1], stride=stride[-1], dilation=dilation[-1], size=size, factors=factors
    )


def whole_vectors(depth: int) -> int:
    """Return *depth* channels, filled up to whole vectors of any target."""
    return -(-depth // WIDEST) * WIDEST


def pack_taps(builder: Builder, filter: Value, groups: TapGroups) -> Value:
    """Emit the nodes that pack a ``[K, *kernel, size]`` *filter* for ChannelWiseConvolution."""
    depth, *kernel, size = filter.type.shape
    weights = kernel[-1] * size
    rows: Value = builder.emit(Reshape(filter, (depth, prod(kernel[:-1]), weights)))
    rows = builder.emit(Transpose(rows, (1, 2, 0)))
    # a row of zeros is the weight of a factor that does not count
    rows = builder.emit(Pad(rows, (0, 0, 0, 0, 1, whole_vectors(depth) - depth)))
    numbers = [weights if n is None else n for row in groups.rows for n in row]
    places = builder.constant("places", np.array(numbers, np.int64), is_weight=False)
    rows = builder.emit(Gather(rows, places, axis=1))
    stored, channels = len(groups.rows), rows.type.shape[-1]
    outer = prod(kernel[:-1])
    rows = builder.emit(Reshape(rows, (outer, stored, groups.factors, channels)))
    rows = builder.emit(Transpose(rows, (0, 1, 3, 2)))
    return builder.emit(Reshape(rows, (*kernel[:-1], stored, channels * groups.factors)))
