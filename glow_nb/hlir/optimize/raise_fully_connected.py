"""Recognize a dense layer."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Add, FullyConnected, MatMul, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def raise_fully_connected(function: Function) -> Function:
    """Make a product of two matrices plus one row for all its rows a fully connected layer.

    Nothing else may read the product.

    ::

        %p = mat_mul(%x : <8 x 64>, %w)       ->
        %y = add(%p, %row : <1 x 10>)             %b = reshape(%row) {shape = [10]}
                                                  %y = fully_connected(%x, %w, %b)
    """
    return rewrite(function, _rule, Add)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case (
            Add(lhs=MatMul(predicate=None) as product, rhs=row, predicate=None)
            | Add(lhs=row, rhs=MatMul(predicate=None) as product, predicate=None)
        ):
            pass
        case _:
            return None
    depth = product.type.shape[-1]
    is_layer = product.type.rank == 2 and row.type.shape == (1, depth)
    if not is_layer or product.type != node.type or rewriter.use_count(product) != 1:
        return None
    bias = rewriter.emit(Reshape(row, (depth,)))
    return rewriter.emit(FullyConnected(product.lhs, product.rhs, bias, wide=product.wide))
