"""Gradients of reductions over axes, of running sums and of the greatest elements."""

from __future__ import annotations

from math import prod

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.parts import part
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.broadcast import Broadcast
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.ops.reduction import (
    ArgMax,
    ArgMin,
    CumSum,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
    TopK,
)
from glow_nb.hlir.ops.scatter import ScatterElements
from glow_nb.hlir.ops.shape import Pad, Reshape, Transpose
from glow_nb.hlir.permutation import inverse, permute
from glow_nb.hlir.rules import OperandGradients, gradient, no_gradient


@gradient(ReduceSum)
def reduce_sum_gradient(node: ReduceSum, upstream: Value, builder: Backward) -> OperandGradients:
    """Each element gets the gradient of its sum."""
    return {"input": _repeated(node, _kept(node, upstream, builder), builder)}


@gradient(ReduceMean)
def reduce_mean_gradient(node: ReduceMean, upstream: Value, builder: Backward) -> OperandGradients:
    """Each element gets its part of the gradient of its mean."""
    slope = _kept(node, upstream, builder)
    share = builder.term(slope) * part(builder, slope, node.count)
    return {"input": _repeated(node, share.value, builder)}


@gradient(ReduceMax, ReduceMin)
def reduce_extreme_gradient(
    node: ReduceMax | ReduceMin, upstream: Value, builder: Backward
) -> OperandGradients:
    """The elements that equal the extreme share its gradient, as in PyTorch's ``amax``."""
    x, extreme = builder.terms(node.input, _kept(node, node, builder))
    is_extreme = x.equals(extreme)
    ones = builder.emit(ConvertTo(is_extreme.value, node.type.kind))
    count = builder.term(builder.emit(ReduceSum(ones, node.axes, keep_dims=True)))
    share = builder.term(_kept(node, upstream, builder)) / count
    return {"input": where(is_extreme, share, 0).value}


@gradient(ReduceProd)
def reduce_prod_gradient(node: ReduceProd, upstream: Value, builder: Backward) -> OperandGradients:
    """Each element gets the product of all others, times the gradient of the product.

    It is made without division, so that zeros among the elements are like other numbers.
    """
    type = node.input.type
    kept = tuple(axis for axis in range(type.rank) if axis not in node.axes)
    order = (*kept, *node.axes)
    moved = builder.emit(Transpose(node.input, order))
    rows = prod(type.shape[axis] for axis in kept)
    lines = builder.emit(Reshape(moved, (rows, node.count)))
    others = _product_before(lines, 1, builder) * _product_before(lines, -1, builder)
    reshaped = builder.emit(Reshape(others.value, permute(type.shape, order)))
    back = builder.emit(Transpose(reshaped, inverse(order)))
    up = builder.term(_kept(node, upstream, builder))
    return {"input": (up * builder.term(back)).value}


def _product_before(lines: Value, direction: int, builder: Backward) -> Term:
    """Return the product of the elements before each one of its line; behind it for -1.

    Products of 1, 2, 4, ... neighbours are doubled by those of the neighbours before them.
    """

    def shifted(value: Value, distance: int) -> Value:
        ends = (0, distance, 0, -distance) if direction > 0 else (0, -distance, 0, distance)
        return builder.emit(Pad(value, ends, value=1.0))

    length = lines.type.shape[1]
    product = builder.term(shifted(lines, min(1, length)))
    distance = 1
    while distance < length - 1:
        product = product * builder.term(shifted(product.value, distance))
        distance *= 2
    return product


@gradient(CumSum)
def cum_sum_gradient(node: CumSum, upstream: Value, builder: Backward) -> OperandGradients:
    """Sums from the other end: each element is in the sums from its place on."""
    sums = CumSum(upstream, node.axis, exclusive=node.exclusive, reverse=not node.reverse)
    return {"input": builder.emit(sums)}


@gradient(TopK)
def top_k_gradient(
    node: TopK, upstream: tuple[Value | None, ...], builder: Backward
) -> OperandGradients:
    """The values give their gradients back to where they come from; other elements get 0."""
    values, _ = upstream
    assert values is not None  # the indices are whole numbers
    zeros = builder.filled(node.input.type, 0.0)
    return {"input": builder.emit(ScatterElements(zeros, node.results[1], values, node.axis))}


def _kept(node: Reduction, value: Value, builder: Backward) -> Value:
    """Return *value*, of the type of the result, with the reduced axes as axes of size 1."""
    shape = tuple(1 if i in node.axes else n for i, n in enumerate(node.input.type.shape))
    return value if value.type.shape == shape else builder.emit(Reshape(value, shape))


def _repeated(node: Reduction, value: Value, builder: Backward) -> Value:
    """Return *value* repeated along the reduced axes."""
    shape = node.input.type.shape
    return value if value.type.shape == shape else builder.emit(Broadcast(value, shape))


no_gradient("its results are positions", ArgMax, ArgMin)
