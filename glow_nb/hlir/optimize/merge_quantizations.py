"""Drop changes of the numbers' meaning that undo each other."""

from __future__ import annotations

from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import AsQuantized, Dequantize, Quantize, Rescale, Stored
from glow_nb.hlir.optimize.dequantized import quantization_of
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import Rewrite, Rules, any_of, keeps_type, rewrite_once, wildcards

(x,) = wildcards("x")


@register_pass
def merge_quantizations(function: Function) -> Function:
    """Replace a dequantize and a quantize after it by a rescale, or by nothing if the type is the
    same.

    This is exact: integers of 8 and 16 bits do not change in float32. A ``quantize`` with a
    ``dequantize`` after it stays, since it rounds.

    ::

        %d = dequantize(%x : int8<8, scale = 0.5, offset = 0>)       ->
        %q = quantize(%d) {kind = int8, scale = 0.5, offset = 0}         // readers of %q read %x
        %r = quantize(%d) {kind = int8, scale = 0.25, offset = 0}        %r = rescale(%x) {...}
    """
    return rewrite_once(function, _RULES)


_RULES = Rules(
    "merge_quantizations",
    Rewrite(any_of(Quantize, input=Dequantize(x)), x, when=keeps_type),
    Rewrite(
        any_of(Quantize, input=Dequantize(x)),
        lambda node, x: Rescale(x, **quantization_of(node)),
    ),
    Rewrite(any_of(Rescale, input=x), x, when=keeps_type),
    Rewrite(any_of(AsQuantized, input=Stored(x)), x, when=keeps_type),
    Rewrite(Stored(any_of(AsQuantized, input=x)), x),
)
