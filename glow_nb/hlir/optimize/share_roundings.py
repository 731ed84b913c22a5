"""Let elementwise arithmetic read what products read: one copy of a tensor, of half the bytes."""

from __future__ import annotations

import dataclasses

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Add, ConvertTo, Maximum, Minimum, Mul, Relu, Select, Sub
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

_ARITHMETIC: tuple[type[Node], ...] = (Add, Sub, Mul, Maximum, Minimum, Relu, Select)
"""Operators whose result is off by no more than their operands, as a part of the largest."""


@register_pass
def share_roundings(function: Function) -> Function:
    """Let arithmetic read the rounded form of what is rounded for products.

    The input of a residual block is read by a product, which rounds it to 16 bits, and by the sum
    behind the block. Without this pass it is stored twice, in 6 bytes for each element. What
    anything else reads, as a normalization or an output, stays as it is::

        %h = convert_to(%x) {kind = bfloat16}          %h = convert_to(%x) {kind = bfloat16}
        %c = convolution(%h, ...)               ->     %c = convolution(%h, ...)
        %s = add(%c, %x)                               %f = convert_to(%h) {kind = float32}
                                                       %s = add(%c, %f)
    """
    shared = _shared(function)
    if not shared:
        return function

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        def rounded(value: Value) -> Value:
            kind = shared.get(value.name)
            if kind is None:
                return value
            narrow = rewriter.emit(ConvertTo(value, kind))
            return rewriter.emit(ConvertTo(narrow, value.type.kind))

        changed = node.map_operands(rounded)
        return None if changed is node else rewriter.emit(dataclasses.replace(changed, name=""))

    return rewrite(function, rule, *_ARITHMETIC)


def _shared(function: Function) -> dict[str, ElementKind]:
    """Return, by name, the results that products read rounded to a kind, and else arithmetic."""
    found: dict[str, ElementKind] = {}
    for value, readers in function.users().items():
        if not isinstance(value, Node) or value.type.kind is not ElementKind.FLOAT32:
            continue
        roundings = [r for r in readers if isinstance(r, ConvertTo) and r.kind in NARROW_FLOATS]
        others = [reader for reader in readers if reader not in roundings]
        if roundings and others and all(isinstance(reader, _ARITHMETIC) for reader in others):
            found[value.name] = roundings[0].kind
    return found
