"""Quantization by known scales without a division."""

from __future__ import annotations

from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.known import array_of
from glow_nb.hlir.ops import QuantizeLinear
from glow_nb.hlir.ops.quantization import BYTES
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.operators import QuantizeByReciprocal
from glow_nb.kernels.target import Target
from glow_nb.numerics.reciprocals import reciprocals

MOST_STEPS = 256
"""Steps from 0 beyond which every number becomes the least or the largest byte."""


@register_pass
def quantize_by_reciprocals(function: Function, *, target: Target | None = None) -> Function:
    """Multiply by the reciprocals of constant scales, in two parts, with the same bytes.

    A division takes as long as ten multiplications, and would be most of what a residual sum of a
    quantized network computes. A scale of which a byte could differ is divided by, as about one of
    five thousand. *target*, by default this processor, must have fused multiply-adds::

        %q = quantize_linear(%x, %scale, %offset) {kind = uint8}
        ->
        %q = quantize_by_reciprocal(%x, %high, %low, %offset) {kind = uint8}
    """
    chosen = target or Target.host()
    if "multiply_add" not in chosen.instruction_sets:
        return function
    known: dict[Value, tuple[Constant, Constant] | None] = {}

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, QuantizeLinear) or node.kind not in BYTES:
            return None
        if node.scale not in known:
            known[node.scale] = _parts_of(node.scale, rewriter)
        parts = known[node.scale]
        if parts is None:
            return None
        high, low = parts
        return rewriter.emit(
            QuantizeByReciprocal(
                node.input, high, low, node.offset, node.kind, predicate=node.predicate
            )
        )

    return rewrite(function, rule, QuantizeLinear)


def _parts_of(scale: Value, rewriter: Rewriter) -> tuple[Constant, Constant] | None:
    """Return the reciprocal of *scale* in two parts, None if it must be divided by."""
    numbers = array_of(scale)
    parts = None if numbers is None else reciprocals(numbers, MOST_STEPS)
    if parts is None:
        return None
    high, low = parts
    return rewriter.constant(scale.name, high), rewriter.constant(f"{scale.name}_rest", low)
