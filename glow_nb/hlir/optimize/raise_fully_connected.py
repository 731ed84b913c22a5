"""Recognize a dense layer."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Add, FullyConnected, MatMul, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import Rewrite, named, rewrite_once, used_here, wildcards

x, w, row, wide = wildcards("x w row wide")


@register_pass
def raise_fully_connected(function: Function) -> Function:
    """Replace a product of two matrices, plus a bias row, by a fully connected layer.

    Nothing else may read the product.

    ::

        %p = mat_mul(%x : <8 x 64>, %w)       ->
        %y = add(%p, %row : <1 x 10>)             %b = reshape(%row) {shape = [10]}
                                                  %y = fully_connected(%x, %w, %b)
    """
    return rewrite_once(function, _RULE)


def _is_layer(node: Node, product: Value, row: Value) -> bool:
    rank, depth = product.type.rank, product.type.shape[-1]
    return rank == 2 and row.type.shape == (1, depth) and product.type == node.type


_RULE = Rewrite(
    Add(used_here(named("product", MatMul(x, w, wide=wide))), row),
    lambda x, w, row, wide: FullyConnected(x, w, Reshape(row, row.type.shape[1:]), wide=wide),
    when=_is_layer,
)
