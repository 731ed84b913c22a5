"""Recognize a group normalization that an exporter has written as one of instances."""

from __future__ import annotations

import dataclasses
from typing import Any

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.known import is_uniform
from glow_nb.hlir.ops import Add, Broadcast, GroupNormalization, Mul, Reshape
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


@register_pass
def raise_group_normalization(function: Function) -> Function:
    """Drop reshapes around a group normalization; a scale and a bias after it become its own.

    The reshapes make channels of groups. Scale and bias are taken in where it has none yet, that
    is, ones and zeros.

    ::

        %r = reshape(%x) {shape = [2, 8, 196]}         // %x : <2 x 32 x 7 x 7>
        %n = group_normalization(%r, %ones, %zeros) {groups = 8, channel_axis = 1}
        %b = reshape(%n) {shape = [2, 32, 7, 7]}
        %m = mul(%b, %scale)                           // <1 x 32 x 1 x 1>
        %y = add(%m, %bias)
        ->
        %y = group_normalization(%x, %scale, %bias) {groups = 8, channel_axis = 1}
    """
    return rewrite(function, _rule, Reshape, Mul, Add)


def _rule(node: Node, rewriter: Rewriter) -> Replacement:
    if node.predicate is not None:
        return None
    match node:
        case Reshape(input=GroupNormalization(input=Reshape() as before) as inner):
            return _without_reshapes(node, inner, before, rewriter)
        case (
            Mul(lhs=GroupNormalization() as inner, rhs=factor)
            | Mul(lhs=factor, rhs=GroupNormalization() as inner)
        ) if is_uniform(inner.scale, 1) and is_uniform(inner.bias, 0):
            return _absorb(node, inner, "scale", factor, rewriter)
        case (
            Add(lhs=GroupNormalization() as inner, rhs=summand)
            | Add(lhs=summand, rhs=GroupNormalization() as inner)
        ) if is_uniform(inner.bias, 0):
            return _absorb(node, inner, "bias", summand, rewriter)
    return None


def _without_reshapes(
    node: Reshape, inner: GroupNormalization, before: Reshape, rewriter: Rewriter
) -> Replacement:
    """Normalize what is reshaped: the channels of a group lie side by side in both shapes."""
    x, shape = before.input, before.input.type.shape
    is_own = inner.predicate is None and rewriter.use_count(inner) == 1
    if not is_own or inner.channel_axis != 1 or node.type != x.type or len(shape) < 2:
        return None
    channels, fewer = shape[1], inner.scale.type.size
    if shape[0] != inner.type.shape[0] or not fewer or channels % fewer:
        return None
    size = channels // fewer
    changes: dict[str, Any] = {
        name: _repeated(getattr(inner, name), size, rewriter) for name in ("scale", "bias")
    }
    return rewriter.emit(dataclasses.replace(inner, input=x, name=node.name, **changes))


def _repeated(vector: Value, times: int, rewriter: Rewriter) -> Value:
    """Return each element of *vector* that many *times*."""
    if times == 1:
        return vector
    size = vector.type.size
    column = rewriter.emit(Reshape(vector, (size, 1)))
    return rewriter.emit(Reshape(rewriter.emit(Broadcast(column, (size, times))), (size * times,)))


def _absorb(
    node: Node, inner: GroupNormalization, field: str, operand: Value, rewriter: Rewriter
) -> Replacement:
    axis, shape = inner.channel_axis, inner.type.shape
    wanted = tuple(size if each == axis else 1 for each, size in enumerate(shape))
    is_own = rewriter.use_count(inner) == 1 and inner.predicate is None
    if not is_own or node.type != inner.type or operand.type.shape != wanted:
        return None
    vector = rewriter.emit(Reshape(operand, (shape[axis],)))
    changes: dict[str, Any] = {field: vector}
    return rewriter.emit(dataclasses.replace(inner, name=node.name, **changes))
