"""Convolution over one, two or three spatial dimensions, channels last."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import (
    NUMBERS,
    SHORT_INTEGERS,
    Kinds,
    Wide,
    fitted,
    product_kind,
    require_kind,
    require_type,
    widest,
)
from glow_nb.hlir.ops.windows import Windowed, pad_spatial

MAX_CELLS = 1 << 22
"""The matrix of windows is made piece by piece, of about this number of elements."""

PADDED_KINDS: Kinds = SHORT_INTEGERS | {ElementKind.INT32}
"""The kinds of inputs that a convolution may pad with another number than 0."""


@define_node("convolution")
class Convolution(Windowed):
    """Convolve an ``[N, *in, C]`` tensor with a ``[K, *kernel, C / group]`` filter.

    ``result[n, o, k] = bias[k] + sum over t, c of input[n, o * stride + t * dilation - begin, c] *
    filter[k, t, c]``, where the channels ``c`` run over the group of ``k`` and cells outside the
    input count as *pad_value*. The result is ``[N, *out, K]`` with
    ``out = (in + begin + end - dilation * (kernel - 1) - 1) // stride + 1``. Integers of 8 and 16
    bits and int32, which may be unlike, are summed up in int32, the kind of bias and result.

    Attributes:
        group: Channels are cut into this number of groups that are convolved apart.
        pad_value: The value of cells of padding: 0, but another number for the input of integers
            that are summed up in int32 and represent 0 by that number.
        wide: The result and the bias are float32, and sums of products of 16-bit floats are not
            rounded to these.
    """

    input: Value
    filter: Value
    bias: Value
    group: int = 1
    pad_value: int = 0
    wide: Wide = False

    @property
    def factors(self) -> tuple[Value, Value]:
        """The factors: the input and the filter."""
        return self.input, self.filter

    @override
    def infer_type(self) -> TensorType:
        input, filter = self.input.type, self.filter.type
        require_kind(self, "input", input, NUMBERS)
        out = self.window.checked(self, input)
        kind, channels = product_kind(self, input, filter, wide=self.wide), input.shape[-1]
        self.require(
            self.group > 0 and channels % self.group == 0,
            f"{channels} channels of input {input} do not divide into group = {self.group}",
        )
        depth = filter.shape[0] if filter.rank else 0
        wanted = TensorType(filter.kind, (depth, *self.kernel, channels // self.group))
        require_type(self, "filter", wanted, "input")
        self.require(
            depth % self.group == 0,
            f"{depth} results of filter {filter} do not divide into group = {self.group}",
        )
        require_type(self, "bias", TensorType(kind, (depth,)), "filter")
        require_pad_value(self, input, self.pad_value)
        return TensorType(kind, (input.shape[0], *out, depth))

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        with np.errstate(all="ignore"):
            cells, weights = widest(input), widest(filter)
            sums = convolve(self, cells, weights, self.group, pad_value=self.pad_value)
            return fitted(sums + widest(bias), self.type)

    @override
    def cost(self) -> Cost:
        return convolution_cost(self)


def require_pad_value(node: Node, input: TensorType, value: int) -> None:
    """Raise VerifyError unless *value* may stand around the *input* of a convolution *node*."""
    if not value:
        return
    node.require(
        input.kind in PADDED_KINDS,
        f"pad_value is {value}, but around input {input} it must be 0; use a pad",
    )
    low, high = input.kind.limits
    node.require(
        low <= value <= high,
        f"pad_value is {value}, but for input {input} it must be from {low} to {high}",
    )


def convolution_cost(node: Any) -> Cost:
    """Return the arithmetic of a convolution by *kernel* and *group*, and one bias a result."""
    products = prod(node.kernel) * node.input.type.shape[-1] // node.group
    return Cost(node.type.size * products, node.type.size)


def convolve(node: Any, x: Any, filter: Any, group: int, *, pad_value: int = 0) -> Any:
    """Return the sums of a convolution *node* of *x* without bias, ``[N, *out, K]``.

    Takes kernel, stride, pads, dilation and the result's size from *node*; padding counts as
    *pad_value*. The cells under each window become the rows of a matrix, which is multiplied by the
    filter.
    """
    out, depth, inner = node.type.shape[1:-1], filter.shape[0], filter.shape[-1]
    weights = filter.reshape(group, depth // group, prod(node.kernel) * inner).swapaxes(1, 2)
    padded = pad_spatial(x, node.pads, pad_value)
    views = [view for _, view in node.window.taps(padded, out)]
    sums = np.empty((x.shape[0], *out, depth), x.dtype)
    step = max(1, MAX_CELLS * out[0] // max(1, views[0].size * len(views)))
    for first in range(0, out[0], step):
        cells = np.stack([view[:, first : first + step] for view in views], axis=-2)
        count = prod(cells.shape[:-2])
        rows = cells.reshape(count, len(views), group, inner).transpose(2, 0, 1, 3)
        product = rows.reshape(group, count, len(views) * inner) @ weights
        target = sums[:, first : first + step]
        target[...] = product.transpose(1, 0, 2).reshape(target.shape)
    return sums
