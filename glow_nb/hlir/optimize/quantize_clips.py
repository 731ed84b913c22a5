"""Bound integers instead of the real numbers that they come from."""

from __future__ import annotations

import math

from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Clip, Quantize, Relu
from glow_nb.hlir.optimize.dequantized import emit_bounded
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.hlir.rewriting import any_of, named, rewrite_once, rule, wildcards

(x,) = wildcards("x")


@register_pass
def quantize_clips(function: Function) -> Function:
    """Quantize first, then bound the integers, where a ``quantize`` reads a ReLU or a clip.

    This is exact, since rounding keeps the order of numbers. Bounds that are those of the type are
    dropped, as in most networks, whose ranges were measured after the ReLU.

    ::

        %r = relu(%x)
        %q = quantize(%r) {kind = uint8, scale = 0.5, offset = 0}
        ->
        %q = quantize(%x) {kind = uint8, scale = 0.5, offset = 0}
    """
    return rewrite_once(function, _first)


@rule(any_of(Quantize, input=named("bounded", any_of(Relu, Clip, input=x))))
def _first(node: Quantize, bounded: Relu | Clip, x: Value, rewriter: Rewriter) -> Value:
    low, high = (0.0, math.inf) if isinstance(bounded, Relu) else bounded.bounds
    quantized = rewriter.emit(node.copied(input=x, name=""))
    return emit_bounded(quantized, (min(low, high), high), rewriter)
