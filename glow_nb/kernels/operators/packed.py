"""Operators on filters and matrices packed into panels, which a backend with SIMD selects.

A panel holds ``block`` neighbouring output channels (columns) side by side, innermost, so that one
vector load brings the weights of as many results (paper, Figure 6). The last panel of a group is
padded with zeros. The ``pack_*`` functions emit the ordinary nodes that lay the weights out so;
they fold away when the weights are constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.costs import Cost
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.convolution import convolution_cost, convolve
from glow_nb.hlir.ops.families import NUMBERS, fitted, product_kind, require_kind, widest
from glow_nb.hlir.ops.shape import Pad, Reshape, Transpose
from glow_nb.hlir.ops.windows import check_window
from glow_nb.schema import operands_of
from glow_nb.types import Array, ElementKind, TensorType


def panels_of(depth: int, block: int) -> int:
    """Return how many panels of *block* hold *depth* channels."""
    return -(-depth // block)


def check_panels(
    node: Node, sizes: Iterable[int], *, depth: int, group: int, block: int
) -> ElementKind:
    """Check that filter and bias of *node* are panels, of *sizes* in each dimension.

    Return the kind of the sums, or raise VerifyError. The operands are the input ``[N, ..., C]``,
    the filter ``[group, panels, *sizes, C / group, block]`` and the bias
    ``[group * panels * block]``.
    """
    input, filter, bias, *_ = (operand.type for operand in operands_of(node))
    kind, channels = product_kind(node, input, filter), input.shape[-1]
    node.require(
        group > 0 and channels % group == 0 and depth % group == 0,
        f"{channels} channels of input {input} and depth {depth} do not divide into "
        f"group = {group}",
    )
    node.require(block > 0, f"block is {block}, but must be positive")
    panels = panels_of(depth // group, block)
    wanted = TensorType(filter.kind, (group, panels, *sizes, channels // group, block))
    node.require(filter == wanted, f"'filter' is {filter}, but input {input} needs {wanted}")
    wanted = TensorType(kind, (group * panels * block,))
    node.require(bias == wanted, f"'bias' is {bias}, but filter {filter} needs {wanted}")
    return kind


def unpacked_filter(filter: Array, depth: int) -> Array:
    """Return ``[group, panels, *kernel, C / group, block]`` as ``[depth, *kernel, C / group]``."""
    group = filter.shape[0]
    plain = np.moveaxis(widest(filter), -1, 2)  # [group, panels, block, *kernel, C / group]
    _, panels, block, *rest = plain.shape
    plain = plain.reshape(group, panels * block, *rest)[:, : depth // group]  # without the padding
    result: Array = plain.reshape(depth, *plain.shape[2:])
    return result


@define_node("packed_convolution")
class PackedConvolution(Node):
    """Convolve like :class:`Convolution` with a filter packed into panels.

    With ``panels = ceil(depth / group / block)``: ``filter`` is
    ``[group, panels, *kernel, C / group, block]``, ``bias`` ``[group * panels * block]``, both
    padded with zeros at the end of each group; the result is ``[N, *out, depth]``.

    Attributes:
        depth: Output channels.
        kernel: Window size in each spatial dimension; there may be 1, 2 or 3.
        stride: Step of the window.
        pads: Cells of padding: the begins of all dimensions, then the ends.
        dilation: Distance of the taps.
        group: Channels are cut into so many groups that are convolved apart.
        block: Output channels in a panel.
    """

    input: Value
    filter: Value
    bias: Value
    depth: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]
    group: int
    block: int

    @override
    def infer_type(self) -> TensorType:
        input = self.input.type
        require_kind(self, "input", input, NUMBERS)
        out = check_window(self, input, self.kernel, self.stride, self.pads, self.dilation)
        group, block = self.group, self.block
        kind = check_panels(self, self.kernel, depth=self.depth, group=group, block=block)
        return TensorType(kind, (input.shape[0], *out, self.depth))

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array) -> Array:
        plain = unpacked_filter(filter, self.depth)
        offsets = widest(bias).reshape(self.group, -1)[:, : self.depth // self.group]
        offsets = offsets.reshape(self.depth)
        with np.errstate(all="ignore"):
            return fitted(convolve(self, widest(input), plain, self.group) + offsets, self.type)

    @override
    def cost(self) -> Cost:
        return convolution_cost(self)


@define_node("depthwise_convolution")
class DepthwiseConvolution(Node):
    """Convolve each channel on its own, giving ``m`` results for each of ``C`` channels.

    ``filter`` is ``[*kernel, C * m]`` and ``bias`` ``[C * m]``; output channel ``k`` reads input
    channel ``k // m``. The result is ``[N, *out, C * m]``.

    Attributes:
        kernel: Window size in each spatial dimension; there may be 1, 2 or 3.
        stride: Step of the window.
        pads: Cells of padding: the begins of all dimensions, then the ends.
        dilation: Distance of the taps.
    """

    input: Value
    filter: Value
    bias: Value
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def multiplier(self) -> int:
        """Results for each input channel."""
        return self.bias.type.size // self.input.type.shape[-1]

    @override
    def infer_type(self) -> TensorType:
        input, filter, bias = self.input.type, self.filter.type, self.bias.type
        require_kind(self, "input", input, NUMBERS)
        out = check_window(self, input, self.kernel, self.stride, self.pads, self.dilation)
        kind = product_kind(self, input, filter)
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
class GroupedConvolution(Node):
    """Convolve groups of ``m`` channels, each of which gives ``m`` results.

    ``filter`` is ``[*kernel, m, C]`` and ``bias`` ``[C]``, with ``m`` a divisor of ``C``; output
    channel ``k`` reads the input channels from ``k - k % m`` on, number ``j`` of them with the
    weights ``filter[..., j, k]``. The result is ``[N, *out, C]``.

    Attributes:
        kernel: Window size in each spatial dimension; there may be 1, 2 or 3.
        stride: Step of the window.
        pads: Cells of padding: the begins of all dimensions, then the ends.
        dilation: Distance of the taps.
    """

    input: Value
    filter: Value
    bias: Value
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pads: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def size(self) -> int:
        """Channels of a group."""
        return self.filter.type.shape[-2]

    @override
    def infer_type(self) -> TensorType:
        input, filter, bias = self.input.type, self.filter.type, self.bias.type
        require_kind(self, "input", input, NUMBERS)
        out = check_window(self, input, self.kernel, self.stride, self.pads, self.dilation)
        kind, channels = product_kind(self, input, filter), input.shape[-1]
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

    Attributes:
        depth: Columns of the result.
        block: Columns in a panel.
    """

    lhs: Value
    rhs: Value
    bias: Value | None
    depth: int
    block: int

    @override
    def infer_type(self) -> TensorType:
        lhs, rhs = self.lhs.type, self.rhs.type
        require_kind(self, "lhs", lhs, NUMBERS)
        self.require(lhs.rank >= 2, f"'lhs' must be a matrix or a batch of them, got {lhs}")
        self.require(
            self.block > 0 and self.depth >= 0,
            f"block {self.block} must be positive and depth {self.depth} not negative",
        )
        panels = panels_of(self.depth, self.block)
        kind = product_kind(self, lhs, rhs)
        batch = rhs.shape[:-3] and lhs.shape[:-2]
        wanted = TensorType(rhs.kind, (*batch, panels, lhs.shape[-1], self.block))
        self.require(rhs == wanted, f"'rhs' is {rhs}, but lhs {lhs} needs {wanted}")
        if self.bias is not None:
            wanted = TensorType(kind, (panels * self.block,))
            found = self.bias.type
            self.require(found == wanted, f"'bias' is {found}, but rhs {rhs} needs {wanted}")
        return TensorType(kind, (*lhs.shape[:-1], self.depth))

    @override
    def evaluate(self, lhs: Array, rhs: Array, bias: Array | None) -> Array:
        columns = np.swapaxes(widest(rhs), -3, -2)
        columns = columns.reshape(*columns.shape[:-2], prod(columns.shape[-2:]))
        with np.errstate(all="ignore"):
            result: Any = widest(lhs) @ columns
            result = result if bias is None else result + widest(bias)
        return fitted(result[..., : self.depth], self.type)

    @override
    def cost(self) -> Cost:
        bias = 0 if self.bias is None else self.type.size
        return Cost(self.type.size * self.lhs.type.shape[-1], bias)


