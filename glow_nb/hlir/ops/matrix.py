"""Matrix products and determinants."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.size import same, same_shape
from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.arithmetic import Add
from glow_nb.hlir.ops.families import (
    FLOATS,
    NUMBERS,
    Wide,
    fitted,
    product_kind,
    require_kind,
    wide,
    widest,
)
from glow_nb.hlir.ops.shape import Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rules import lowers


@define_node("mat_mul")
class MatMul(Node):
    """Multiply matrices: ``result[..., i, j] = sum over k of lhs[..., i, k] * rhs[..., k, j]``.

    ``lhs`` is ``[batch..., M, K]``; ``rhs`` is ``[batch..., K, N]`` with the same batch, or
    ``[K, N]``, shared by the whole batch. The result is ``[batch..., M, N]``. Integers of 8 and 16
    bits and int32, which may be unlike, are multiplied and summed up in int32, the result's kind.

    Attributes:
        wide: The result is float32, and sums of products of 16-bit floats are not rounded to these.
    """

    lhs: Value
    rhs: Value
    wide: Wide = False

    @property
    def factors(self) -> tuple[Value, Value]:
        """The factors: the left and the right matrix."""
        return self.lhs, self.rhs

    @override
    def infer_type(self) -> TensorType:
        lhs, rhs = self.lhs.type, self.rhs.type
        require_kind(self, "lhs", lhs, NUMBERS)
        kind = product_kind(self, lhs, rhs, wide=self.wide)
        self.require(
            lhs.rank >= 2 and rhs.rank >= 2, f"operands must be matrices, got {lhs} and {rhs}"
        )
        self.require(same(lhs.shape[-1], rhs.shape[-2]), f"inner sizes differ: {lhs} and {rhs}")
        self.require(
            rhs.rank == 2 or same_shape(lhs.shape[:-2], rhs.shape[:-2]),
            f"batch dimensions differ: {lhs} and {rhs}; broadcast them first",
        )
        return TensorType(kind, (*lhs.shape[:-1], rhs.shape[-1]))

    @override
    def evaluate(self, lhs: Array, rhs: Array) -> Array:
        with np.errstate(all="ignore"):
            return fitted(widest(lhs) @ widest(rhs), self.type)

    @override
    def cost(self) -> Cost:
        return matrix_product_cost(self, self.lhs.type.shape[-1], has_bias=False)


def matrix_product_cost(node: Node, inner: int, *, has_bias: bool = True) -> Cost:
    """Return the arithmetic of sums of *inner* products for each result, and its bias if any."""
    return Cost(node.type.size * inner, node.type.size if has_bias else 0)


@define_node("fully_connected")
class FullyConnected(Node):
    """Apply a dense layer: ``result[m, n] = sum over k of input[m, k] * weights[k, n] + bias[n]``.

    ``input`` is ``[M, K]``, ``weights`` ``[K, N]``, ``bias`` ``[N]``; the result is ``[M, N]``, of
    the kind of :class:`MatMul`, as is the bias.

    Attributes:
        wide: The result and the bias are float32, and sums of products of 16-bit floats are not
            rounded to these.
    """

    input: Value
    weights: Value
    bias: Value
    wide: Wide = False

    @property
    def factors(self) -> tuple[Value, Value]:
        """The factors: the left and the right matrix."""
        return self.input, self.weights

    @override
    def infer_type(self) -> TensorType:
        input, bias = self.input.type, self.bias.type
        self.require(input.rank == 2, f"'input' must be a matrix, got {input}")
        result = MatMul(self.input, self.weights, wide=self.wide, name=self.name).type
        wanted = TensorType(result.kind, result.shape[1:])
        self.require(bias == wanted, f"'bias' is {bias}, but the weights need {wanted}")
        return result

    @override
    def evaluate(self, input: Array, weights: Array, bias: Array) -> Array:
        with np.errstate(all="ignore"):
            return fitted(widest(input) @ widest(weights) + widest(bias), self.type)

    @override
    def cost(self) -> Cost:
        return matrix_product_cost(self, self.input.type.shape[-1])


@define_node("determinant")
class Determinant(Node):
    """Take determinants of square matrices: ``[batch..., N, N]`` to ``[batch...]``.

    They are computed in float64 by elimination with pivots, and rounded once. A NaN anywhere
    gives NaN.
    """

    input: Value

    @override
    def infer_type(self) -> TensorType:
        type = self.input.type
        require_kind(self, "input", type, FLOATS)
        self.require(
            type.rank >= 2 and same(type.shape[-1], type.shape[-2]),
            f"'input' must be a square matrix, or several, got {type}",
        )
        return type.with_shape(type.shape[:-2])

    @override
    def evaluate(self, input: Array) -> Array:
        with np.errstate(all="ignore"):
            values = np.linalg.det(wide(input))
        return fitted(np.where(np.isnan(input).any(axis=(-2, -1)), np.nan, values), self.type)

    @override
    def cost(self) -> Cost:
        """Count the products of the elimination, a third of those of a matrix product."""
        size = self.input.type.shape[-1]
        return Cost(self.type.size * size**3 // 3)


@lowers(FullyConnected)
def lower_fully_connected(node: FullyConnected, rewriter: Rewriter) -> Value:
    """Express the dense layer as a matrix product and an addition of the bias to each row."""
    product = rewriter.emit(MatMul(node.input, node.weights, wide=node.wide))
    row = rewriter.emit(Reshape(node.bias, (1, *node.bias.type.shape)))
    return rewriter.emit(Add(product, row))
