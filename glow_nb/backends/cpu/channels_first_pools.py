"""Pool images that have the channels first as they lie."""

from __future__ import annotations

import dataclasses

from glow_nb.base.size import symbols_of
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import AvgPool, MaxPool, Reshape, Transpose
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.vectors import native_lanes

FEW_TAPS = 4
"""Taps along a row that are read one after the other; more of them are scanned, in channels."""


@register_pass
def channels_first_pools(function: Function, *, target: Target | None = None) -> Function:
    """Pool the channels of an image as images of one channel, and transpose the result.

    That is done where the channels of an image are moved behind for pools alone, the rows of the
    result fill a vector of *target*, by default this processor, and no window reaches into
    padding at their ends. A transpose back meets the one of the result, and both are dropped::

        %t = transpose(%x : <1 x 192 x 42 x 64>) {permutation = [0, 2, 3, 1]}
        %p = max_pool(%t) {kernel = [2, 2], stride = [2, 2], ...}       // <1 x 21 x 32 x 192>
        ->
        %r = reshape(%x) {shape = [192, 42, 64, 1]}
        %q = max_pool(%r) {kernel = [2, 2], stride = [2, 2], ...}       // <192 x 21 x 32 x 1>
        %s = reshape(%q) {shape = [1, 192, 21, 32]}
        %p = transpose(%s) {permutation = [0, 2, 3, 1]}
    """
    chosen = target or Target.host()
    for_pools = {
        value.name
        for value, readers in function.users().items()
        if isinstance(value, Transpose) and all(isinstance(r, MaxPool | AvgPool) for r in readers)
    }

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, MaxPool | AvgPool) or node.predicate is not None:
            return None
        before = node.input
        if not isinstance(before, Transpose) or before.name not in for_pools:
            return None
        if before.permutation != _channels_last(node.type.rank) or not _suits(node, chosen):
            return None
        return _pooled(node, before, rewriter)

    return rewrite(function, rule, MaxPool, AvgPool)


def _channels_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _suits(node: MaxPool | AvgPool, target: Target) -> bool:
    """Return whether vectors of windows side by side compute most of a row, of a known size."""
    if symbols_of(*node.input.type.shape[1:-1]):
        return False
    rank, (*_, size, _), (*_, out, _) = len(node.kernel), node.input.type.shape, node.type.shape
    reach = (out - 1) * node.stride[-1] + node.window.span[-1]
    is_inside = not node.pads[rank - 1] and reach <= size
    fills = out >= native_lanes(target, node.type.kind)
    return node.type.size != 0 and is_inside and fills and node.kernel[-1] <= FEW_TAPS


def _pooled(node: MaxPool | AvgPool, before: Transpose, rewriter: Rewriter) -> Value:
    batch, channels, *size = before.input.type.shape
    planes = rewriter.emit(Reshape(before.input, (batch * channels, *size, 1)))
    pooled = rewriter.emit(dataclasses.replace(node, input=planes))
    out = pooled.type.shape[1:-1]
    result = rewriter.emit(Reshape(pooled, (batch, channels, *out)))
    return rewriter.emit(Transpose(result, before.permutation))
