"""Let a product round to the quantized type that its result is read in."""

from __future__ import annotations

import dataclasses

from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import Quantize
from glow_nb.hlir.optimize.dequantized import PRODUCTS, quantization_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import Rewrite, any_of, named, rewrite_once, used_here


@register_pass
def quantize_producers(function: Function) -> Function:
    """Merge a ``quantize`` into the product of integers before it, if nothing else reads that.

    The sums are then scaled once, by the quotient of the scales. The error is at most one step of
    the result, as with the real numbers in between.

    ::

        %c = quantized_convolution(%x, ...) {..., kind = float32, scale = 1.0, offset = 0}
        %q = quantize(%c) {kind = uint8, scale = 0.5, offset = 128}
        ->
        %q = quantized_convolution(%x, ...) {..., kind = uint8, scale = 0.5, offset = 128}
    """
    return rewrite_once(function, _RULE)


_RULE = Rewrite(
    any_of(Quantize, input=used_here(named("product", any_of(*PRODUCTS)))),
    lambda node, product: dataclasses.replace(product, name="", **quantization_of(node)),
)
