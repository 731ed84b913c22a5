"""The gradient of a convolution for its filter, channels last."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.families import (
    FLOATS,
    Wide,
    fitted,
    product_kind,
    require_kind,
    require_type,
    wide,
)
from glow_nb.hlir.ops.matrix import MatMul
from glow_nb.hlir.ops.shape import Concat, Pad, Reshape, Slice, Transpose
from glow_nb.hlir.ops.windows import Windowed, pad_spatial
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("convolution_filter_gradient")
class ConvolutionFilterGradient(Windowed):
    """Multiply what lies under each tap of a window by the gradient of its result, and sum up.

    ``result[k, t, c] = sum over n, o of gradient[n, o, k] * input[n, o * stride + t * dilation -
    begin, c]``, where ``c`` runs over the group of ``k`` and cells outside the input count as 0:
    the gradient of the :class:`~glow_nb.hlir.ops.convolution.Convolution` of *input*, ``[N, *in,
    C]``, for its filter, ``[K, *kernel, C / group]``, given that for its result, ``[N, *out, K]``.

    Attributes:
        group: Channels are cut into this number of groups that are convolved apart.
        wide: The result is float32, and sums of products of 16-bit floats are not rounded to these.
    """

    input: Value
    gradient: Value
    group: int = 1
    wide: Wide = False

    @property
    def factors(self) -> tuple[Value, Value]:
        """The factors: the input and the gradient."""
        return self.input, self.gradient

    @override
    def infer_type(self) -> TensorType:
        input, gradient = self.input.type, self.gradient.type
        require_kind(self, "input", input, FLOATS)
        kind = product_kind(self, input, gradient, wide=self.wide)
        out = self.window.checked(self, input)
        depth = gradient.shape[-1] if gradient.rank else 0
        wanted = TensorType(input.kind, (input.shape[0], *out, depth))
        require_type(self, "gradient", wanted, "input")
        channels = input.shape[-1]
        self.require(
            self.group > 0 and channels % self.group == 0 and depth % self.group == 0,
            f"{channels} channels of input {input} and {depth} of gradient {gradient} do not both "
            f"divide into group = {self.group}",
        )
        return TensorType(kind, (depth, *self.kernel, channels // self.group))

    @override
    def evaluate(self, input: Array, gradient: Array) -> Array:
        depth, *_, inner = self.type.shape
        out, group = gradient.shape[1:-1], self.group
        count = prod(gradient.shape[:-1])
        padded = pad_spatial(wide(input), self.pads, 0)
        rows = wide(gradient).reshape(count, group, depth // group).transpose(1, 2, 0)
        result = np.zeros((group, depth // group, *self.kernel, inner))
        with np.errstate(all="ignore"):
            for tap, cells in self.window.taps(padded, out):
                columns = cells.reshape(count, group, inner).swapaxes(0, 1)
                place: Any = (slice(None), slice(None), *tap)
                result[place] = rows @ columns
        return fitted(result, self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.gradient.type.size * prod(self.kernel) * self.type.shape[-1])


@lowers(ConvolutionFilterGradient)
def lower_convolution_filter_gradient(node: ConvolutionFilterGradient, rewriter: Rewriter) -> Value:
    """Express it as a matrix product for each tap, of the gradient and a slice of the input."""
    emit, group = rewriter.emit, node.group
    depth, *_, inner = node.type.shape
    batch, *out, _ = node.gradient.type.shape
    rank, count = len(out), batch * prod(out)
    split = emit(Reshape(node.gradient, (count, group, depth // group)))
    rows = emit(Transpose(split, (1, 2, 0)))
    pads = node.pads
    padded = emit(Pad(node.input, pads=(0, *pads[:rank], 0, 0, *pads[rank:], 0)))
    products = []
    for _, slices in node.window.tap_slices(tuple(out)):
        starts, stops = (0, *(s.start for s in slices), 0), (s.stop for s in slices)
        cells = emit(
            Slice(
                padded,
                starts=starts,
                stops=(batch, *stops, inner * group),
                steps=(1, *node.stride, 1),
            )
        )
        columns = emit(Reshape(cells, (count, group, inner)))
        product = emit(MatMul(rows, emit(Transpose(columns, (1, 0, 2))), wide=node.wide))
        products.append(emit(Reshape(product, (depth, 1, inner))))
    return emit(Reshape(emit(Concat(tuple(products), axis=1)), node.type.shape))
