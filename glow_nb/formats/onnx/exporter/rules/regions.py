"""Regions of images at one size."""

from __future__ import annotations

from typing import Any

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.registry import (
    composes,
    exports_channels_first,
    has_single_attributes,
)
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.families import splat
from glow_nb.hlir.rewrite import Replacement, Rewriter

INT64 = ElementKind.INT64


@exports_channels_first(ops.RoiAlign, "input", says=has_single_attributes)
def roi_align(ctx: Writer, node: Any) -> Value:
    """Boxes sampled at one size."""
    batch = ctx.emit(ops.ConvertTo(node.batch, INT64))
    return ctx.node(
        node,
        "RoiAlign",
        node.input,
        node.boxes,
        batch,
        output_height=node.height,
        output_width=node.width,
        sampling_ratio=node.ratio,
        spatial_scale=node.scale,
        mode=node.mode,
        coordinate_transformation_mode="half_pixel" if node.half_pixel else "output_half_pixel",
    )


@composes(ops.RoiAlign)
def roi_align_at_any_scale(node: ops.RoiAlign, rewriter: Rewriter) -> Replacement:
    """Boxes in float64 are scaled before, by a number that float32 does not hold."""
    scale = splat(rewriter, node.boxes.type, node.scale, f"{node.name}_scale")
    boxes = rewriter.emit(ops.Mul(node.boxes, scale))
    return rewriter.emit(
        ops.RoiAlign(
            node.input,
            boxes,
            node.batch,
            height=node.height,
            width=node.width,
            ratio=node.ratio,
            half_pixel=node.half_pixel,
            mode=node.mode,
        )
    )
