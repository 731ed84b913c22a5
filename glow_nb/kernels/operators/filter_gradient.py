"""Gradients of filters in parts, which a backend with SIMD selects: sums over many pixels."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Value, define_node
from glow_nb.hlir.ops.families import fitted, require_kind, widest
from glow_nb.hlir.ops.windows import Windowed, pad_spatial
from glow_nb.llir.instructions.derived import derive_instruction

KINDS = frozenset({ElementKind.FLOAT32, ElementKind.FLOAT64})


@define_node("filter_gradient_parts")
class FilterGradientParts(Windowed):
    """The gradient of a convolution's filter as sums over parts of the result's lines.

    ``result[p, k, t, c] = sum over n, o of gradient[n, o, k] * input[n, o * stride + t * dilation -
    begin, c]``, where the channels ``c`` run over the group of ``k``, cells outside the input count
    as 0, and part ``p`` of ``P`` has the lines from ``p * lines // P`` to ``(p + 1) * lines // P``.
    A line is all of ``[N, *out]`` but the last of its axes. ``input`` is ``[N, *in, C]``,
    ``gradient`` ``[N, *out, K]``, and the result ``[P, K, *kernel, C / group]``, or
    ``[P, *kernel, C / group, K]`` if *is_transposed*.

    Attributes:
        group: Channels are cut into this number of groups that were convolved apart.
        parts: The number of sums, at most the number of lines. Threads may share them, and their
            sum is the gradient.
        is_transposed: The channels of the gradient come last: they lie in the lanes.
    """

    input: Value
    gradient: Value
    group: int = 1
    parts: int = 1
    is_transposed: bool = False

    @override
    def infer_type(self) -> TensorType:
        channels, depth = check_filter_gradient(self)
        self.require(
            self.group > 0 and channels % self.group == depth % self.group == 0,
            f"{channels} channels of input {self.input.type} and {depth} of gradient "
            f"{self.gradient.type} do not divide into group = {self.group}",
        )
        self.require(
            self.group == 1 or not self.is_transposed, f"{self.group} groups cannot be transposed"
        )
        inner = channels // self.group
        sizes = (*self.kernel, inner, depth) if self.is_transposed else (depth, *self.kernel, inner)
        return self.input.type.with_shape((self.parts, *sizes))

    @override
    def evaluate(self, input: Array, gradient: Array) -> Array:
        group, depth = self.group, gradient.shape[-1]
        inner = input.shape[-1] // group
        left = lines_of(widest(gradient))  # [lines, width, K]
        lines, width, _ = left.shape
        sums = np.zeros((self.parts, group, depth // group, prod(self.kernel), inner))
        for number, cells in enumerate(cells_of_taps(self, widest(input))):
            right = lines_of(cells)
            for part in range(self.parts):
                rows = slice(part * lines // self.parts, (part + 1) * lines // self.parts)
                count = left[rows].shape[0] * width
                x = right[rows].reshape(count, group, inner).transpose(1, 0, 2)
                g = left[rows].reshape(count, group, depth // group).transpose(1, 2, 0)
                with np.errstate(all="ignore"):
                    sums[part, :, :, number] = g @ x
        result = sums.reshape(self.parts, depth, *self.kernel, inner)
        return fitted(np.moveaxis(result, 1, -1) if self.is_transposed else result, self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.type.size // self.parts * prod(self.gradient.type.shape[:-1]))


@define_node("depthwise_filter_gradient")
class DepthwiseFilterGradient(Windowed):
    """The gradient of the filter of a depthwise convolution, in parts.

    ``result[p, t, c] = sum over n, o of gradient[n, o, c] * input[n, o * stride + t * dilation -
    begin, c]``, with parts of the lines as in :class:`FilterGradientParts`. ``input`` is
    ``[N, *in, C]``, ``gradient`` ``[N, *out, C]``, and the result ``[P, *kernel, C]``.

    Attributes:
        parts: The number of sums, at most the number of lines. Threads may share them, and their
            sum is the gradient.
    """

    input: Value
    gradient: Value
    parts: int = 1

    @override
    def infer_type(self) -> TensorType:
        channels, depth = check_filter_gradient(self)
        self.require(
            channels == depth,
            f"input {self.input.type} and gradient {self.gradient.type} must have the same number "
            "of channels",
        )
        return self.input.type.with_shape((self.parts, *self.kernel, channels))

    @override
    def evaluate(self, input: Array, gradient: Array) -> Array:
        left, channels = lines_of(widest(gradient)), self.type.shape[-1]
        lines = left.shape[0]
        sums = np.zeros((self.parts, prod(self.kernel), channels))
        for number, cells in enumerate(cells_of_taps(self, widest(input))):
            right = lines_of(cells)
            for part in range(self.parts):
                rows = slice(part * lines // self.parts, (part + 1) * lines // self.parts)
                with np.errstate(all="ignore"):
                    sums[part, number] = np.sum(left[rows] * right[rows], axis=(0, 1))
        return fitted(sums.reshape(self.type.shape), self.type)

    @override
    def cost(self) -> Cost:
        return Cost(self.gradient.type.size * prod(self.kernel))


def check_filter_gradient(node: Any) -> tuple[int, int]:
    """Check the operands of *node* against each other; return the channels of both."""
    input, gradient = node.input.type, node.gradient.type
    require_kind(node, "input", input, KINDS)
    out = node.window.checked(node, input)
    depth = gradient.shape[-1] if gradient.rank else 0
    wanted = input.with_shape((input.shape[0], *out, depth))
    node.require(gradient == wanted, f"'gradient' is {gradient}, but input {input} needs {wanted}")
    lines = prod(gradient.shape[:-2])
    node.require(
        node.parts == 1 or 0 < node.parts <= lines,
        f"parts is {node.parts}, but must be positive, and not more than gradient {gradient} has "
        f"lines, {lines}",
    )
    return input.shape[-1], depth


def cells_of_taps(node: Any, input: Array) -> list[Array]:
    """Return for each tap the cells of *input* that all windows have under it."""
    padded = pad_spatial(input, node.pads, 0)
    out = node.gradient.type.shape[1:-1]
    return [cells for _, cells in node.window.taps(padded, out)]


def lines_of(values: Array) -> Array:
    """Return ``[N, *out, C]`` as ``[lines, width, C]``."""
    lines: Array = values.reshape(prod(values.shape[:-2]), *values.shape[-2:])
    return lines


FilterGradientPartsInst = derive_instruction(FilterGradientParts)
DepthwiseFilterGradientInst = derive_instruction(DepthwiseFilterGradient)
