"""Columns that are added up in an image, which ONNX calls Col2Im."""

from __future__ import annotations

from math import prod

from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.windows import onnx_window
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


def _has_columns(node: ops.ColumnsToImage) -> bool:
    return node.type.kind.is_float and node.type.size > 0


@exports(ops.ColumnsToImage, says=_has_columns)
def columns_to_image(ctx: Writer, node: ops.ColumnsToImage) -> Value:
    """Taps join the channels, and places are one axis."""
    batch, channels = node.type.shape[:2]
    cells = prod(node.kernel)
    shape = (batch, channels * cells, node.input.type.size // (batch * channels * cells))
    blocks = ctx.emit(ops.Reshape(node.input, shape))
    window = onnx_window(node)
    image, block = (ctx.integers(each) for each in (node.image, window.pop("kernel_shape")))
    return ctx.node(node, "Col2Im", blocks, image, block, **window)
