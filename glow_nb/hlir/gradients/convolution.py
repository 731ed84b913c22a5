"""Gradients of convolutions: each of the three operators has the other two as gradients.

A convolution, its transpose and its filter gradient are one trilinear form of input, filter and
result; the gradient for one of them is the form with the others fixed.
"""

from __future__ import annotations

import numpy as np

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.convolution import Convolution
from glow_nb.hlir.ops.convolution_filter_gradient import ConvolutionFilterGradient
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.ops.transposed_convolution import TransposedConvolution
from glow_nb.hlir.rules import OperandGradients, gradient


@gradient(Convolution)
def convolution_gradient(node: Convolution, upstream: Value, builder: Backward) -> OperandGradients:
    """The bias gets the sum over batch and places.

    Of a wide one, the other gradients are of the kind of the operands, as is what they multiply.
    """
    found: dict[str, Value] = {}
    factor = as_kind(builder, upstream, node.input.type.kind)
    if builder.wants(node.input):
        found["input"] = _transposed(node, factor, node.filter, node.input, builder)
    if builder.wants(node.filter):
        found["filter"] = _filter_gradient(node, node.input, factor, builder)
    if builder.wants(node.bias):
        axes = tuple(range(upstream.type.rank - 1))
        found["bias"] = builder.emit(ReduceSum(upstream, axes, keep_dims=False))
    return found


@gradient(TransposedConvolution)
def transposed_convolution_gradient(
    node: TransposedConvolution, upstream: Value, builder: Backward
) -> OperandGradients:
    """The input gets a convolution of the gradient, the filter what that convolution's would."""
    found: dict[str, Value] = {}
    upstream = as_kind(builder, upstream, node.input.type.kind)
    if builder.wants(node.input):
        found["input"] = _convolved(node, upstream, node.filter, builder)
    if builder.wants(node.filter):
        found["filter"] = _filter_gradient(node, upstream, node.input, builder)
    return found


@gradient(ConvolutionFilterGradient)
def convolution_filter_gradient_gradient(
    node: ConvolutionFilterGradient, upstream: Value, builder: Backward
) -> OperandGradients:
    """The gradient of the result takes the place of the filter."""
    found: dict[str, Value] = {}
    upstream = as_kind(builder, upstream, node.input.type.kind)
    if builder.wants(node.input):
        found["input"] = _transposed(node, node.gradient, upstream, node.input, builder)
    if builder.wants(node.gradient):
        found["gradient"] = _convolved(node, node.input, upstream, builder)
    return found


_Windowed = Convolution | TransposedConvolution | ConvolutionFilterGradient


def _convolved(node: _Windowed, input: Value, filter: Value, builder: Backward) -> Value:
    """Return the convolution with the window of *node*, without a bias."""
    bias = np.zeros(filter.type.shape[0], filter.type.kind.dtype)
    return builder.emit(
        Convolution(
            input,
            filter,
            builder.constant("no_bias", bias),
            **node.window.attributes,
            group=node.group,
        )
    )


def _transposed(
    node: _Windowed, input: Value, filter: Value, like: Value, builder: Backward
) -> Value:
    """Return the transposed convolution with the window of *node*, of the type of *like*."""
    size = like.type.shape[1:-1]
    return builder.emit(
        TransposedConvolution(input, filter, **node.window.attributes, size=size, group=node.group)
    )


def _filter_gradient(node: _Windowed, input: Value, gradient: Value, builder: Backward) -> Value:
    """Return the filter gradient of the convolution with the window of *node*."""
    return builder.emit(
        ConvolutionFilterGradient(input, gradient, **node.window.attributes, group=node.group)
    )
