"""Transposed convolutions: ordinary ones, one for each place of a result between two strides."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.importers.onnx.context import Context
from glow_nb.importers.onnx.node import OnnxNode
from glow_nb.importers.onnx.registry import onnx_op
from glow_nb.importers.onnx.rules.convolution import emit_convolution
from glow_nb.importers.onnx.windows import Window, window_of

MOST_PHASES = 64
"""Convolutions that one transposed convolution may become."""


@onnx_op("ConvTranspose")
def transposed_convolution(ctx: Context, node: OnnxNode) -> Value:
    """The gradient of a convolution, with filters ``[C, K / group, ...]``.

    ``out = stride * (in - 1) + output_padding + span - begin - end``.
    """
    x, filter, bias = node.operand(0), node.operand(1), node.optional(2)
    rank = x.type.rank - 2
    if filter.type.rank != rank + 2 or rank < 1:
        raise ctx.wrong(f"filter {filter} does not fit input {x}")
    group, kernel = node.integer("group"), filter.type.shape[2:]
    channels = filter.type.shape[0]
    if group < 1 or channels % group or channels != x.type.shape[1]:
        raise ctx.wrong(f"filter {filter} does not fit input {x} in {group} groups")
    stride = node.integers("strides", (1,) * rank)
    window = window_of(ctx, node, x.type.shape[2:], kernel)
    begins, ends = _transposed_pads(ctx, node, x.type.shape[2:], window, stride)
    lines = [
        _Line(*sizes)
        for sizes in zip(
            x.type.shape[2:], kernel, stride, window.dilation, begins, ends, strict=True
        )
    ]
    if prod(stride) <= MOST_PHASES and all(line.has_phases for line in lines):
        return _by_phases(ctx, x, filter, bias, lines, group)
    spread = _with_zeros_between(ctx, x, stride)
    cells = [span - 1 for span in window.span]
    pads = [cell - begin for cell, begin in zip(cells, begins, strict=True)]
    pads += [cell - end for cell, end in zip(cells, ends, strict=True)]
    # What the crop takes away may be more than a convolution can pad: pad apart.
    padded = ctx.emit(ops.Pad(spread, pads=(0, 0, *pads[:rank], 0, 0, *pads[rank:])))
    around = Window(kernel, (1,) * rank, (0,) * 2 * rank, window.dilation, (0,) * rank)
    turned = _turned(ctx, filter, group, [_Phase(0, n, 0, 0) for n in kernel], (1,) * rank)
    return emit_convolution(ctx, padded, turned, bias, around, group)


@dataclass(frozen=True)
class _Phase:
    """One dimension of the convolution for the results ``stride * q + number``, all q.

    Attributes:
        tap: The first tap of the filter that such results meet; the next are a stride apart.
        taps: How many of them there are.
        begin, end: Cells of padding.
    """

    tap: int
    taps: int
    begin: int
    end: int


@dataclass(frozen=True)
class _Line:
    """One dimension of a transposed convolution.

    Result number ``o`` is the sum over i of ``x[i] * w[k]`` where
    ``o + begin = stride * i + dilation * k``. The taps that fit are those with one remainder modulo
    the stride, so the results at every stride-th place are an ordinary convolution.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def results(self) -> int:
        """Number of results."""
        span = self.dilation * (self.kernel - 1) + 1
        return self.stride * (self.size - 1) + span - self.begin - self.end

    @property
    def phases(self) -> list[_Phase]:
        """The convolution for each remainder of a result's number."""
        steps = -(-self.results // self.stride)
        phases = []
        for number in range(self.stride):
            skipped, tap = divmod(number + self.begin, self.stride)
            taps = -(-(self.kernel - tap) // self.stride)
            reach = self.dilation * (taps - 1) if self.stride == 1 else taps - 1
            phases.append(_Phase(tap, taps, reach - skipped, steps + skipped - self.size))
        return phases

    @property
    def has_phases(self) -> bool:
        """True if every phase is a convolution as there are: with a tap, and nothing cropped."""
        is_spread = self.stride > 1 and self.dilation > 1
        if min(self.size, self.results) < 1 or self.begin < 0 or is_spread:
            return False
        return all(phase.taps > 0 and min(phase.begin, phase.end) >= 0 for phase in self.phases)


def _by_phases(
    ctx: Context, x: Value, filter: Value, bias: Value | None, lines: list[_Line], group: int
) -> Value:
    """Return the convolutions of all phases, their results side by side and then spread out.

    ::

        [N, S * K, Q...] -> [N, s..., K, Q...] -> [N, K, Q, s, ...] -> [N, K, Q * s, ...]
    """
    rank, stride = len(lines), tuple(line.stride for line in lines)
    dilation = tuple(line.dilation for line in lines)
    windows, filters = [], []
    for phases in product(*(line.phases for line in lines)):
        pads = (*(phase.begin for phase in phases), *(phase.end for phase in phases))
        kernel = tuple(phase.taps for phase in phases)
        windows.append(Window(kernel, (1,) * rank, pads, dilation, (0,) * rank))
        filters.append(_turned(ctx, filter, group, list(phases), stride))
    count = len(windows)
    if group == 1 and len(set(windows)) == 1:
        filters = [ctx.emit(ops.Concat(tuple(filters), axis=0))]
        windows = windows[:1]
        bias = ctx.emit(ops.Concat((bias,) * count, axis=0)) if bias is not None else None
    parts = [
        emit_convolution(ctx, x, part, bias, window, group)
        for part, window in zip(filters, windows, strict=True)
    ]
    value = parts[0] if len(parts) == 1 else ctx.emit(ops.Concat(tuple(parts), axis=1))
    return value if count == 1 else _spread_out(ctx, value, lines)


def _spread_out(ctx: Context, value: Value, lines: list[_Line]) -> Value:
    """Return the results of all phases, which lie side by side in the channels, in their places."""
    rank, stride = len(lines), tuple(line.stride for line in lines)
    batch, channels, *steps = value.type.shape
    depth = channels // prod(stride)
    value = ctx.reshape(value, (batch, *stride, depth, *steps))
    pairs = [axis for i in range(rank) for axis in (rank + 2 + i, 1 + i)]
    value = ctx.transpose(value, (0, rank + 1, *pairs))
    sizes = [count * step for count, step in zip(steps, stride, strict=True)]
    value = ctx.reshape(value, (batch, depth, *sizes))
    cut = [line.results - size for line, size in zip(lines, sizes, strict=True)]
    return ctx.emit(ops.Pad(value, pads=(*(0,) * (rank + 4), *cut))) if any(cut) else value


def _transposed_pads(
    ctx: Context,
    node: OnnxNode,
    spatial: tuple[int, ...],
    window: Window,
    stride: tuple[int, ...],
) -> tuple[list[int], list[int]]:
    """Return how much is cut off the full result at begin and end; the end may be negative."""
    rank = len(spatial)
    extra = node.integers("output_padding", (0,) * rank)
    shape = node.integers("output_shape", ())[-rank:]
    mode = node.text("auto_pad", "NOTSET")
    if len(extra) != rank or len(shape) not in (0, rank):
        raise ctx.wrong(f"output_padding and output_shape must have {rank} numbers each")
    full = [s * (n - 1) + span for n, s, span in zip(spatial, stride, window.span, strict=True)]
    if not shape and mode in ("NOTSET", "VALID"):
        ends = [end - more for end, more in zip(window.pads[rank:], extra, strict=True)]
        return list(window.pads[:rank]), ends
    wanted = shape or tuple(n * s for n, s in zip(spatial, stride, strict=True))
    totals = [n + more - w for n, more, w in zip(full, extra, wanted, strict=True)]
    halves = [max(total, 0) // 2 for total in totals]
    if mode != "SAME_UPPER":
        halves = [max(total, 0) - half for total, half in zip(totals, halves, strict=True)]
    # The result has the wanted size: padding on demand is no padding of the crop.
    ends = [n - w - half for n, w, half in zip(full, wanted, halves, strict=True)]
    return halves, ends


def _with_zeros_between(ctx: Context, x: Value, stride: tuple[int, ...]) -> Value:
    """Return *x* with ``stride - 1`` zeros between its elements in each spatial dimension."""
    if all(s == 1 for s in stride):
        return x
    batch, channels, *spatial = x.type.shape
    apart = [n for size in spatial for n in (size, 1)]
    value = ctx.reshape(x, (batch, channels, *apart))
    ends = [n for s in stride for n in (0, s - 1)]
    value = ctx.emit(ops.Pad(value, pads=(*(0,) * value.type.rank, 0, 0, *ends)))
    value = ctx.reshape(
        value, (batch, channels, *(n * s for n, s in zip(spatial, stride, strict=True)))
    )
    return ctx.emit(ops.Pad(value, pads=(*(0,) * x.type.rank, 0, 0, *(1 - s for s in stride))))


def _turned(
    ctx: Context, filter: Value, group: int, phases: list[_Phase], stride: tuple[int, ...]
) -> Value:
    """Return ``[K, C / group, ...]``, turned around, of the taps of *phases* of a filter."""
    channels, depth, *_ = filter.type.shape
    rank = len(phases)
    turned = ctx.emit(
        ops.Slice(
            filter,
            starts=(
                *(0, 0),
                *(p.tap + s * (p.taps - 1) for p, s in zip(phases, stride, strict=True)),
            ),
            stops=(channels, depth, *(phase.tap - 1 for phase in phases)),
            steps=(1, 1, *(-s for s in stride)),
        )
    )
    kernel = [phase.taps for phase in phases]
    grouped = ctx.reshape(turned, (group, channels // group, depth, *kernel))
    swapped = ctx.transpose(grouped, (0, 2, 1, *range(3, rank + 3)))
    return ctx.reshape(swapped, (group * depth, channels // group, *kernel))
