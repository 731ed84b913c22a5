"""Activation functions with attributes."""

from __future__ import annotations

from math import inf

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import exports, has_single_attributes
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@exports(ops.LeakyRelu, says=has_single_attributes)
def leaky_relu(ctx: Writer, node: ops.LeakyRelu) -> Value:
    """A multiple of negative elements."""
    return ctx.node(node, "LeakyRelu", node.input, alpha=node.alpha)


@exports(ops.PRelu)
def prelu(ctx: Writer, node: ops.PRelu) -> Value:
    """A learned multiple of negative elements."""
    return ctx.node(node, "PRelu", node.input, node.slope)


@exports(ops.Elu, says=has_single_attributes)
def elu(ctx: Writer, node: ops.Elu) -> Value:
    """An exponential of negative elements."""
    return ctx.node(node, "Elu", node.input, alpha=node.alpha)


@exports(ops.HardSigmoid, says=has_single_attributes)
def hard_sigmoid(ctx: Writer, node: ops.HardSigmoid) -> Value:
    """A clipped line."""
    return ctx.node(node, "HardSigmoid", node.input, alpha=node.alpha, beta=node.beta)


@exports(ops.HardSwish)
def hard_swish(ctx: Writer, node: ops.HardSwish) -> Value:
    """The element times a clipped line."""
    return ctx.node(node, "HardSwish", node.input)


@exports(ops.Swish, since=24, says=has_single_attributes)
def swish(ctx: Writer, node: ops.Swish) -> Value:
    """The element times its sigmoid."""
    return ctx.node(node, "Swish", node.input, alpha=node.alpha)


def _has_gelu(node: ops.Gelu) -> bool:
    """The constants in ONNX's definition are float32."""
    return node.type.kind is not ElementKind.FLOAT64


@exports(ops.Gelu, says=_has_gelu)
def gelu(ctx: Writer, node: ops.Gelu) -> Value:
    """The element times the normal distribution."""
    return ctx.node(node, "Gelu", node.input, approximate=node.approximate)


@exports(ops.Clip)
def clip(ctx: Writer, node: ops.Clip) -> Value:
    """A range: both bounds are given, since a bound left out is the largest finite number."""
    if (node.minimum, node.maximum) == (-inf, inf):
        return node.input
    kind = node.type.kind
    low, high = node.bounds
    bounds = ctx.number(low, kind, "minimum"), ctx.number(high, kind, "maximum")
    return ctx.node(node, "Clip", node.input, *bounds)
