"""Writing elements at places that another tensor names."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

INT64 = ElementKind.INT64


@exports(ops.ScatterND)
def scatter_nd(ctx: Writer, node: ops.ScatterND) -> Value:
    """Slices at coordinates, which ONNX has as int64."""
    indices = ctx.emit(ops.ConvertTo(node.indices, INT64))
    operands = (node.data, indices, node.updates)
    return ctx.node(node, "ScatterND", *operands, reduction=node.reduction)
