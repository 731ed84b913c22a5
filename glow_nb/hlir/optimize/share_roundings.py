"""Let elementwise arithmetic read what products read: one copy of a tensor, of half the bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from glow_nb.base.types import ElementKind
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Add, ConvertTo, Maximum, Minimum, Mul, Relu, Select, Sub
from glow_nb.hlir.ops.families import NARROW_FLOATS
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.precision import FACTORS
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite

_ARITHMETIC: tuple[type[Node], ...] = (Add, Sub, Mul, Maximum, Minimum, Relu, Select)
"""Operators that add to what the roundings of their operands are, or keep or scale it."""


@register_pass
def share_roundings(function: Function) -> Function:
    """Let arithmetic read values in the rounded form that products read.

    The input of a residual block is read by a product, which rounds it to 16 bits, and by the sum
    after the block. Without this pass it is stored twice, in 6 bytes for each element. A value with
    other readers, such as a normalization or an output, stays as it is, and so does a value that
    the model itself rounds for another reader than a product::

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
    users = function.users()
    for value, readers in users.items():
        if not isinstance(value, Node) or value.type.kind is not ElementKind.FLOAT32:
            continue
        others = [reader for reader in readers if not isinstance(reader, ConvertTo)]
        kinds = {_product_kind(each, users) for each in readers if isinstance(each, ConvertTo)}
        if len(kinds) != 1 or not others or not all(isinstance(r, _ARITHMETIC) for r in others):
            continue
        (kind,) = kinds
        if kind is not None:
            found[value.name] = kind
    return found


def _product_kind(rounding: ConvertTo, users: Mapping[Value, Sequence[Node]]) -> ElementKind | None:
    """Return the kind of a *rounding* for wide products alone, None of any other conversion."""
    readers = users.get(rounding, ())
    is_wide = all(type(each) in FACTORS and getattr(each, "wide", False) for each in readers)
    return rounding.kind if readers and is_wide and rounding.kind in NARROW_FLOATS else None