def pack_filter(builder: Builder, filter: Value, group: int, block: int) -> Value:
    """Emit the nodes that pack a ``[K, *kernel, C / group]`` *filter* for PackedConvolution."""
    depth, *taps = filter.type.shape
    per_group = depth // group
    panels = panels_of(per_group, block)
    rows: Value = builder.emit(Reshape(filter, (group, per_group, *taps)))
    rows = _pad_end(builder, rows, 1, panels * block - per_group)
    rows = builder.emit(Reshape(rows, (group, panels, block, *taps)))
    last = rows.type.rank
    return builder.emit(Transpose(rows, (0, 1, *range(3, last), 2)))


def pack_bias(builder: Builder, bias: Value, group: int, block: int) -> Value:
    """Emit the nodes that pad each group of a ``[K]`` *bias* with zeros to whole panels."""
    per_group = bias.type.size // group
    size = panels_of(per_group, block) * block
    rows: Value = builder.emit(Reshape(bias, (group, per_group)))
    rows = _pad_end(builder, rows, 1, size - per_group)
    return builder.emit(Reshape(rows, (group * size,)))


def pack_depthwise_filter(builder: Builder, filter: Value) -> Value:
    """Emit the nodes that pack a ``[C * m, *kernel, 1]`` *filter* for DepthwiseConvolution."""
    rows = builder.emit(Reshape(filter, filter.type.shape[:-1]))
    return builder.emit(Transpose(rows, (*range(1, rows.type.rank), 0)))


def pack_grouped_filter(builder: Builder, filter: Value) -> Value:
    """Emit the node that packs a ``[C, *kernel, m]`` *filter* for GroupedConvolution."""
    return builder.emit(Transpose(filter, (*range(1, filter.type.rank), 0)))


def pack_matrix(builder: Builder, rhs: Value, block: int) -> Value:
    """Emit the nodes that pack a ``[batch..., K, N]`` matrix *rhs* for PackedMatMul."""
    *batch, inner, depth = rhs.type.shape
    panels = panels_of(depth, block)
    rank = len(batch)
    padded = _pad_end(builder, rhs, rank + 1, panels * block - depth)
    rows = builder.emit(Reshape(padded, (*batch, inner, panels, block)))
    return builder.emit(Transpose(rows, (*range(rank), rank + 1, rank, rank + 2)))


def _pad_end(builder: Builder, value: Value, axis: int, count: int) -> Value:
    if count == 0:
        return value
    rank = value.type.rank
    pads = tuple(count if i == rank + axis else 0 for i in range(2 * rank))
    return builder.emit(Pad(value, pads))
