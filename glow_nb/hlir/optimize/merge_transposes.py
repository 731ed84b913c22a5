"""Two transposes with a reshape between them become one."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Reshape, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.permutation import axis_groups, compose
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def merge_transposes(function: Function) -> Function:
    """Transpose before axes are merged what is transposed again behind.

    So the results of a convolution are spread out over an image, and its channels put first, in one
    pass over memory::

        %t = transpose(%x : <1 x 4 x 4 x 2 x 2 x 8>) {permutation = [0, 1, 3, 2, 4, 5]}
        %r = reshape(%t) {shape = [1, 8, 8, 8]}
        %y = transpose(%r) {permutation = [0, 3, 1, 2]}
        ->
        %t = transpose(%x) {permutation = [0, 5, 1, 3, 2, 4]}
        %y = reshape(%t) {shape = [1, 8, 8, 8]}
    """
    return rewrite(function, _rule, Transpose)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case Transpose(
            input=Reshape(input=Transpose(predicate=None) as inner, predicate=None) as reshape,
            predicate=None,
        ) if rewriter.use_count(reshape) == rewriter.use_count(inner) == 1:
            pass
        case _:
            return None
    groups = axis_groups(inner.type.shape, reshape.shape)
    if groups is None or any(len(merged) != 1 for _, merged in groups):
        return None
    axes = {merged: parts for parts, (merged,) in groups}
    moved = tuple(part for axis in node.permutation for part in axes[axis])
    outer = rewriter.emit(Transpose(inner.input, compose(inner.permutation, moved)))
    return rewriter.emit(Reshape(outer, node.type.shape))
