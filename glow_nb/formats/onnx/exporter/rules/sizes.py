"""Open sizes as numbers."""

from __future__ import annotations

from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@exports(ops.Sizes)
def sizes(ctx: Writer, node: ops.Sizes) -> Value:
    """The shapes of inputs tell them."""
    return ctx.integers(node.numbers, "sizes")
