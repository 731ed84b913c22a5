"""Recognize a group normalization that an exporter has written as one of instances."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import Add, Broadcast, GroupNormalization, Mul, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewriting import (
    ANY,
    Rewrite,
    Rules,
    any_of,
    named,
    number,
    rewrite_once,
    used_here,
    wildcards,
)

x, operand = wildcards("x operand")


@register_pass
def raise_group_normalization(function: Function) -> Function:
    """Drop reshapes around a group normalization; a scale and a bias after it become its own.

    The reshapes turn groups into channels. Scale and bias are folded in only if the normalization
    has none yet (ones and zeros).

    ::

        %r = reshape(%x) {shape = [2, 8, 196]}         // %x : <2 x 32 x 7 x 7>
        %n = group_normalization(%r, %ones, %zeros) {groups = 8, channel_axis = 1}
        %b = reshape(%n) {shape = [2, 32, 7, 7]}
        %m = mul(%b, %scale)                           // <1 x 32 x 1 x 1>
        %y = add(%m, %bias)
        ->
        %y = group_normalization(%x, %scale, %bias) {groups = 8, channel_axis = 1}
    """
    return rewrite_once(function, _RULES)


def _without_reshapes(node: Reshape, inner: GroupNormalization, x: Value) -> Node | None:
    """Normalize what is reshaped: the channels of a group lie side by side in both shapes."""
    shape = x.type.shape
    if inner.channel_axis != 1 or node.type != x.type or len(shape) < 2:
        return None
    channels, fewer = shape[1], inner.scale.type.size
    if shape[0] != inner.type.shape[0] or not fewer or channels % fewer:
        return None
    size = channels // fewer
    scale, bias = (_repeated(each, size) for each in (inner.scale, inner.bias))
    return dataclasses.replace(inner, input=x, scale=scale, bias=bias, name=node.name)


def _repeated(vector: Value, times: int) -> Value:
    """Return each element of *vector* that many *times*."""
    if times == 1:
        return vector
    size = vector.type.size
    return Reshape(Broadcast(Reshape(vector, (size, 1)), (size, times)), (size * times,))


def _absorb(node: Mul | Add, inner: GroupNormalization, operand: Value) -> Node | None:
    axis, shape = inner.channel_axis, inner.type.shape
    wanted = tuple(size if each == axis else 1 for each, size in enumerate(shape))
    if node.type != inner.type or operand.type.shape != wanted:
        return None
    field = "scale" if isinstance(node, Mul) else "bias"
    changes: dict[str, Any] = {field: Reshape(operand, (shape[axis],))}
    return dataclasses.replace(inner, name=node.name, **changes)


def _group(**fields: Any) -> Any:
    return used_here(named("inner", any_of(GroupNormalization, **fields)))


_RULES = Rules(
    "raise_group_normalization",
    Rewrite(Reshape(_group(input=Reshape(x, ANY)), ANY), _without_reshapes),
    Rewrite(Mul(_group(scale=number(1), bias=number(0)), operand), _absorb),
    Rewrite(Add(_group(bias=number(0)), operand), _absorb),
)
