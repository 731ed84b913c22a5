"""Operators on filters and matrices packed into panels, which a backend with SIMD selects.

How the weights lie: :mod:`glow_nb.kernels.operators.panels`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.dot_instruction import dot_named_by
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.convolution import convolution_cost, convolve, require_pad_value
from glow_nb.hlir.ops.families import (
    NUMBERS,
    Wide,
    fitted,
    product_kind,
    require_kind,
    widest,
)
from glow_nb.hlir.ops.matrix import matrix_product_cost
from glow_nb.hlir.ops.windows import Windowed
from glow_nb.kernels.operators.panels import (
    check_block,
    check_dot,
    check_panels,
    joins_taps,
    panels_of,
    runs_of,
    unpacked_filter,
    unpacked_matrix,
)


@define_node("packed_convolution")
class PackedConvolution(Windowed):
    """Convolve like :class:`Convolution` with a filter packed into panels.

    With ``panels = ceil(depth / group / block)``: ``filter`` is
    ``[group, panels, *kernel, C / group, block]``, ``bias`` ``[group * panels * block]``, both
    padded with zeros at the end of each group; the result is ``[N, *out, depth]``. Where the dot
    instruction that the plan names multiplies groups, ``factors`` weights of a channel lie
    together: the filter is then ``[group, panels, *runs, ceil(run / factors), block * factors]``.

    Attributes:
        depth: Output channels.
        group: Channels are cut into this number of groups that are convolved apart.
        block: Output channels in a panel.
        pad_value: The number that cells outside the input count as.
        wide: As of the convolution.
    """

    input: Value
    filter: Value
    bias: Value
    depth: int
    group: int
    block: int
    pad_value: int = 0
    wide: Wide = False

    @override
    def infer_type(self) -> TensorType:
        input = self.input.type
        require_kind(self, "input", input, NUMBERS)
        out = self.window.checked(self, input)
        kind = check_panels(
            self,
            self.kernel,
            depth=self.depth,
            group=self.group,
            block=self.block,
            dot=dot_named_by(self.plan),
            joined=self._joins_taps,
            wide=self.wide,
        )
        require_pad_value(self, input, self.pad_value)
        return TensorType(kind, (input.shape[0], *out, self.depth))

    @property
    def factors(self) -> int:
        """Neighbouring weights of a channel that lie together."""
        return dot_named_by(self.plan).group

    @property
    def _joins_taps(self) -> bool:
        return joins_taps(self.factors, self.group, self.dilation)

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        channels = input.shape[-1] // self.group
        _, run = runs_of(self.kernel, channels, joined=self._joins_taps)
        plain = unpacked_filter(filter, self.depth, self.factors)[..., :run]
        plain = plain.reshape(self.depth, *self.kernel, channels)
        offsets = widest(bias).reshape(self.group, -1)[:, : self.depth // self.group]
        offsets = offsets.reshape(self.depth)
        with np.errstate(all="ignore"):
            sums = convolve(self, widest(input), plain, self.group, pad_value=self.pad_value)
            return fitted(sums + offsets, self.type)

    @override
    def cost(self) -> Cost:
        return convolution_cost(self)


@define_node("depthwise_convolution")
class DepthwiseConvolution(Windowed):
    """Convolve each channel on its own, giving ``m`` results for each of ``C`` channels.

    ``filter`` is ``[*kernel, C * m]`` and ``bias`` ``[C * m]``; output channel ``k`` reads input
    channel ``k // m``. The result is ``[N, *out, C * m]``.

    Attributes:
        wide: As of the convolution.
    """

    input: Value
    filter: Value
    bias: Value
    wide: Wide = False

    @property
    def multiplier(self) -> int:
        """Results for each input channel."""
        return self.bias.type.size // self.input.type.shape[-1]

    @override
    def infer_type(self) -> TensorType:
        input, filter, bias = self.input.type, self.filter.type, self.bias.type
        require_kind(self, "input", input, NUMBERS)
        out = self.window.checked(self, input)
        kind = product_kind(self, input, filter, wide=self.wide)
        depth, channels = filter.shape[-1] if filter.rank else 0, input.shape[-1]
        wanted = TensorType(filter.kind, (*self.kernel, depth))
        self.require(filter == wanted, f"'filter' is {filter}, but input {input} needs {wanted}")
        self.require(
            channels > 0 and depth % channels == 0,
            f"{depth} results of filter {filter} are no multiple of the channels of input {input}",
        )
        wanted = TensorType(kind, (depth,))
        self.require(bias == wanted, f"'bias' is {bias}, but filter {filter} needs {wanted}")
        return TensorType(kind, (input.shape[0], *out, depth))

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        plain = np.moveaxis(widest(filter), -1, 0)[..., None]
        with np.errstate(all="ignore"):
            sums = convolve(self, widest(input), plain, input.shape[-1])
            return fitted(sums + widest(bias), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size * prod(self.kernel), self.type.size)


@define_node("grouped_convolution")
class GroupedConvolution(Windowed):
    """Convolve groups of ``m`` channels, each of which gives ``m`` results.

    ``filter`` is ``[*kernel, m, C]`` and ``bias`` ``[C]``, with ``m`` a divisor of ``C``; output
    channel ``k`` reads the input channels from ``k - k % m`` on, number ``j`` of them with the
    weights ``filter[..., j, k]``. The result is ``[N, *out, C]``.

    Attributes:
        wide: As of the convolution.
    """

    input: Value
    filter: Value
    bias: Value
    wide: Wide = False

    @property
    def size(self) -> int:
        """Channels of a group."""
        return self.filter.type.shape[-2]

    @override
    def infer_type(self) -> TensorType:
        input, filter, bias = self.input.type, self.filter.type, self.bias.type
        require_kind(self, "input", input, NUMBERS)
        out = self.window.checked(self, input)
        kind, channels = product_kind(self, input, filter, wide=self.wide), input.shape[-1]
        size = filter.shape[-2] if filter.rank > 1 else 0
        wanted = TensorType(filter.kind, (*self.kernel, size, channels))
        self.require(filter == wanted, f"'filter' is {filter}, but input {input} needs {wanted}")
        self.require(
            size > 0 and channels % size == 0,
            f"{channels} channels of input {input} are no multiple of {size}, as in {filter}",
        )
        wanted = TensorType(kind, (channels,))
        self.require(bias == wanted, f"'bias' is {bias}, but filter {filter} needs {wanted}")
        return TensorType(kind, (input.shape[0], *out, channels))

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        plain = np.moveaxis(widest(filter), -1, 0)
        with np.errstate(all="ignore"):
            sums = convolve(self, widest(input), plain, input.shape[-1] // self.size)
            return fitted(sums + widest(bias), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size * prod(self.kernel) * self.size, self.type.size)


@define_node("packed_mat_mul")
class PackedMatMul(Node):
    """Multiply matrices like :class:`MatMul`, ``rhs`` packed into panels, and add a bias row.

    With ``panels = ceil(depth / block)``: ``lhs`` is ``[batch..., M, K]``, ``rhs``
    ``[batch..., panels, K, block]``, its batch equal to that of ``lhs`` or absent, and ``bias``
    ``[panels * block]`` or absent, both padded with zeros; the result is ``[batch..., M, depth]``.
    Where the dot instruction that the plan names multiplies groups, ``factors`` neighbours in a
    column lie together: ``rhs`` is then ``[batch..., panels, ceil(K / factors), block * factors]``.

    Attributes:
        depth: Columns of the result.
        block: Columns in a panel.
        wide: As of the product.
    """

    lhs: Value
    rhs: Value
    bias: Value | None
    depth: int
    block: int
    wide: Wide = False

    @property
    def factors(self) -> int:
        """Neighbours in a column that lie together."""
        return dot_named_by(self.plan).group

    @override
    def infer_type(self) -> TensorType:
        lhs, rhs = self.lhs.type, self.rhs.type
        require_kind(self, "lhs", lhs, NUMBERS)
        self.require(lhs.rank >= 2, f"'lhs' must be a matrix or a batch of them, got {lhs}")
        self.require(self.depth >= 0, f"depth is {self.depth}, but must not be negative")
        check_block(self, self.block)
        check_dot(self, dot_named_by(self.plan), lhs, rhs, lhs.shape[-1])
        panels = panels_of(self.depth, self.block)
        kind = product_kind(self, lhs, rhs, wide=self.wide)
        batch = rhs.shape[:-3] and lhs.shape[:-2]
        groups = panels_of(lhs.shape[-1], self.factors)
        wanted = TensorType(rhs.kind, (*batch, panels, groups, self.block * self.factors))
        self.require(rhs == wanted, f"'rhs' is {rhs}, but lhs {lhs} needs {wanted}")
        if self.bias is not None:
            wanted = TensorType(kind, (panels * self.block,))
            found = self.bias.type
            self.require(found == wanted, f"'bias' is {found}, but rhs {rhs} needs {wanted}")
        return TensorType(kind, (*lhs.shape[:-1], self.depth))

    @override
    def evaluate(self, lhs: Array, rhs: Array, bias: Array | None) -> Array:
        columns = unpacked_matrix(rhs, self.depth, self.factors)[..., : lhs.shape[-1], :]
        with np.errstate(all="ignore"):
            result: Any = widest(lhs) @ columns
            result = result if bias is None else result + widest(bias)[: self.depth]
        return fitted(result, self.type)

    @override
    def cost(self) -> Cost:
        has_bias = self.bias is not None
        return matrix_product_cost(self, self.lhs.type.shape[-1], has_bias=has_bias)
