"""Average pooling of quantized tensors: exact sums of integers, scaled once."""

from __future__ import annotations

from math import prod

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import rounded
from glow_nb.base.size import symbols_in
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.arithmetic import Add, Div
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.families import fitted, splat
from glow_nb.hlir.ops.integer_products import requantized
from glow_nb.hlir.ops.linear_quantization import INT32
from glow_nb.hlir.ops.pooling import WindowPool, check_uncounted, counted_cells
from glow_nb.hlir.ops.quantization import (
    ACTIVATIONS,
    Stored,
    as_type,
    quantized_result,
    require_quantized,
)
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.ops.sizes import size_value
from glow_nb.hlir.ops.window_counts import emit_counts
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("quantized_average_pool")
class QuantizedAveragePool(WindowPool):
    """Mean of the elements under the window; padding counts as 0 if it counts at all.

    ``saturate(rint(sum of (input - input.offset) * (input.scale / scale / count)) + offset)``: the
    sum is exact in int32, the rest is arithmetic of float32. A window without a counted cell gives
    the least number of the kind, as NaN does.

    Attributes:
        kind: Kind of the result.
        scale: Scale of the result.
        offset: Offset of the result.
        count_padding: Divide by all cells, padding included; else by those of the input.
        uncounted: The number of outermost cells of the end padding in each spatial dimension that
            are never counted: those that rounding the result size up has added. Empty for none.
    """

    kind: ElementKind
    scale: float
    offset: int
    count_padding: bool = False
    uncounted: tuple[int, ...] = ()

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_quantized(self, "input", type, ACTIVATIONS)
        out = self.window.checked(self, type)
        check_uncounted(self, self.pads, self.uncounted)
        return quantized_result(self, (type.shape[0], *out, type.shape[-1]))

    @override
    def evaluate(self, input: Array) -> Array:
        distance = input.astype(np.int64) - self.input.type.quantization[1]
        sums = sum(cells for _, cells in self.taps_of(distance, 0)).astype(np.int32)
        ratio = sums.astype(np.float32) * self.multiplier()
        return fitted(rounded(ratio, np.asarray(self.offset), self.kind), self.type)

    @property
    def covers_input(self) -> bool:
        """Return whether there is a single window, that of all pixels and no padding."""
        sizes = self.input.type.shape[1:-1]
        return self.kernel == sizes and not self.is_padded

    def multiplier(self) -> Array:
        """Return the factor of each sum, float32 ``[1, *out, 1]``; inf where nothing counts."""
        count = counted_cells(self, self.input.type.shape[1:-1], self.type.shape[1:-1])
        with np.errstate(all="ignore"):
            return np.asarray(self.ratio / count.astype(np.float32))

    @property
    def ratio(self) -> np.float32:
        """The scale of the input over that of the result."""
        with np.errstate(all="ignore"):
            return np.float32(self.input.type.quantization[0]) / np.float32(self.scale)


@lowers(QuantizedAveragePool)
def lower_quantized_average_pool(node: QuantizedAveragePool, rewriter: Rewriter) -> Value:
    """Express it as sums, which are scaled."""
    if not node.type.size:
        return _empty(node.type, rewriter)
    sums = _whole_sums(node, rewriter) if node.covers_input else _window_sums(node, rewriter)
    return requantized(rewriter, node, sums, _multiplier(node, rewriter))


def _multiplier(node: QuantizedAveragePool, rewriter: Rewriter) -> Value:
    """Emit the factor of each sum, one for all windows with the same number of counted cells."""
    spatial = node.input.type.shape[1:-1]
    if symbols_in((spatial, node.pads)):
        counts = emit_counts(node, spatial, ElementKind.FLOAT32, rewriter)
        ratio = splat(rewriter, counts.type, node.ratio, "ratio")
        return rewriter.emit(Div(ratio, counts))
    each = node.multiplier()
    if (each == each.flat[0]).all():
        each = each.reshape(-1)[:1].reshape((1,) * each.ndim)
    return rewriter.constant("multiplier", each, is_weight=False)


def _whole_sums(node: QuantizedAveragePool, rewriter: Rewriter) -> Value:
    """Emit the sums of a single window, that of all pixels, as a reduction."""
    type, spatial = node.input.type, tuple(range(1, node.type.rank - 1))
    stored = rewriter.emit(Stored(node.input))
    sums = rewriter.emit(
        ReduceSum(rewriter.emit(ConvertTo(stored, INT32)), spatial, keep_dims=True)
    )
    number = -type.quantization[1] * prod(node.kernel)
    return rewriter.emit(Add(sums, size_value(rewriter, sums.type, number, "bias")))


def _window_sums(node: QuantizedAveragePool, rewriter: Rewriter) -> Value:
    """Emit the sums of all windows as a convolution of each channel with ones."""
    type = node.input.type
    channels = type.shape[-1]
    ones = np.ones((channels, *node.kernel, 1), np.int8)
    bias = np.full(channels, -type.quantization[1] * prod(node.kernel), np.int32)
    return rewriter.emit(
        Convolution(
            rewriter.emit(Stored(node.input)),
            rewriter.constant("ones", ones, is_weight=False),
            rewriter.constant("bias", bias, is_weight=False),
            **node.window.attributes,
            group=channels,
            pad_value=type.quantization[1] if node.is_padded else 0,
        )
    )


def _empty(type: TensorType, rewriter: Rewriter) -> Value:
    zero = rewriter.constant("zero", np.zeros((1,) * type.rank, type.kind.dtype), is_weight=False)
    return as_type(rewriter, rewriter.emit(Broadcast(zero, type.shape)), type)
