"""Take the product with the inputs out of recurrent layers."""

from __future__ import annotations

import dataclasses

from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import RecurrentLayer, Reshape
from glow_nb.hlir.ops.recurrent_layer import emit_input_product
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import is_narrow


@register_pass
def split_recurrent_layers(function: Function) -> Function:
    """Separate the product with the inputs from recurrent layers, so that passes optimize it.

    ::

        %y = recurrent_layer(%x : <9 x 2 x 64>, %w : <1 x 128 x 64>, %r, ...) {cell = "lstm", ...}
        ->
        %product = ... mat_mul of %x, reshaped, and %w, reshaped and transposed
        %y = recurrent_layer(%product : <9 x 2 x 128>, none, %r, ...) {cell = "lstm", ...}

    Layers of 16-bit floats are not split, since they do not round the product.
    """

    def rule(node: RecurrentLayer, rewriter: Rewriter) -> Replacement:
        if node.weights is None or is_narrow(node.type):
            return None
        steps, rows, _ = node.input.type.shape
        product = emit_input_product(node, rewriter)
        shape = (steps, rows, product.type.shape[1])
        split = dataclasses.replace(
            node, input=rewriter.emit(Reshape(product, shape)), weights=None, name=""
        )
        return rewriter.emit(split, node.name).results

    return rewrite(function, rule, RecurrentLayer)
