"""Compute at compile time what does not depend on the inputs."""

from __future__ import annotations

from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Function, Node
from glow_nb.hlir.ops import Reshape, Transpose, WinogradFilter
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.schema import operands_of
from glow_nb.types import Array

GROWTH_LIMIT_BYTES = 1 << 20
"""A result larger than this is folded only if it is at most twice as large as its operands, so that
a broadcast of one number does not become a hundred megabytes of weights. A transformed filter is
always folded: it is selected for that."""


@register_pass
def fold_constants(function: Function) -> Function:
    """Replace every node that reads only constants by the constants that it computes.

    ::

        %t = transpose(%w) {permutation = [1, 0]}    ->
        %y = mat_mul(%x, %t)                             %y = mat_mul(%x, %t)   // %t is a constant
    """

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        operands = tuple(operands_of(node))
        if node.has_side_effects or not all(
            isinstance(value, Constant) and value.payload is not None for value in operands
        ):
            return None
        read_bytes = sum(value.type.size_bytes for value in operands)
        made_bytes = sum(type.size_bytes for type in node.result_types)
        is_meant_to = isinstance(node, WinogradFilter)
        if made_bytes > max(GROWTH_LIMIT_BYTES, 2 * read_bytes) and not is_meant_to:
            return None
        arrays = _evaluate(node)
        names = [result.name.replace("#", "_") for result in node.results]
        return tuple(
            rewriter.constant(name, array) for name, array in zip(names, arrays, strict=True)
        )

    return rewrite(function, rule)


def _evaluate(node: Node) -> tuple[Array, ...]:
    """Compute the results of *node*; a transpose is a view, a reshape where NumPy can give one.

    Packed weights are a transpose of a reshape of a transpose: they are copied once, at the end, to
    the place where the kernels read them.
    """
    match node:
        case Reshape(input=Constant() as constant):
            return (constant.array.reshape(node.shape),)
        case Transpose(input=Constant() as constant):
            return (constant.array.transpose(node.permutation),)
    return evaluate_node(node, {})
