"""Functions of one element: activations, mathematics."""

from __future__ import annotations

import math

import numpy as np

from glow_nb.base.conversion import finite_limits
from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.formats.onnx.importer.rules.conversion import in_floats
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops.formulas.terms import where


@onnx_op("Identity")
def identity(ctx: Context, node: OnnxNode) -> Value:
    """``result = input``."""
    return node.operand(0)


@onnx_op("Erf", since=9)
def erf(ctx: Context, node: OnnxNode) -> Value:
    """``2 / sqrt(pi) * integral of exp(-t ** 2) for t in 0..x``; integers truncate.

    The reference computes with float32, where the result is 1 from 4 on.
    """
    return in_floats(ctx, node.operand(0), ops.Erf, ElementKind.FLOAT32)


@onnx_op("Selu")
def selu(ctx: Context, node: OnnxNode) -> Value:
    """``gamma * (x if x >= 0 else alpha * (exp(x) - 1))``."""
    unit = ctx.emit(ops.Elu(node.operand(0), alpha=node.number("alpha")))
    return (ctx.term(unit) * node.number("gamma")).value


@onnx_op("Celu")
def celu(ctx: Context, node: OnnxNode) -> Value:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    x, alpha = ctx.term(node.operand(0)), node.number("alpha")
    scaled = x / alpha
    if alpha > 0:  # then only one of the two terms is not 0
        return (scaled.apply(ops.Elu) * alpha).value
    curve = (scaled.apply(ops.Exp) - 1) * alpha
    return (x.joined(ops.Maximum, 0) + curve.joined(ops.Minimum, 0)).value


@onnx_op("Softsign")
def softsign(ctx: Context, node: OnnxNode) -> Value:
    """``x / (1 + |x|)``."""
    x = ctx.term(node.operand(0))
    return (x / (x.apply(ops.Abs) + 1)).value


@onnx_op("Mish")
def mish(ctx: Context, node: OnnxNode) -> Value:
    """``x * tanh(softplus(x))``."""
    x = ctx.term(node.operand(0))
    return (x * x.apply(ops.Softplus).apply(ops.Tanh)).value


@onnx_op("ThresholdedRelu")
def thresholded_relu(ctx: Context, node: OnnxNode) -> Value:
    """``x if x > alpha else 0``."""
    x = ctx.term(node.operand(0))
    return where(x > node.number("alpha"), x, 0).value


@onnx_op("Shrink")
def shrink(ctx: Context, node: OnnxNode) -> Value:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, else 0; integers truncate."""
    limit, bias = node.number("lambd"), node.number("bias")

    def shrunk(value: Value) -> Value:
        x = ctx.term(value)
        return where(x < -limit, x + bias, where(x > limit, x - bias, 0)).value

    return in_floats(ctx, node.operand(0), shrunk)


@onnx_op("PRelu")
def prelu(ctx: Context, node: OnnxNode) -> Value:
    """``x if x >= 0 else slope * x``; the slope broadcasts to ``x``."""
    x, slope = node.operand(0), ctx.with_rank(node.operand(1), node.operand(0).type.rank)
    if x.type.kind.is_signed:
        return ops.PRelu(x, slope)
    return ops.Mul(x, ctx.filled(x.type, 1, (1,) * x.type.rank))


@onnx_op("Clip")
def clip_by_attributes(ctx: Context, node: OnnxNode) -> Value:
    """``min(max(x, minimum), maximum)`` with bounds as attributes, up to opset 10."""
    x = node.operand(0)
    least, greatest = _finite_bounds(x.type.kind)
    low = node.number("min") if node.has("min") else least
    high = node.number("max") if node.has("max") else greatest
    return ops.Clip(x, minimum=low, maximum=high)


@onnx_op("Clip", since=11)
def clip(ctx: Context, node: OnnxNode) -> Value:
    """``min(max(x, minimum), maximum)`` with bounds as operands, each optional."""
    x, bounds = node.operand(0), (node.optional(1), node.optional(2))
    defaults = _finite_bounds(x.type.kind)
    known = [
        default if bound is None else _known_number(bound)
        for bound, default in zip(bounds, defaults, strict=True)
    ]
    low, high = known
    if x.type.kind.is_float and low is not None and high is not None:
        return ops.Clip(x, minimum=low, maximum=high)
    for bound, default, node_class in zip(
        bounds, defaults, (ops.Maximum, ops.Minimum), strict=True
    ):
        if bound is not None or x.type.kind.is_float:
            limit = ctx.number(x.type, default) if bound is None else bound
            x = ctx.emit(node_class(*ctx.aligned(x, limit)))
    return x


def _finite_bounds(kind: ElementKind) -> tuple[float, float]:
    """Return what ONNX's Clip takes for bounds that are left out: infinities are none for floats.

    Its definition says ``numeric_limits::lowest()`` and ``max()``, so it turns an infinity into the
    largest finite number. Integers have nothing beyond theirs.
    """
    if not kind.is_float:
        return -math.inf, math.inf
    return finite_limits(kind)


def _known_number(bound: Value) -> float | None:
    """Return the one number that *bound* is known to be, None if there is none to compare with."""
    if not isinstance(bound, Constant) or bound.type.size != 1:
        return None
    number = float(bound.array.item())
    return None if math.isnan(number) else number


@onnx_op("BitwiseNot")
def bitwise_not(ctx: Context, node: OnnxNode) -> Value:
    """All bits flipped: exclusive or with all ones."""
    x = node.operand(0)
    if x.type.kind.dtype.kind not in "iu":
        raise ctx.wrong(f"operand {x} must hold integers")
    ones = np.zeros((1,) * x.type.rank, x.type.kind.dtype)
    return ops.BitwiseXor(x, ctx.constant(np.invert(ones)))
