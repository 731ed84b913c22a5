"""Transposed convolution: the gradient of a convolution for its input, channels last."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.families import (
    NUMBERS,
    Wide,
    fitted,
    product_kind,
    require_kind,
    require_type,
    splat,
    widest,
)
from glow_nb.hlir.ops.phases import Line, Phase
from glow_nb.hlir.ops.shape import Concat, Pad, Reshape, Slice, Transpose
from glow_nb.hlir.ops.windows import Windowed, crop_spatial, pad_spatial
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers

MOST_PHASES = 16
"""Convolutions that one transposed convolution may become."""


@define_node("transposed_convolution")
class TransposedConvolution(Windowed):
    """Spread an ``[N, *out, K]`` tensor by the ``[K, *kernel, C / group]`` filter of a convolution.

    ``result[n, o * stride + t * dilation - begin, c] += sum over k of input[n, o, k] *
    filter[k, t, c]``, where ``k`` runs over the group of ``c``; what falls outside ``[N, *size,
    C]`` is dropped, and what nothing reaches is 0. It is the gradient of the
    :class:`~glow_nb.hlir.ops.convolution.Convolution` with the same filter and attributes for its
    input, given that for its result. Integers are summed up as those of a convolution are.

    Attributes:
        size: The spatial sizes of the result; a window that slides over it as the other attributes
            say has one place for each element of the input.
        group: Channels are cut into this number of groups that are convolved apart.
        wide: The result is float32, and sums of products of 16-bit floats are not rounded to these.
    """

    input: Value
    filter: Value
    size: tuple[int, ...]
    group: int = 1
    wide: Wide = False

    @property
    def factors(self) -> tuple[Value, Value]:
        """The factors: the input and the filter."""
        return self.input, self.filter

    @override
    def infer_type(self) -> TensorType:
        input, filter = self.input.type, self.filter.type
        require_kind(self, "input", input, NUMBERS)
        kind = product_kind(self, input, filter, wide=self.wide)
        self.require(
            input.rank == len(self.size) + 2 and all(n >= 0 for n in self.size),
            f"size {self.size} must be the spatial sizes of a result like input {input}",
        )
        self.require(
            filter.rank == input.rank, f"'filter' is {filter}; wanted the rank of input {input}"
        )
        depth, channels = input.shape[-1], filter.shape[-1] * self.group
        self.require(
            self.group > 0 and depth % self.group == 0,
            f"{depth} channels of input {input} do not divide into group = {self.group}",
        )
        result = TensorType(kind, (input.shape[0], *self.size, channels))
        out = self.window.checked(self, result, "result")
        wanted = TensorType(input.kind, (input.shape[0], *out, depth))
        require_type(self, "input", wanted, f"result {result}")
        wanted = TensorType(filter.kind, (depth, *self.kernel, filter.shape[-1]))
        require_type(self, "filter", wanted, "input")
        return result

    @override
    def evaluate(self, input: Array, filter: Array) -> Array:
        with np.errstate(all="ignore"):
            return fitted(transposed_convolve(self, widest(input), widest(filter)), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.input.type.size * prod(self.kernel) * self.filter.type.shape[-1])


def transposed_convolve(node: Any, x: Any, filter: Any) -> Any:
    """Return the sums of a transposed convolution *node* of *x*, ``[N, *size, C]``.

    Takes kernel, stride, pads, dilation, group and the result's size from *node*.
    """
    batch, *out, depth = x.shape
    group = node.group
    padded = pad_spatial(np.zeros(node.type.shape, x.dtype), node.pads, 0)
    rows = x.reshape(batch * prod(out), group, depth // group).swapaxes(0, 1)
    weights = filter.reshape(group, depth // group, *filter.shape[1:])
    for tap, cells in node.window.taps(padded, tuple(out)):
        product = rows @ weights[(slice(None), slice(None), *tap)]
        cells += product.swapaxes(0, 1).reshape(cells.shape)
    return crop_spatial(padded, node.pads)


_Phases = tuple[Phase, ...]


@lowers(TransposedConvolution)
def lower_transposed_convolution(node: TransposedConvolution, rewriter: Rewriter) -> Value:
    """Express it as convolutions, one for each place of a result between two strides.

    ``result[n, stride * q + number]`` meets the taps of one remainder modulo the stride alone.
    If these are as many for each place, one convolution has the results of all.
    """
    node = replace(node, **node.window.with_short_strides(node.size).attributes)
    lines = _lines(node)
    phases = list(itertools.product(*(line.phases for line in lines)))
    is_empty = 0 in (node.type.size, node.input.type.size)
    if is_empty or not any(map(_has_taps, phases)):
        return _zeros(node.type, rewriter)
    if all(line.is_even for line in lines):
        filter = _turned(node.filter, node.group, node.stride, rewriter)
        part = _convolved(node, phases[0], lines, filter, rewriter)
        return part if len(phases) == 1 else _interleaved(node, part, lines, node.group, rewriter)
    if sum(map(_has_taps, phases)) > MOST_PHASES:
        return _with_like_phases(node, rewriter)
    parts = [_part(node, p, lines, rewriter) for p in phases]
    joined = rewriter.emit(Concat(tuple(parts), axis=node.type.rank - 1))
    return _interleaved(node, joined, lines, 1, rewriter)


def _lines(node: TransposedConvolution) -> list[Line]:
    rank = len(node.size)
    sizes = zip(
        node.input.type.shape[1:-1],
        *(node.size, node.kernel, node.stride, node.dilation, node.pads[:rank]),
        strict=True,
    )
    return [Line(*line) for line in sizes]


def _has_taps(phases: _Phases) -> bool:
    return all(phase.taps for phase in phases)


def _zeros(type: TensorType, rewriter: Rewriter) -> Value:
    return rewriter.emit(Broadcast(splat(rewriter, type, 0, "zero"), type.shape))


def _part(
    node: TransposedConvolution, phases: _Phases, lines: Sequence[Line], rewriter: Rewriter
) -> Value:
    """Return the results of one phase, ``[N, *places, C]``."""
    if not _has_taps(phases):
        batch, *_, channels = node.type.shape
        places = (line.places for line in lines)
        return _zeros(node.type.with_shape((batch, *places, channels)), rewriter)
    rank, (depth, *_, channels) = len(lines), node.filter.type.shape
    chosen = Slice(
        node.filter,
        starts=(0, *(phase.tap for phase in phases), 0),
        stops=(depth, *node.kernel, channels),
        steps=(1, *(line.step for line in lines), 1),
    )
    filter = _turned(rewriter.emit(chosen), node.group, (1,) * rank, rewriter)
    return _convolved(node, phases, lines, filter, rewriter)


def _turned(filter: Value, group: int, stride: Sequence[int], rewriter: Rewriter) -> Value:
    """Return the filter of the convolution that has the results of all phases.

    Every stride-th tap is of one phase, and its taps are reversed::

        [K, taps * stride..., C / group] -> [group * stride... * C / group, taps..., K / group]
    """
    emit, rank, (depth, *kernel, channels) = rewriter.emit, len(stride), filter.type.shape
    taps = [k // s for k, s in zip(kernel, stride, strict=True)]
    inner = [n for pair in zip(taps, stride, strict=True) for n in pair]
    split = emit(Reshape(filter, (group, depth // group, *inner, channels)))
    back = emit(
        Slice(
            split,
            starts=(0, 0, *(n for t in taps for n in (t - 1, 0)), 0),
            stops=(group, depth // group, *(n for s in stride for n in (-1, s)), channels),
            steps=(1, 1, *(-1, 1) * rank, 1),
        )
    )
    pairs = range(2, 2 * rank + 2, 2)
    order = (0, *(axis + 1 for axis in pairs), 2 * rank + 2, *pairs, 1)
    moved = emit(Transpose(back, order))
    return emit(Reshape(moved, (group * prod(stride) * channels, *taps, depth // group)))


def _convolved(
    node: TransposedConvolution,
    phases: _Phases,
    lines: Sequence[Line],
    filter: Value,
    rewriter: Rewriter,
) -> Value:
    """Return the convolution of the input with the reversed *filter* of one phase, or several."""
    pads = [*(phase.begin for phase in phases), *(phase.end for phase in phases)]
    input, rank = node.input, len(phases)
    if min(pads) < 0:
        unread = [min(pad, 0) for pad in pads]
        input = rewriter.emit(Pad(input, pads=(0, *unread[:rank], 0, 0, *unread[rank:], 0)))
    bias = np.zeros(filter.type.shape[0], node.type.kind.dtype)
    return rewriter.emit(
        Convolution(
            input,
            filter,
            rewriter.constant(f"{node.name}_no_bias", bias),
            kernel=filter.type.shape[1:-1],
            stride=(1,) * rank,
            pads=tuple(max(pad, 0) for pad in pads),
            dilation=tuple(line.apart for line in lines),
            group=node.group,
            wide=node.wide,
        )
    )


def _interleaved(
    node: TransposedConvolution,
    value: Value,
    lines: Sequence[Line],
    group: int,
    rewriter: Rewriter,
) -> Value:
    """Return the results of all phases in their places.

    They lie side by side in the channels of each of *group* groups::

        [N, *q, group, *stride, C / group] -> [N, q, stride, ..., group, C / group]
    """
    emit, rank = rewriter.emit, len(lines)
    batch, *places, _ = value.type.shape
    channels = node.type.shape[-1]
    split = emit(Reshape(value, (batch, *places, group, *node.stride, channels // group)))
    pairs = (axis for i in range(1, rank + 1) for axis in (i, rank + 1 + i))
    moved = emit(Transpose(split, (0, *pairs, rank + 1, 2 * rank + 2)))
    sizes = [line.places * line.stride for line in lines]
    result: Value = emit(Reshape(moved, (batch, *sizes, channels)))
    beyond = [n - size for n, size in zip(node.size, sizes, strict=True)]
    if all(n == 0 for n in beyond):
        return result
    return emit(Pad(result, pads=(*(0,) * (rank + 3), *beyond, 0)))


def _with_like_phases(node: TransposedConvolution, rewriter: Rewriter) -> Value:
    """Return *node* with zeros among the taps: equal numbers of taps and results in all phases.

    A stride so large that each phase cannot be a convolution of its own makes one of them all.
    """
    rank, emit = len(node.size), rewriter.emit
    filter = _spread(node.filter, node.dilation, rewriter)
    missing = [-n % s for n, s in zip(filter.type.shape[1:-1], node.stride, strict=True)]
    filter = emit(Pad(filter, pads=(*(0,) * (rank + 3), *missing, 0)))
    kernel = filter.type.shape[1:-1]
    places = node.input.type.shape[1:-1]
    size = tuple(s * (n - 1) + k for n, s, k in zip(places, node.stride, kernel, strict=True))
    whole = emit(
        replace(
            node,
            filter=filter,
            kernel=kernel,
            pads=(0,) * 2 * rank,
            dilation=(1,) * rank,
            size=size,
            name="",
        )
    )
    begins = node.pads[:rank]
    ends = [n + b - s for n, b, s in zip(node.size, begins, size, strict=True)]
    return emit(Pad(whole, pads=(0, *(-b for b in begins), 0, 0, *ends, 0)))


def _spread(filter: Value, dilation: Sequence[int], rewriter: Rewriter) -> Value:
    """Return *filter* with ``dilation - 1`` zeros between its taps."""
    if set(dilation) == {1}:
        return filter
    emit, rank = rewriter.emit, len(dilation)
    depth, *kernel, channels = filter.type.shape
    apart = emit(Reshape(filter, (depth, *(n for k in kernel for n in (k, 1)), channels)))
    zeros = (n for d in dilation for n in (0, d - 1))
    padded = emit(Pad(apart, pads=(*(0,) * (2 * rank + 3), *zeros, 0)))
    sizes = (k * d for k, d in zip(kernel, dilation, strict=True))
    spread = emit(Reshape(padded, (depth, *sizes, channels)))
    return emit(Pad(spread, pads=(*(0,) * (rank + 3), *(1 - d for d in dilation), 0)))
