"""Reading elements at places that another tensor names."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

INT64 = ElementKind.INT64


@exports(ops.GatherND)
def gather_nd(ctx: Writer, node: ops.GatherND) -> Value:
    """Slices at coordinates, which ONNX has as int64."""
    indices = ctx.emit(ops.ConvertTo(node.indices, INT64))
    return ctx.node(node, "GatherND", node.input, indices, batch_dims=node.batch_dims)
