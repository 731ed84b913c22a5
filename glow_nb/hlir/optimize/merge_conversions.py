"""Convert once."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node
from glow_nb.hlir.ops import ConvertTo
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.types import ElementKind

_SIGNIFICANT_BITS = {
    ElementKind.FLOAT16: 11,
    ElementKind.BFLOAT16: 8,
    ElementKind.FLOAT32: 24,
    ElementKind.FLOAT64: 53,
}

_HOLD_STORAGE = (ElementKind.FLOAT32, ElementKind.FLOAT64)
"""The kinds that hold every number of every storage kind."""


@register_pass
def merge_conversions(function: Function) -> Function:
    """Skip the kind in between two conversions if it holds every number of the first kind.

    A conversion there and back that could round, as int32 through float32, stays.

    ::

        %a = convert_to(%x : float16) {kind = float32}    ->
        %b = convert_to(%a) {kind = float64}                  %b = convert_to(%x) {kind = float64}
    """
    return rewrite(function, _rule)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    match node:
        case ConvertTo(input=ConvertTo(input=value, predicate=None) as inner, predicate=None):
            if not keeps_every_number(value.type.kind, inner.kind):
                return None
            if value.type == node.type:
                # A storage kind may have infinities that a conversion to it makes finite.
                return None if node.kind.is_storage else value
            return rewriter.emit(ConvertTo(value, kind=node.kind))
    return None


def keeps_every_number(source: ElementKind, target: ElementKind) -> bool:
    """True if *target* holds every number of *source*, so that converting loses nothing."""
    if source is target:
        return True
    if source.is_storage or target.is_storage:
        return source.is_storage and target in _HOLD_STORAGE
    if source is ElementKind.BOOL:
        return True
    if target is ElementKind.BOOL or (source.is_float and not target.is_float):
        return False
    if not target.is_float:
        wider = target.size_bytes > source.size_bytes
        return wider and (target.is_signed or not source.is_signed)
    if source.is_float:
        return target in (ElementKind.FLOAT32, ElementKind.FLOAT64) and (
            target.size_bytes > source.size_bytes
        )
    if target in (ElementKind.FLOAT16, ElementKind.BFLOAT16):
        return source.size_bytes == 1 and (target is ElementKind.FLOAT16 or source.is_signed)
    return source.size_bytes * 8 <= _SIGNIFICANT_BITS[target]
