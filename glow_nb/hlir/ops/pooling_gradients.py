"""The gradients of pools for their input, channels last."""

from __future__ import annotations

from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.size import symbols_in
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.arithmetic import Div, Maximum, Mul
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.comparison import Less, Select
from glow_nb.hlir.ops.families import FLOATS, fitted, require_kind, require_type, splat, wide
from glow_nb.hlir.ops.gather import GatherElements
from glow_nb.hlir.ops.pooling import (
    MaxPoolWithArgmax,
    check_uncounted,
    counted_cells,
    largest_cells,
)
from glow_nb.hlir.ops.scatter import ScatterElements
from glow_nb.hlir.ops.shape import Reshape, Transpose
from glow_nb.hlir.ops.transposed_convolution import TransposedConvolution
from glow_nb.hlir.ops.window_counts import emit_counts
from glow_nb.hlir.ops.windows import Windowed, crop_spatial, pad_spatial
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("max_pool_gradient")
class MaxPoolGradient(Windowed):
    """Add each element of *gradient* to the place of the largest element of its window.

    *input* is the ``[N, *in, C]`` input of a max pool, *gradient* that of its result, ``[N, *out,
    C]``; the result is the gradient for the input. Of equal elements the first in the window
    counts, a NaN is the largest, of several the last, and padding is never chosen, as PyTorch has
    it. Of a window in padding alone the gradient is dropped.
    """

    input: Value
    gradient: Value

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, FLOATS)
        out = self.window.checked(self, type)
        wanted = type.with_shape((type.shape[0], *out, type.shape[-1]))
        require_type(self, "gradient", wanted, "input")
        return type

    @override
    def evaluate(self, input: Array, gradient: Array) -> Array:
        _, places = largest_cells(self, input, gradient.shape[1:-1])
        batch, *spatial, channels = input.shape
        sums = np.zeros((batch, channels, *spatial))
        is_chosen = places >= 0
        with np.errstate(all="ignore"):
            np.add.at(sums.reshape(-1), places[is_chosen], wide(gradient)[is_chosen])
        return fitted(np.moveaxis(sums, 1, -1), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.gradient.type.size * (prod(self.kernel) + 1))


@lowers(MaxPoolGradient)
def lower_max_pool_gradient(node: MaxPoolGradient, rewriter: Rewriter) -> Value:
    """Express it as a scatter to the places that a max pool names."""
    emit, type, count = rewriter.emit, node.type, node.gradient.type.size
    zero = splat(rewriter, type.with_shape((1,)), 0, "zero")
    sums: Value = emit(Broadcast(zero, (type.size,)))
    batch, *spatial, channels = type.shape
    if type.size:
        places, is_none = _chosen_places(node, rewriter)
        updates = emit(Select(is_none, splat(rewriter, type, 0, "zero"), node.gradient))
        updates_row = emit(Reshape(updates, (count,)))
        sums = emit(ScatterElements(sums, places, updates_row, reduction="add"))
    planes = emit(Reshape(sums, (batch, channels, *spatial)))
    return emit(Transpose(planes, (0, *range(2, type.rank), 1)))


def chosen_elements(node: MaxPoolGradient, values: Value, builder: Builder) -> Value:
    """Return of *values*, like the input of *node*, those at the largest element of each window.

    A window in padding alone has 0.
    """
    type = node.gradient.type
    if not values.type.size:
        return builder.emit(Broadcast(splat(builder, type, 0, "zero"), type.shape))
    places, is_none = _chosen_places(node, builder)
    rank = values.type.rank
    planes = builder.emit(Transpose(values, (0, rank - 1, *range(1, rank - 1))))
    elements = GatherElements(builder.emit(Reshape(planes, (values.type.size,))), places)
    found = builder.emit(Reshape(builder.emit(elements), type.shape))
    return builder.emit(Select(is_none, splat(builder, type, 0, "zero"), found))


