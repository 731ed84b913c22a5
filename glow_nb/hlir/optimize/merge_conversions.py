"""Convert once."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import ConvertTo
from glow_nb.hlir.ops.families import keeps_every_number
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def merge_conversions(function: Function) -> Function:
    """Skip the kind in between two conversions if it holds every number of the first kind.

    A conversion there and back that could round, as int32 through float32, stays; and so does one
    of uint32 through a float to what floats become through int32, which does not hold them all.

    ::

        %a = convert_to(%x : float16) {kind = float32}    ->
        %b = convert_to(%a) {kind = float64}                  %b = convert_to(%x) {kind = float64}
    """
    return rewrite(function, _rule, ConvertTo)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case ConvertTo(input=ConvertTo(input=value, predicate=None) as inner, predicate=None):
            if not keeps_every_number(value.type.kind, inner.kind):
                return None
            if value.type.kind is ElementKind.UINT32 and inner.kind.is_float and _is_short(node):
                return None
            if value.type == node.type:
                # A storage kind may have infinities that a conversion to it makes finite.
                return None if node.kind.is_storage else value
            return rewriter.emit(ConvertTo(value, kind=node.kind))
    return None


def _is_short(node: ConvertTo) -> bool:
    """Return whether floats become the kind of *node* through int32."""
    return node.kind.value.startswith(("int", "uint")) and (
        node.kind is ElementKind.INT32 or node.kind.bits < 32
    )
