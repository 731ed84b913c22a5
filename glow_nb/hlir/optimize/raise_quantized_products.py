"""Recognize products of integers that are written as products of the floats that they represent."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from glow_nb.base.schema import attributes_of
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import (
    Convolution,
    FullyConnected,
    MatMul,
    Quantize,
    QuantizedConvolution,
    QuantizedFullyConnected,
    QuantizedMatMul,
    QuantizedTransposedConvolution,
    Relu,
    Reshape,
    Stored,
    Transpose,
    TransposedConvolution,
)
from glow_nb.hlir.ops.quantization import ACTIVATIONS, BYTES
from glow_nb.hlir.optimize.dequantized import (
    Weights,
    quantized_behind,
    vector_along,
    weights_behind,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

Readers = Mapping[str, list[Node]]

FLOAT32 = ElementKind.FLOAT32
WEIGHT_KINDS = frozenset({ElementKind.INT8, ElementKind.UINT8, ElementKind.INT16})
LARGEST_SUM = 2**31 - 1
ONE_UNIT = 1e-5
"""A bias whose scale is that of the sums, but for so much of it, keeps its integers."""

_FLOAT: tuple[type[Node], ...] = (Convolution, FullyConnected, MatMul, TransposedConvolution)


@register_pass
def raise_quantized_products(function: Function) -> Function:
    """Multiply integers if both factors of a product were dequantized.

    The weights must be constant, or dequantized from one type, with a product that is quantized
    again. The bias is constant; it is rounded to a multiple of the product of both scales. The
    result stays float; ``quantize_producers`` quantizes it if its reader does. A product whose sums
    could overflow int32 stays float.

    ::

        %d = dequantize(%x : uint8<1 x 8 x 8 x 4, scale = 0.5, offset = 128>)
        %w = dequantize_linear(%filter : int8<...>, %scale, %zero)
        %c = convolution(%d, %w, %bias) {...}
        ->
        %c = quantized_convolution(%x, %filter, %bias', %scale, %zero) {..., kind = float32}

    The pass belongs at the beginning of a pipeline, since ``fold_constants`` converts the weights
    to floats.
    """
    readers = _readers_by_name(function)
    return rewrite(function, lambda node, rewriter: _rule(node, rewriter, readers), *_FLOAT)


def _rule(node: Node, rewriter: Rewriter, readers: Readers) -> Replacement:
    if node.predicate is not None or getattr(node, "wide", False):
        return None
    rank = node.type.rank
    match node:
        case Convolution(input=input, filter=weights, bias=bias):
            product: Any = QuantizedConvolution
            operands = _operands(input, weights, 0, bias, rewriter)
        case TransposedConvolution(input=input, filter=weights, group=1):
            product = QuantizedTransposedConvolution
            zeros = rewriter.constant("zeros", np.zeros(node.type.shape[-1], np.float32))
            operands = _operands(input, weights, rank - 1, zeros, rewriter)
        case FullyConnected(input=input, weights=weights, bias=bias):
            product = QuantizedFullyConnected
            operands = _operands(input, weights, 1, bias, rewriter)
        case MatMul(lhs=input, rhs=weights):
            product = QuantizedMatMul
            operands = _operands(input, weights, weights.type.rank - 1, None, rewriter)
            if operands is None and _is_quantized_again(node, readers):
                operands = _activations(input, weights, rewriter)
        case _:
            return None
    if operands is None:
        return None
    attributes = attributes_of(node)
    attributes.pop("pad_value", None)  # 0, as that of real numbers
    attributes.pop("wide")
    raised: Node = product(*operands, **attributes, kind=FLOAT32)
    return rewriter.emit(raised)


def _operands(
    input: Value, weights: Value, axis: int, bias: Value | None, rewriter: Rewriter
) -> tuple[Value, ...] | None:
    """Emit the operands of a product of *input* and known weights with their channels on *axis*."""
    behind, known = quantized_behind(input), weights_behind(weights)
    if behind is None or known is None or known.stored.source.type.kind not in WEIGHT_KINDS:
        return None
    type = behind.source.type
    scale, offset = (vector_along(axis, numbers) for numbers in (known.scale, known.offset))
    if type.kind not in ACTIVATIONS or scale is None or offset is None:
        return None
    unit = np.float32(type.scale) * scale
    sums = np.zeros(1, np.int64) if bias is None else _in_units(bias, unit)
    if sums is None or _largest_sum(type, known, axis) + np.abs(sums).max(initial=0) > LARGEST_SUM:
        return None
    vectors = [scale, offset] if bias is None else [sums.astype(np.int32), scale, offset]
    constants = [rewriter.constant("numbers", vector) for vector in vectors]
    return behind.emit(rewriter), known.stored.emit(rewriter), *constants


def _in_units(bias: Value, unit: Array) -> Array | None:
    """Return a known *bias* in units of the sums, rounded to int64; None if it is not known."""
    known, array = weights_behind(bias), array_of(bias)
    if known is not None:
        if not known.offset.any() and np.allclose(known.scale, unit, rtol=ONE_UNIT, atol=0):
            return known.array().astype(np.int64)
        array = known.real()
    if array is None:
        return None
    with np.errstate(all="ignore"):
        units = np.rint(array.astype(np.float64) / unit)
    if not (np.abs(units) <= LARGEST_SUM).all():  # not of a NaN, either
        return None
    return np.asarray(units.astype(np.int64))


def _largest_sum(type: TensorType, weights: Weights, axis: int) -> int:
    """Return a bound of the sums of products of integers of *type* with *weights*."""
    array, offset = weights.array(), weights.offset.astype(np.int64)
    if not array.size:
        return 0
    reach = _largest_distance(type)
    widest = max(abs(int(limit) - o) for limit in weights.kind.limits for o in _ends(offset))
    terms = array.size // array.shape[axis]
    bound = reach * widest * terms
    if bound <= LARGEST_SUM // 2:
        return int(bound)
    others = tuple(i for i in range(array.ndim) if i != axis)
    sums: Array = np.abs(array.astype(np.int64) - offset).sum(axis=others)
    return reach * int(sums.max())


def _ends(numbers: Array) -> tuple[int, int]:
    return int(numbers.min()), int(numbers.max())


def _largest_distance(type: TensorType) -> int:
    """Return how far an integer of a quantized *type* can be from its offset."""
    _, offset = type.quantization
    least, greatest = type.kind.limits
    return max(offset - least, greatest - offset)


def _activations(lhs: Value, rhs: Value, rewriter: Rewriter) -> tuple[Value, ...] | None:
    """Emit the operands of a product of matrices that a run computes both."""
    left, right = quantized_behind(lhs), quantized_behind(rhs)
    if left is None or right is None:
        return None
    types = left.source.type, right.source.type
    if any(type.kind not in BYTES for type in types):
        return None
    if prod(map(_largest_distance, types)) * lhs.type.shape[-1] > LARGEST_SUM:
        return None
    scale = np.array([types[1].scale], np.float32)
    offset = np.array([types[1].offset], np.int32)
    constants = [rewriter.constant("numbers", vector) for vector in (scale, offset)]
    stored = rewriter.emit(Stored(right.emit(rewriter)))
    return left.emit(rewriter), stored, *constants


def _readers_by_name(function: Function) -> Readers:
    """Return the readers of each node by its name, which what replaces a node keeps."""
    return {value.name: nodes for value, nodes in function.users().items()}


def _is_quantized_again(node: Node, readers: Readers) -> bool:
    """Return whether a quantization alone reads *node*, but for moves and a ReLU between."""
    while len(readers.get(node.name, ())) == 1:
        (node,) = readers[node.name]
        if not isinstance(node, Relu | Reshape | Transpose):
            return isinstance(node, Quantize)
    return False
