"""Transpose only the lines of an image that a convolution reads."""

from __future__ import annotations

import dataclasses

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Convolution, Slice, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import any_of, rewrite_once, rule, used_here, wildcards

x, order = wildcards("x order")


@register_pass
def strides_before_transposes(function: Function) -> Function:
    """Leave lines out before a transpose, not after it.

    A strided convolution with one tap along a dimension reads only some of the lines. If the
    channels of its input are moved behind for it alone, the others need not be moved. Along the
    last dimension nothing is left out: whole pieces of lines are transposed::

        %t = transpose(%x : <1 x 64 x 32 x 48>) {permutation = [0, 2, 3, 1]}
        %c = convolution(%t, ...) {kernel = [1, 1], stride = [2, 2], ...}
        ->
        %s = slice(%x) {starts = [0, 0, 0, 0], stops = [1, 64, 32, 48], steps = [1, 1, 2, 1]}
        %t = transpose(%s : <1 x 64 x 16 x 48>) {permutation = [0, 2, 3, 1]}
        %c = convolution(%t, ...) {kernel = [1, 1], stride = [1, 2], ...}
    """
    return rewrite_once(function, _lines_first)


@rule(any_of(Convolution, input=used_here(Transpose(x, order))))
def _lines_first(node: Convolution, x: Value, order: tuple[int, ...]) -> Node | None:
    rank = node.type.rank
    if node.type.size == 0 or order != (0, *range(2, rank), 1):
        return None
    axes = [axis for axis in range(rank - 3) if _leaves_out(node, axis)]
    if not axes:
        return None
    steps, stride = [1] * rank, list(node.stride)
    for axis in axes:
        steps[2 + axis], stride[axis] = stride[axis], 1
    lines = Slice(x, (0,) * rank, x.type.shape, tuple(steps))
    return dataclasses.replace(node, input=Transpose(lines, order), stride=tuple(stride))


def _leaves_out(node: Convolution, axis: int) -> bool:
    """Return whether *node* reads only some of the lines along a spatial dimension."""
    pads = (node.pads[axis], node.pads[len(node.kernel) + axis])
    return node.kernel[axis] == 1 and node.stride[axis] > 1 and pads == (0, 0)
