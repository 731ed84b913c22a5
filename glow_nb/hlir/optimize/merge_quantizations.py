"""Drop changes of the numbers' meaning that undo each other."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import AsQuantized, Dequantize, Quantize, Rescale, Stored
from glow_nb.hlir.optimize.dequantized import quantization_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def merge_quantizations(function: Function) -> Function:
    """Quantize what was just dequantized by a rescale, or by nothing if the type is the same.

    Exact: all integers of 8 and 16 bits survive the conversion to float32 and back. A
    ``dequantize`` of what was just quantized stays, since it has rounded.

    ::

        %d = dequantize(%x : int8<8, scale = 0.5, offset = 0>)       ->
        %q = quantize(%d) {kind = int8, scale = 0.5, offset = 0}         // readers of %q read %x
        %r = quantize(%d) {kind = int8, scale = 0.25, offset = 0}        %r = rescale(%x) {...}
    """
    return rewrite(function, _rule, Quantize, Rescale, AsQuantized, Stored)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case Quantize(input=Dequantize(input=source, kind=ElementKind.FLOAT32, predicate=None)):
            if source.type == node.type:
                return source
            return rewriter.emit(Rescale(source, **quantization_of(node)))
        case Rescale(input=source) if source.type == node.type:
            return source
        case AsQuantized(input=Stored(input=source, predicate=None)) if source.type == node.type:
            return source
        case Stored(input=AsQuantized(input=source, predicate=None)):
            return source
    return None
