"""Bound integers instead of the real numbers that they come from."""

from __future__ import annotations

import math

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import Clip, Quantize, Relu
from glow_nb.hlir.optimize.dequantized import emit_bounded
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def quantize_clips(function: Function) -> Function:
    """Quantize first, then bound the integers, where a ``quantize`` reads a ReLU or a clip.

    Exact, since rounding keeps the order. Bounds that the type has by itself are dropped: those of
    most networks, whose ranges were measured behind the ReLU.

    ::

        %r = relu(%x)
        %q = quantize(%r) {kind = uint8, scale = 0.5, offset = 0}
        ->
        %q = quantize(%x) {kind = uint8, scale = 0.5, offset = 0}
    """
    return rewrite(function, _rule, Quantize)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case Quantize(input=Relu(input=real, predicate=None), predicate=None):
            bounds = (0.0, math.inf)
        case Quantize(input=Clip(input=real, predicate=None) as clip, predicate=None):
            bounds = min(clip.bounds), clip.bounds[1]
        case _:
            return None
    return emit_bounded(rewriter.emit(node.copied(input=real, name="")), bounds, rewriter)
