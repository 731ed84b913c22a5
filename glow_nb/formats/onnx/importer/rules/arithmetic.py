"""Operators on two or more tensors that broadcast: arithmetic, logic, comparison, selection."""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.formulas.terms import where


@onnx_op("BitShift")
def bit_shift(ctx: Context, node: OnnxNode) -> Value:
    """Shift the bits of integers; to the right, negative ones are filled with ones.

    A negative integer is shifted as its complement, which is not negative, and turned back. Shifts
    by a negative number of places are, seen without sign, longer than any integer.
    """
    lhs, rhs = ctx.aligned(node.operand(0), node.operand(1))
    direction, kind = node.text("direction").lower(), lhs.type.kind
    if not kind.is_signed or kind.is_float:
        return ops.BitShift(lhs, rhs, direction=direction)
    x = ctx.term(lhs)
    mask = where(x < 0, x.number(-1), 0).value
    bits = lhs if direction == "left" else ctx.emit(ops.BitwiseXor(lhs, mask))
    unsigned = ElementKind(f"u{kind.value}")
    places = ctx.convert(rhs, unsigned)
    moved = ctx.emit(ops.BitShift(ctx.convert(bits, unsigned), places, direction=direction))
    result = ctx.emit(ops.ConvertTo(moved, kind))
    return result if direction == "left" else ops.BitwiseXor(result, mask)


@onnx_op("Pow")
def power(ctx: Context, node: OnnxNode) -> Value:
    """``base ** exponent`` in the kind of the base; the exponent may have another kind."""
    base, exponent = ctx.aligned(node.operand(0), node.operand(1))
    kind = base.type.kind
    if exponent.type.kind is kind:
        return ops.Pow(base, exponent)
    if kind.is_float or not exponent.type.kind.is_float:
        return ops.Pow(base, ctx.convert(exponent, kind))
    wide = ElementKind.FLOAT64
    result = ops.Pow(ctx.convert(base, wide), ctx.convert(exponent, wide))
    return ops.ConvertTo(ctx.emit(result), kind)


def _fold(ctx: Context, node: OnnxNode, combine: Callable[[Value, Value], Node]) -> Value:
    """Return the operands combined from left to right."""
    first, *others = ctx.aligned(*node.operands)
    for other in others:
        first = ctx.emit(combine(first, other))
    return first


@onnx_op("Sum")
def variadic_sum(ctx: Context, node: OnnxNode) -> Value:
    """Sum of all operands."""
    return _fold(ctx, node, ops.Add)


@onnx_op("Max")
def variadic_max(ctx: Context, node: OnnxNode) -> Value:
    """Largest of all operands."""
    return _fold(ctx, node, ops.Maximum)


@onnx_op("Min")
def variadic_min(ctx: Context, node: OnnxNode) -> Value:
    """Smallest of all operands."""
    return _fold(ctx, node, ops.Minimum)


@onnx_op("Mean")
def variadic_mean(ctx: Context, node: OnnxNode) -> Value:
    """Mean of all operands."""
    return (ctx.term(_fold(ctx, node, ops.Add)) / len(node.operands)).value
