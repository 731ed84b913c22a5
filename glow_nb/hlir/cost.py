"""How much arithmetic a graph asks for: multiply-adds and other operations, counted from shapes.

The count is nominal: it belongs to the operator, not to the kernel that computes it, so that times
of different kernels can be compared by it. Taps of a window that lie in padding count. A function
such as ``exp`` counts as one operation, and moving data counts as none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from math import prod

from glow_nb.costs import Cost
from glow_nb.hlir.graph import Node
from glow_nb.hlir.ops import (
    AvgPool,
    BatchNormalization,
    Convolution,
    CumSum,
    Determinant,
    FullyConnected,
    LayerNormalization,
    LocalResponseNormalization,
    LogSoftmax,
    MatMul,
    MaxPool,
    MaxPoolWithArgmax,
    NonMaxSuppression,
    RoiAlign,
    ScatterElements,
    ScatterND,
    Softmax,
)
from glow_nb.hlir.ops.reduction import ArgReduction, Reduction


def total_cost(nodes: Iterable[Node]) -> Cost:
    """Return the sum over *nodes*, which may be a function."""
    return sum(map(cost_of, nodes), Cost())


@singledispatch
def cost_of(node: Node) -> Cost:
    """Return the arithmetic of one *node*: one operation for each result if it is data parallel.

    Operators with more to do register a rule here; those without move or select data.
    """
    return Cost(others=node.type.size) if node.data_parallel else Cost()


@singledispatch
def executed_cost_of(node: Node) -> Cost:
    """Return the arithmetic that a kernel of this very *node* carries out.

    It is the nominal one, but for operators that compute the same by other steps, such as a
    convolution in Winograd's form; those register a rule.
    """
    return cost_of(node)


@cost_of.register
def _(node: Convolution) -> Cost:
    products = prod(node.kernel) * node.input.type.shape[-1] // node.group
    return Cost(node.type.size * products, node.type.size)


@cost_of.register
def _(node: MatMul) -> Cost:
    return Cost(node.type.size * node.lhs.type.shape[-1])


@cost_of.register
def _(node: FullyConnected) -> Cost:
    return Cost(node.type.size * node.input.type.shape[-1], node.type.size)


@cost_of.register(MaxPool)
@cost_of.register(MaxPoolWithArgmax)
@cost_of.register(AvgPool)
def _(node: MaxPool | MaxPoolWithArgmax | AvgPool) -> Cost:
    return Cost(others=node.type.size * prod(node.kernel))


@cost_of.register(Reduction)
@cost_of.register(ArgReduction)
@cost_of.register(CumSum)
def _(node: Reduction | ArgReduction | CumSum) -> Cost:
    return Cost(others=node.input.type.size)


@cost_of.register
def _(node: BatchNormalization) -> Cost:
    return Cost(node.type.size)  # a factor and an offset for each channel


@cost_of.register
def _(node: LayerNormalization) -> Cost:
    # mean, distance, variance (a multiply-add), scale and bias (another)
    return Cost(2 * node.type.size, 3 * node.type.size)


@cost_of.register
def _(node: LocalResponseNormalization) -> Cost:
    return Cost(node.size * node.type.size, 3 * node.type.size)


@cost_of.register(Softmax)
@cost_of.register(LogSoftmax)
def _(node: Softmax | LogSoftmax) -> Cost:
    return Cost(others=5 * node.type.size)  # maximum, distance, exp, sum, quotient


@cost_of.register
def _(node: Determinant) -> Cost:
    """Count the products of the elimination, a third of those of a matrix product."""
    size = node.input.type.shape[-1]
    return Cost(node.type.size * size**3 // 3)


@cost_of.register
def _(node: RoiAlign) -> Cost:
    """Count four elements a sample; one sample a bin, if only a run shows how many there are."""
    return Cost(4 * node.type.size * max(node.ratio, 1) ** 2)


@cost_of.register(ScatterElements)
@cost_of.register(ScatterND)
def _(node: ScatterElements | ScatterND) -> Cost:
    return Cost(others=node.updates.type.size if node.reduction != "none" else 0)


@cost_of.register
def _(node: NonMaxSuppression) -> Cost:
    """Count one comparison a score; how many boxes are compared with each other, a run shows."""
    return Cost(others=node.scores.type.size)
