"""The choice by a bool tensor; comparisons are in the table of :mod:`...rules.arithmetic`."""

from __future__ import annotations

from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@exports(ops.Select)
def select(ctx: Writer, node: ops.Select) -> Value:
    """One or the other."""
    return ctx.node(node, "Where", node.condition, node.lhs, node.rhs)
