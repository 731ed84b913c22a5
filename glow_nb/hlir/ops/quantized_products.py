"""Products of quantized activations with plain weights: exact sums, scaled once (paper 4.1).

Weights have a scale and an offset for all, or one for each channel of the result, as operands. The
sum over ``(input - input.offset) * (weight - weight_offset)`` and the bias, of int32, is exact in
int32. Then one multiplication of float32 gives the result, its factors in this order::

    result = saturate(rint(sum * (input.scale * weight_scale[k] / scale)) + offset)

A float ``kind`` gives the real numbers ``sum * (input.scale * weight_scale[k])`` as a plain tensor;
then the attribute ``scale`` is 1 and ``offset`` 0. The bias stands for real numbers by the scale
``input.scale * weight_scale[k]`` and the offset 0. How they are lowered:
:mod:`glow_nb.hlir.ops.integer_products`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import override

from glow_nb.base.conversion import rounded
from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Placeholder, Value, define_node
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops.convolution import Convolution, convolution_cost, convolve
from glow_nb.hlir.ops.families import fitted, require_kind, require_type
from glow_nb.hlir.ops.linear_quantization import (
    FLOAT32,
    INT32,
    require_usable_scales,
)
from glow_nb.hlir.ops.matrix import FullyConnected, MatMul, matrix_product_cost
from glow_nb.hlir.ops.quantization import (
    ACTIVATIONS,
    REALS,
    quantized_result,
    require_quantized,
)
from glow_nb.hlir.ops.transposed_convolution import TransposedConvolution, transposed_convolve
from glow_nb.hlir.ops.windows import Windowed


@define_node("quantized_convolution")
class QuantizedConvolution(Windowed):
    """Convolve a quantized ``[N, *in, C]`` tensor with a plain ``[K, *kernel, C / group]`` filter.

    See :class:`~glow_nb.hlir.ops.convolution.Convolution` for the sums; cells outside the input
    stand for 0. ``bias`` is of int32, ``[K]``; ``filter_scale``, of float32, and
    ``filter_offset``, of int32, are ``[1]`` or ``[K]``.

    Attributes:
        kind: Kind of the result, integers or floats.
        scale: Scale of the result.
        offset: Offset of the result.
        group: Channels are cut into this number of groups that are convolved apart.
    """

    input: Value
    filter: Value
    bias: Value
    filter_scale: Value
    filter_offset: Value
    kind: ElementKind
    scale: float = 1.0
    offset: int = 0
    group: int = 1

    @override
    def infer_type(self) -> TensorType:
        input = _stored_operand(self, "input", self.input)
        require_kind(self, "filter", self.filter.type, ACTIVATIONS)
        window = self.window.attributes
        operands = (input, self.filter, self.bias)
        sums = Convolution(*operands, **window, group=self.group, name=self.name).type
        return _result_type(self, sums, "filter", self.filter_scale, self.filter_offset)

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array, *weight: Array) -> Array:
        spread = (-1, *(1,) * (filter.ndim - 1))
        weights = filter.astype(np.int64) - weight[1].astype(np.int64).reshape(spread)
        sums = convolve(self, _distance(input, self.input.type), weights, self.group)
        return _scaled(self, sums + bias, self.input.type, weight[0])

    @override
    def cost(self) -> Cost:
        return convolution_cost(self)


@define_node("quantized_transposed_convolution")
class QuantizedTransposedConvolution(Windowed):
    """Spread a quantized ``[N, *out, K]`` tensor by a plain ``[K, *kernel, C / group]`` filter.

    See :class:`~glow_nb.hlir.ops.transposed_convolution.TransposedConvolution` for the sums and the
    attributes of the window. ``bias`` is of int32, ``[C]``; ``filter_scale``, of float32, and
    ``filter_offset``, of int32, are ``[1]`` or ``[C]``.

    Attributes:
        size: The spatial sizes of the result.
        kind: Kind of the result, integers or floats.
        scale: Scale of the result.
        offset: Offset of the result.
        group: Channels are cut into this number of groups that are convolved apart.
    """

    input: Value
    filter: Value
    bias: Value
    filter_scale: Value
    filter_offset: Value
    size: tuple[int, ...]
    kind: ElementKind
    scale: float = 1.0
    offset: int = 0
    group: int = 1

    @override
    def infer_type(self) -> TensorType:
        input = _stored_operand(self, "input", self.input)
        require_kind(self, "filter", self.filter.type, ACTIVATIONS)
        window = self.window.attributes | {"size": self.size, "group": self.group}
        sums = TransposedConvolution(input, self.filter, **window, name=self.name).type
        require_type(self, "bias", TensorType(INT32, sums.shape[-1:]), f"result {sums}")
        return _result_type(self, sums, "filter", self.filter_scale, self.filter_offset)

    @override
    def evaluate(self, input: Array, filter: Array, bias: Array, *weight: Array) -> Array:
        shape = groups_shape(weight[1].size, filter.shape, self.group)
        offsets = weight[1].astype(np.int64).reshape(shape)
        split = (self.group, filter.shape[0] // self.group, *filter.shape[1:])
        weights = (filter.astype(np.int64).reshape(split) - offsets).reshape(filter.shape)
        sums = transposed_convolve(self, _distance(input, self.input.type), weights)
        return _scaled(self, sums + bias, self.input.type, weight[0])

    @override
    def cost(self) -> Cost:
        channels = self.filter.type.shape[-1]
        taps = int(np.prod(self.kernel))
        return Cost(self.input.type.size * taps * channels, self.type.size)


@define_node("quantized_mat_mul")
class QuantizedMatMul(Node):
    """Multiply a quantized ``[batch..., M, K]`` by a plain ``[batch..., K, N]`` or ``[K, N]``.

    See :class:`~glow_nb.hlir.ops.matrix.MatMul` for the sums. ``rhs_scale``, of float32, and
    ``rhs_offset``, of int32, are ``[1]`` or ``[N]``.

    Attributes:
        kind: Kind of the result, integers or floats.
        scale: Scale of the result.
        offset: Offset of the result.
    """

    lhs: Value
    rhs: Value
    rhs_scale: Value
    rhs_offset: Value
    kind: ElementKind
    scale: float = 1.0
    offset: int = 0

    @override
    def infer_type(self) -> TensorType:
        lhs = _stored_operand(self, "lhs", self.lhs)
        require_kind(self, "rhs", self.rhs.type, ACTIVATIONS)
        sums = MatMul(lhs, self.rhs, name=self.name).type
        return _result_type(self, sums, "rhs", self.rhs_scale, self.rhs_offset)

    @override
    def evaluate(self, lhs: Array, rhs: Array, scale: Array, offset: Array) -> Array:
        sums = _distance(lhs, self.lhs.type) @ (rhs.astype(np.int64) - offset.astype(np.int64))
        return _scaled(self, sums, self.lhs.type, scale)

    @override
    def cost(self) -> Cost:
        return matrix_product_cost(self, self.lhs.type.shape[-1])


@define_node("quantized_fully_connected")
class QuantizedFullyConnected(Node):
    """Apply a dense layer to a quantized ``[M, K]`` with plain ``[K, N]`` weights.

    See :class:`~glow_nb.hlir.ops.matrix.FullyConnected` for the sums. ``bias`` is of int32,
    ``[N]``; ``weight_scale``, of float32, and ``weight_offset``, of int32, are ``[1]`` or ``[N]``.

    Attributes:
        kind: Kind of the result, integers or floats.
        scale: Scale of the result.
        offset: Offset of the result.
    """

    input: Value
    weights: Value
    bias: Value
    weight_scale: Value
    weight_offset: Value
    kind: ElementKind
    scale: float = 1.0
    offset: int = 0

    @override
    def infer_type(self) -> TensorType:
        input = _stored_operand(self, "input", self.input)
        require_kind(self, "weights", self.weights.type, ACTIVATIONS)
        sums = FullyConnected(input, self.weights, self.bias, name=self.name).type
        return _result_type(self, sums, "weight", self.weight_scale, self.weight_offset)

    @override
    def evaluate(self, input: Array, weights: Array, bias: Array, *weight: Array) -> Array:
        centred = weights.astype(np.int64) - weight[1].astype(np.int64)
        sums = _distance(input, self.input.type) @ centred + bias
        return _scaled(self, sums, self.input.type, weight[0])

    @override
    def cost(self) -> Cost:
        return matrix_product_cost(self, self.input.type.shape[-1])


def groups_shape(size: int, filter: tuple[int, ...], group: int) -> tuple[int, ...]:
    """Return the shape of one number, or one a channel, beside a transposed *filter* in groups.

    The filter is ``[group, K / group, *kernel, C / group]`` then.
    """
    ones = (1,) * (len(filter) - 1)
    return (1, *ones, 1) if size == 1 else (group, *ones, filter[-1])


def _stored_operand(node: Node, name: str, operand: Value) -> Value:
    """Return the operand of another product for the plain integers of the quantized *operand*."""
    require_quantized(node, name, operand.type, ACTIVATIONS)
    return Placeholder(operand.shown_name, operand.type.stored)


def _result_type(
    node: Any, sums: TensorType, weights: str, scale: Value, offset: Value
) -> TensorType:
    """Return the type of the result for *sums*; check scale and offset of the *weights*."""
    scale_name, offset_name = f"{weights}_scale", f"{weights}_offset"
    channels = sums.shape[-1]
    _require_per_channel(node, scale_name, scale.type, FLOAT32, channels)
    _require_per_channel(node, offset_name, offset.type, INT32, channels)
    require_usable_scales(node, scale_name, scale)
    kind = getattr(node, "weights" if weights == "weight" else weights).type.kind
    _require_offsets_inside(node, offset_name, offset, kind)
    return quantized_result(node, sums.shape, REALS)


def _require_per_channel(
    node: Node, name: str, type: TensorType, kind: ElementKind, channels: int
) -> None:
    one, each = TensorType(kind, (1,)), TensorType(kind, (channels,))
    node.require(
        type in (each, one),
        f"'{name}' is {type}, but must be {one}, or {each} with one number for each channel of the "
        "result",
    )


def _require_offsets_inside(node: Node, name: str, offset: Value, kind: ElementKind) -> None:
    """Raise VerifyError if an offset that is known now is outside the *kind* of the weights."""
    array = array_of(offset)
    if array is None:
        return
    least, greatest = kind.limits
    wrong = array[(array < least) | (array > greatest)]
    node.require(
        not wrong.size,
        f"'{name}' {offset} holds {wrong[:1].tolist()}, which is outside {kind.value}, the kind of "
        f"the weights; give numbers from {least} to {greatest}",
    )


def _distance(stored: Array, type: TensorType) -> Any:
    """Return ``stored - offset`` in int64."""
    return stored.astype(np.int64) - type.quantization[1]


def _scaled(node: Any, sums: Any, input: TensorType, weight_scale: Array) -> Array:
    """Return the result of *node* for exact *sums*, which wrap around in int32."""
    wrapped = sums.astype(np.int32).astype(np.float32)
    with np.errstate(all="ignore"):
        factor = np.float32(input.quantization[0]) * weight_scale
        if not node.type.is_quantized:
            return fitted(wrapped * factor, node.type)
        ratio = wrapped * (factor / np.float32(node.scale))
        return fitted(rounded(ratio, np.asarray(node.offset), node.kind), node.type)
