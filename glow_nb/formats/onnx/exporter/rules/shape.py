"""Operators that move elements."""

from __future__ import annotations

from glow_nb.base.types import TensorType
from glow_nb.formats.onnx.exporter.registry import composes, exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.formats.onnx.schema.counting import same_dimension
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value
from glow_nb.hlir.index_ranges import whole
from glow_nb.hlir.ops.families import fitted
from glow_nb.hlir.ops.shape import slice_axis
from glow_nb.hlir.rewrite import Replacement, Rewriter

TO_THE_FRONT = -(1 << 63)
"""Where a slice with a negative step ends that takes the first element, too."""


@exports(ops.Reshape)
def reshape(ctx: Writer, node: ops.Reshape) -> Value:
    """Another shape; an open size is what is left for it."""
    shape, axis = list(node.shape), ctx.open_axis(node.input)
    if axis is not None:
        open_axis = same_dimension(node.input.type.shape, axis, node.shape)
        assert open_axis is not None, "count_after has found it"
        shape[open_axis] = -1
    is_empty = {"allowzero": 1} if 0 in shape else {}
    return ctx.node(node, "Reshape", node.input, ctx.integers(shape, "shape"), **is_empty)


@exports(ops.Transpose)
def transpose(ctx: Writer, node: ops.Transpose) -> Value:
    """Axes in another order."""
    if not node.permutation:
        return node.input
    return ctx.node(node, "Transpose", node.input, perm=node.permutation)


@exports(ops.Concat)
def concat(ctx: Writer, node: ops.Concat) -> Value:
    """One after another."""
    return ctx.node(node, "Concat", *node.inputs, axis=node.axis)


@exports(ops.Slice)
def slice_axes(ctx: Writer, node: ops.Slice) -> Value:
    """A range along each axis that is not taken whole."""
    sizes = node.input.type.shape
    cut = [axis for axis, taken in enumerate(node.ranges) if taken != whole(sizes[axis])]
    if not cut:
        return node.input
    ends = [TO_THE_FRONT if node.stops[axis] < 0 else node.stops[axis] for axis in cut]
    operands = (
        ctx.integers([node.starts[axis] for axis in cut], "starts"),
        ctx.integers(ends, "ends"),
        ctx.integers(cut, "axes"),
        ctx.integers([node.steps[axis] for axis in cut], "steps"),
    )
    return ctx.node(node, "Slice", node.input, *operands)


@composes(ops.InsertSlice)
def insert_slice(node: ops.InsertSlice, rewriter: Rewriter) -> Replacement:
    """What lies before the part, the part, and what lies after it."""
    size, end = node.type.shape[node.axis], node.start + node.part.type.shape[node.axis]
    before = slice_axis(rewriter, node.input, node.axis, slice(0, node.start))
    behind = slice_axis(rewriter, node.input, node.axis, slice(end, size))
    return rewriter.emit(ops.Concat((before, node.part, behind), node.axis))


@exports(ops.Split)
def split(ctx: Writer, node: ops.Split) -> tuple[Value, ...]:
    """Pieces along an axis."""
    sizes = ctx.integers(node.sizes, "sizes")
    return ctx.steps("Split", node.result_types, node.input, sizes, axis=node.axis)


@exports(ops.Pad)
def pad(ctx: Writer, node: ops.Pad) -> Value:
    """Cells around a tensor, after others were cut off."""
    value = node.input
    if min(node.pads, default=0) < 0:
        shape = value.type.shape
        starts = tuple(max(-begin, 0) for begin, _ in node.widths)
        stops = tuple(n - max(-end, 0) for n, (_, end) in zip(shape, node.widths, strict=True))
        value = ctx.emit(ops.Slice(value, starts, stops, (1,) * len(shape)))
    added = [max(pad, 0) for pad in node.pads]
    if not any(added):
        return value
    fill = None
    if node.mode == "constant":
        fill = ctx.constant(fitted(node.value, TensorType(node.type.kind, ())), "fill")
    pads = ctx.integers(added, "pads")
    return ctx.node(node, "Pad", value, pads, fill, mode=node.mode)


@exports(ops.Tile)
def tile(ctx: Writer, node: ops.Tile) -> Value:
    """The whole tensor several times."""
    return ctx.node(node, "Tile", node.input, ctx.integers(node.repeats, "repeats"))


@exports(ops.Broadcast)
def broadcast(ctx: Writer, node: ops.Broadcast) -> Value:
    """Sizes of 1 repeated; an open size is kept by a 1."""
    axis = ctx.open_axis(node.input)
    shape = [1 if index == axis else size for index, size in enumerate(node.shape)]
    return ctx.node(node, "Expand", node.input, ctx.integers(shape, "shape"))