def _chosen_places(node: MaxPoolGradient, builder: Builder) -> tuple[Value, Value]:
    """Return the places of the largest elements as one row, and which windows have none."""
    _, places = builder.emit(MaxPoolWithArgmax(node.input, **node.window.attributes)).results
    is_none = builder.emit(Less(places, splat(builder, places.type, 0, "first_place")))
    return builder.emit(Reshape(places, (places.type.size,))), is_none


@define_node("avg_pool_gradient")
class AvgPoolGradient(Windowed):
    """Share each element of *gradient* out among the elements of its window that count.

    *gradient* is that of the ``[N, *out, C]`` result of an average pool; the result is the gradient
    for its input, ``[N, *size, C]``. Each element of the input gets the sum over the windows that
    it lies in of their gradient divided by their count of cells; see
    :class:`~glow_nb.hlir.ops.pooling.AvgPool` for what counts.

    Attributes:
        size: The spatial sizes of the input.
        count_padding: Divide by all cells, padding included; else by those of the input.
        uncounted: The number of outermost cells of the end padding in each spatial dimension that
            are never counted. Empty for none.
    """

    gradient: Value
    size: tuple[int, ...]
    count_padding: bool = False
    uncounted: tuple[int, ...] = ()

    @override
    def infer_type(self) -> TensorType:
        gradient = self.gradient.type
        require_kind(self, "gradient", gradient, FLOATS)
        self.require(
            gradient.rank == len(self.size) + 2 and all(n >= 0 for n in self.size),
            f"size {self.size} must be the spatial sizes of a result like gradient {gradient}",
        )
        result = gradient.with_shape((gradient.shape[0], *self.size, gradient.shape[-1]))
        out = self.window.checked(self, result, "result")
        wanted = gradient.with_shape((gradient.shape[0], *out, gradient.shape[-1]))
        require_type(self, "gradient", wanted, f"result {result}")
        check_uncounted(self, self.pads, self.uncounted)
        return result

    @override
    def evaluate(self, gradient: Array) -> Array:
        padded = pad_spatial(np.zeros(self.type.shape), self.pads, 0)
        out = gradient.shape[1:-1]
        with np.errstate(all="ignore"):
            shares = wide(gradient) / counted_cells(self, self.size, out)
            for _, cells in self.window.taps(padded, out):
                cells += shares
        return fitted(crop_spatial(padded, self.pads), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(others=self.gradient.type.size * (prod(self.kernel) + 1))


@lowers(AvgPoolGradient)
def lower_avg_pool_gradient(node: AvgPoolGradient, rewriter: Rewriter) -> Value:
    """Express it as a transposed convolution of each channel, by ones, of the shares."""
    emit, channels = rewriter.emit, node.type.shape[-1]
    if not channels:  # no convolution has 0 groups
        return emit(Broadcast(splat(rewriter, node.type, 0, "zero"), node.type.shape))
    factors = _shares(node, rewriter)
    ones = splat(rewriter, node.type, 1, f"{node.name}_one")
    return emit(
        TransposedConvolution(
            emit(Mul(node.gradient, factors)),
            emit(Broadcast(ones, (channels, *node.kernel, 1))),
            **node.window.attributes,
            size=node.size,
            group=channels,
        )
    )


def _shares(node: AvgPoolGradient, rewriter: Rewriter) -> Value:
    """Emit what each element of a window gets of its gradient: no NaN where a filter has zeros."""
    if symbols_in((node.size, node.pads)):
        counts = emit_counts(node, node.size, node.type.kind, rewriter)
        one, none = (splat(rewriter, counts.type, n, "number") for n in (1, 0))
        parts = rewriter.emit(Div(one, rewriter.emit(Maximum(counts, one))))
        return rewriter.emit(Select(rewriter.emit(Less(none, counts)), parts, none))
    counted = counted_cells(node, node.size, node.gradient.type.shape[1:-1])
    shares = np.where(counted > 0, 1 / np.maximum(counted, 1), 0)
    return rewriter.constant(
        f"{node.name}_parts", fitted(shares, node.type.with_shape(shares.shape))
    )
