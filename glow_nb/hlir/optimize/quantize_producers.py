"""Let a product round to the quantized type that its result is read in."""

from __future__ import annotations

import dataclasses

from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Quantize
from glow_nb.hlir.optimize.dequantized import PRODUCTS, quantization_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def quantize_producers(function: Function) -> Function:
    """Merge a ``quantize`` into the product of integers before it, if nothing else reads that.

    The sums are then scaled once, by the quotient of the scales. That is as exact as the real
    numbers in between are: within one step of the result.

    ::

        %c = quantized_convolution(%x, ...) {..., kind = float32, scale = 1.0, offset = 0}
        %q = quantize(%c) {kind = uint8, scale = 0.5, offset = 128}
        ->
        %q = quantized_convolution(%x, ...) {..., kind = uint8, scale = 0.5, offset = 128}
    """
    return rewrite(function, _rule, Quantize)


def _rule(node: Quantize, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    product = node.input
    if not isinstance(product, PRODUCTS) or product.predicate is not None:
        return None
    if rewriter.use_count(product) != 1:
        return None
    return rewriter.emit(dataclasses.replace(product, name="", **quantization_of(node)))
