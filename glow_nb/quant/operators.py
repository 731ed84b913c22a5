"""Which operators of a float graph have forms for integers, and in which operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from glow_nb.base.schema import operands_of
from glow_nb.base.types import ElementKind
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value

FLOAT32 = ElementKind.FLOAT32


@dataclass(frozen=True)
class Product:
    """Where a product has what.

    Attributes:
        input: The field of the activations.
        weights: The field of the weights.
        channel_axis: The axis of the weights that is the channel of the result.
        bias: The field of the bias, if it has one.
    """

    input: str
    weights: str
    channel_axis: int
    bias: str = ""


PRODUCTS: Mapping[type[Node], Product] = {
    ops.Convolution: Product("input", "filter", 0, "bias"),
    ops.TransposedConvolution: Product("input", "filter", -1),
    ops.FullyConnected: Product("input", "weights", -1, "bias"),
    ops.MatMul: Product("lhs", "rhs", -1),
}
"""Products of activations with weights; the sums are exact."""

ARITHMETIC = (ops.Add, ops.Sub, ops.Mul, ops.Div, ops.Minimum, ops.Maximum)
"""Operators of two activations, each with a scale of its own."""

QUANTIZED = (*PRODUCTS, *ARITHMETIC, ops.AvgPool, ops.Concat)
"""These, and what :func:`is_mover` is true of, have forms for integers."""


def is_mover(node: Node) -> bool:
    """Return whether all floats of the results are some of the first operand, or zeros."""
    if not node.type_transparent or isinstance(node, ops.Concat | ops.Select):
        return False
    if isinstance(node, ops.Pad) and node.mode == "constant" and node.value:
        return False
    first, *others = operands_of(node)
    return not isinstance(first, Constant) and not any(o.type.kind is FLOAT32 for o in others)


def activations_of(node: Node) -> list[Value]:
    """Return the float32 operands that are no constants."""
    operands = (value for value in operands_of(node) if value.type.kind is FLOAT32)
    return [value for value in operands if not isinstance(value, Constant)]


def is_function_of_one(node: Node) -> bool:
    """Return whether each element of the result is a function of that of the only activation.

    Constants may have a part in it. So it runs in the kernel that makes the activation, or in that
    which reads the result.
    """
    # A batch normalization is none: what it brings to one size needs more than 8 bits before. With
    # them, the concats of DenseNet lose 20 dB.
    activations = activations_of(node)
    return node.data_parallel and len(activations) == 1 and activations[0].type == node.type


def is_product_of_weights(node: Node) -> bool:
    """True of a product of activations with constant weights, and with a constant bias."""
    product = PRODUCTS.get(type(node))
    if product is None or node.type.kind is not FLOAT32 or node.predicate is not None:
        return False
    constants = [product.weights, product.bias] if product.bias else [product.weights]
    return all(isinstance(getattr(node, name), Constant) for name in constants) and not isinstance(
        getattr(node, product.input), Constant
    )


def has_finite_weights(node: Node) -> bool:
    """Return whether all weights of a product of weights, and its bias, are finite."""
    product = PRODUCTS[type(node)]
    constants = [getattr(node, name) for name in (product.weights, product.bias) if name]
    return all(bool(np.isfinite(constant.array).all()) for constant in constants)
