"""Multiply 16-bit numbers where a network of float32 has products."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops.attention import Attention
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.precision import FACTORS, lowered_products
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def lower_precision(
    function: Function,
    *,
    kind: ElementKind = ElementKind.BFLOAT16,
    keep: Collection[str] = (),
    must_fit: bool = True,
) -> Function:
    """Round the operands of products of float32 to *kind*; their sums and results stay float32.

    Products are convolutions, transposed ones too, matrix products, dense layers and those of
    attention, whose scores and softmax stay float32. :func:`glow_nb.hlir.precision.precisions_of`
    says which of them stay float32, and why; layers that match a name or glob of *keep* are among
    them. If *must_fit*, an element of *keep* that matches no layer is an error.

    ::

        %y = convolution(%x, %w, %b) {...}
        ->
        %x' = convert_to(%x) {kind = bfloat16}
        %w' = convert_to(%w) {kind = bfloat16}    // folded: constants are stored as bfloat16
        %y = convolution(%x', %w', %b) {..., wide = true}

    A value that only products read is stored as *kind*: the conversion is fused into the kernel
    that computes the value. The later pass ``hoist_roundings`` moves conversions up.
    """
    lowered = lowered_products(function, keep, must_fit=must_fit)

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if node.name not in lowered:
            return None
        names = FACTORS[type(node)]
        factors = {name: as_kind(rewriter, getattr(node, name), kind) for name in names}
        changes: dict[str, Any] = {**factors, "wide": True}
        if isinstance(node, Attention):
            changes["rounds_weights"] = True
        return rewriter.emit(dataclasses.replace(node, **changes))

    return rewrite(function, rule, *FACTORS)
