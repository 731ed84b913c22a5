"""Multiply one row by a transposed matrix without transposing it."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import MatMul, Mul, ReduceSum, Reshape, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.types import ElementKind


@register_pass
def single_rows_to_sums(function: Function) -> Function:
    """Replace the product of one row and a matrix transposed at run time by sums of products.

    A decoder that keeps its keys multiplies one query by all of them for each token. A product
    would read, turn and write the keys to use each once; the sums read them where they lie.
    Narrow floats stay products, which are summed up in wider ones.

    ::

        %t = transpose(%k : <1 x 8 x 100 x 32>) {permutation = [0, 1, 3, 2]}
        %y = mat_mul(%q : <1 x 8 x 1 x 32>, %t)
        ->
        %p = mul(%q, %k)
        %s = reduce_sum(%p) {axes = [3], keep_dims = false}
        %y = reshape(%s) {shape = [1, 8, 1, 100]}
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case MatMul(lhs=row, rhs=Transpose(input=matrix, permutation=order) as turned):
            rank = turned.type.rank
        case _:
            return None
    if node.predicate is not None or turned.predicate is not None:
        return None
    if rank == 2 or row.type.shape[-2] != 1 or rewriter.use_count(turned) > 1:  # a shared matrix
        return None
    is_wide = node.type.kind in (ElementKind.FLOAT32, ElementKind.FLOAT64)
    if not is_wide or order != (*range(rank - 2), rank - 1, rank - 2):
        return None
    products = rewriter.emit(Mul(row, matrix))
    sums = rewriter.emit(ReduceSum(products, (rank - 1,), keep_dims=False))
    return rewriter.emit(Reshape(sums, node.type.shape))
