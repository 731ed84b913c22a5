"""Gradients of matrix products and determinants."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.ops.gather import Gather
from glow_nb.hlir.ops.matrix import Determinant, FullyConnected, MatMul
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.ops.shape import Reshape, Transpose
from glow_nb.hlir.rules import OperandGradients, gradient


@gradient(MatMul)
def mat_mul_gradient(node: MatMul, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(A B) = dA B + A dB``; a matrix that the batch shares gets the sum over the batch.

    Those of a wide product are of the kind of its operands, as is what they multiply.
    """
    found: dict[str, Value] = {}
    upstream = as_kind(builder, upstream, node.lhs.type.kind)
    if builder.wants(node.lhs):
        found["lhs"] = builder.emit(MatMul(upstream, _transposed(node.rhs, builder)))
    if builder.wants(node.rhs):
        lhs = node.lhs
        if node.rhs.type.rank < lhs.type.rank:  # one long sum, over the rows of all of the batch
            lhs, upstream = _rows(lhs, builder), _rows(upstream, builder)
        found["rhs"] = builder.emit(MatMul(_transposed(lhs, builder), upstream))
    return found


@gradient(FullyConnected)
def fully_connected_gradient(
    node: FullyConnected, upstream: Value, builder: Backward
) -> OperandGradients:
    """As of a matrix product; the bias gets the sum over the rows."""
    found: dict[str, Value] = {}
    factor = as_kind(builder, upstream, node.input.type.kind)
    if builder.wants(node.input):
        found["input"] = builder.emit(MatMul(factor, _transposed(node.weights, builder)))
    if builder.wants(node.weights):
        found["weights"] = builder.emit(MatMul(_transposed(node.input, builder), factor))
    if builder.wants(node.bias):
        found["bias"] = builder.emit(ReduceSum(upstream, axes=(0,), keep_dims=False))
    return found


def _transposed(matrix: Value, builder: Backward) -> Value:
    """Return *matrix*, or several, with rows for columns."""
    *batch, rows, columns = range(matrix.type.rank)
    return builder.emit(Transpose(matrix, (*batch, columns, rows)))


def _rows(matrices: Value, builder: Backward) -> Value:
    """Return the rows of all *matrices* as one matrix."""
    *batch, columns = matrices.type.shape
    return builder.emit(Reshape(matrices, (prod(batch), columns)))


@gradient(Determinant)
def determinant_gradient(node: Determinant, upstream: Value, builder: Backward) -> OperandGradients:
    """The cofactors: of each element, the determinant without its row and its column.

    They need no inverse, and are right for singular matrices, too, where PyTorch's are not. A
    matrix of N rows takes ``N ** 4`` numbers meanwhile, so this is for small ones.
    """
    shape = node.input.type.shape
    *batch, size, _ = shape
    first = len(batch)
    others = np.array([[j for j in range(size) if j != i] for i in range(size)], np.int64)
    places = builder.constant("others", others.reshape(size, max(size - 1, 0)))
    rows = builder.emit(Gather(node.input, places, axis=first))  # [..., i, N - 1, N]
    both = builder.emit(Gather(rows, places, axis=first + 2))  # [..., i, N - 1, j, N - 1]
    order = (*range(first), first, first + 2, first + 1, first + 3)
    minors = builder.emit(Determinant(builder.emit(Transpose(both, order))))
    signs = 1.0 - 2.0 * (np.add.outer(np.arange(size), np.arange(size)) % 2)
    signed = signs.astype(node.type.kind.dtype).reshape((1,) * first + (size, size))
    up = builder.term(builder.emit(Reshape(upstream, (*batch, 1, 1))))
    cofactors = builder.term(minors) * builder.term(builder.constant("signs", signed))
    return {"input": (up * cofactors).value}
