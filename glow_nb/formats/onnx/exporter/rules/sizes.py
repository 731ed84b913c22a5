"""Sizes as numbers: a constant once they are known."""

from __future__ import annotations

from glow_nb.formats.onnx.exporter.registry import composes
from glow_nb.hlir import ops
from glow_nb.hlir.rewrite import Replacement, Rewriter


@composes(ops.Sizes)
def sizes(node: ops.Sizes, rewriter: Rewriter) -> Replacement:
    """Return the numbers; OpenSizeError says which of them is open."""
    return rewriter.constant(f"{node.name}_numbers", node.evaluate())
