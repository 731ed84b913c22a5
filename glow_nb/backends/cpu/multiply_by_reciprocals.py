"""Quantize by products where the scale is known: processors multiply faster than they divide."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import QuantizeLinear
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.operators.quantize_by_product import QuantizeByProduct, reciprocal_of
from glow_nb.kernels.target import Target

MOST_SCALES = 64
"""The most scales of a quantization: each one is tried at a thousand borders."""


@register_pass
def multiply_by_reciprocals(function: Function, *, target: Target | None = None) -> Function:
    """Quantize to bytes by products with reciprocals, where the result is the same for any input.

    Others stay, and all of them if *target*, by default this processor, has no instruction that
    multiplies and adds with a single rounding.

    ::

        %q = quantize_linear(%x, %scale, %offset) {kind = uint8}     // %scale a constant
        ->
        %q = quantize_by_product(%x, %high, %low, %offset) {kind = uint8}
    """
    if "fma" not in (target or Target.host()).enabled_features:
        return function

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, QuantizeLinear) or node.kind not in BYTES:
            return None
        scale = array_of(node.scale)
        if scale is None or not 0 < scale.size <= MOST_SCALES:
            return None
        reciprocal = reciprocal_of(scale)
        if reciprocal is None:
            return None
        high, low = (
            rewriter.constant(f"{node.name}_{name}", array, is_weight=False)
            for name, array in reciprocal._asdict().items()
        )
        return rewriter.emit(
            QuantizeByProduct(
                node.input, high, low, node.offset, kind=node.kind, predicate=node.predicate
            )
        )

    return rewrite(function, rule)
