"""Convert once."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import ConvertTo
from glow_nb.hlir.ops.families import keeps_every_number
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import rewrite_once, rule, wildcards

x, between, last = wildcards("x between last")


@register_pass
def merge_conversions(function: Function) -> Function:
    """Skip the kind in between two conversions if it holds every number of the first kind.

    Two conversions of which the first one could round, such as int32 to float32 and back, stay. So
    do conversions of uint32 to a float and on to a kind that floats reach through int32, which does
    not represent all numbers of uint32.

    ::

        %a = convert_to(%x : float16) {kind = float32}    ->
        %b = convert_to(%a) {kind = float64}                  %b = convert_to(%x) {kind = float64}
    """
    return rewrite_once(function, _once)


@rule(ConvertTo(ConvertTo(x, kind=between), kind=last))
def _once(x: Value, between: ElementKind, last: ElementKind) -> Value | None:
    first = x.type.kind
    if not keeps_every_number(first, between):
        return None
    if first is ElementKind.UINT32 and between.is_float and _is_short(last):
        return None
    if first is last:  # a storage kind may have infinities that a conversion to it makes finite
        return None if last.is_storage else x
    return ConvertTo(x, kind=last)


def _is_short(kind: ElementKind) -> bool:
    """Return whether floats become *kind* through int32."""
    return kind.value.startswith(("int", "uint")) and (kind is ElementKind.INT32 or kind.bits < 32)
