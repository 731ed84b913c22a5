"""Regions of images at one size."""

from __future__ import annotations

from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value

_MOST_SAMPLES = 256
"""Samples of a bin along each axis: detectors take 2, and their square is the work of a bin."""


@onnx_op("RoiAlign", since=10)
def roi_align(ctx: Context, node: OnnxNode) -> Value:
    """Sample boxes of ``[N, C, H, W]``; before opset 16 the first element is at 0."""
    transformation = "output_half_pixel"
    if node.opset >= 16:
        transformation = node.text("coordinate_transformation_mode")
    if transformation not in ("half_pixel", "output_half_pixel"):
        raise ctx.wrong(
            f"coordinate_transformation_mode is {transformation!r}; half_pixel and "
            "output_half_pixel exist"
        )
    ratio = node.integer("sampling_ratio")
    if ratio > _MOST_SAMPLES:
        raise ctx.unsupported(f"sampling_ratio {ratio}; at most {_MOST_SAMPLES} is possible")
    aligned = ops.RoiAlign(
        ctx.channels_last(node.operand(0)),
        node.operand(1),
        node.operand(2),
        height=node.integer("output_height"),
        width=node.integer("output_width"),
        ratio=ratio,
        scale=node.number("spatial_scale"),
        half_pixel=transformation == "half_pixel",
        mode=node.text("mode"),
    )
    return ctx.channels_first(ctx.emit(aligned))
