"""Operators that choose some of many: ONNX's results have as many rows as there are."""

from __future__ import annotations

from collections.abc import Sequence

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.formats.onnx.exporter.counted import COUNTED_AXES
from glow_nb.formats.onnx.exporter.registry import exports
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Constant, Node, Value

INT64 = ElementKind.INT64
VECTOR = TensorType(INT64, (1,))


@exports(ops.NonZero)
def non_zero(ctx: Writer, node: ops.NonZero) -> tuple[Value, ...]:
    """The places of what is not zero."""
    return _counted(ctx, node, [ctx.step("NonZero", node.type, node.input)])


@exports(ops.NonMaxSuppression)
def non_max_suppression(ctx: Writer, node: ops.NonMaxSuppression) -> tuple[Value, ...]:
    """The best of boxes that overlap."""
    limit = ctx.integers([node.limit], "limit")
    overlap = node.overlap
    if not (isinstance(overlap, Constant) and 0 <= overlap.array <= 1):
        overlap = ctx.emit(ops.Clip(overlap, 0.0, 1.0))  # which changes nothing, but 2 is refused
    operands = (node.boxes, node.scores, limit, overlap, node.threshold)
    flag = int(node.is_centered)
    rows = ctx.step("NonMaxSuppression", node.type, *operands, center_point_box=flag)
    return _counted(ctx, node, [rows])


@exports(ops.Unique)
def unique(ctx: Writer, node: ops.Unique) -> tuple[Value, ...]:
    """The distinct rows of a matrix."""
    types = (node.input.type, *node.result_types[:-1])
    _, *found = ctx.steps("Unique", types, node.input, axis=0, sorted=int(node.sorted))
    return _counted(ctx, node, found)


def _counted(ctx: Writer, node: Node, found: Sequence[Value]) -> tuple[Value, ...]:
    """Return what was *found*, padded to its bound if anything reads the padding, and how much."""
    axes = COUNTED_AXES[type(node)]
    axis = axes[0]
    assert axis is not None
    number = _size_of(ctx, found[0], axis)
    if not ctx.finds_sizes(node):
        found = [
            value if axis is None else _padded(ctx, value, axis, number)
            for value, axis in zip(found, axes, strict=True)
        ]
    return (*found, ctx.step("Reshape", TensorType(INT64, ()), number, ctx.integers([])))


def _size_of(ctx: Writer, value: Value, axis: int) -> Value:
    return ctx.step("Shape", VECTOR, value, start=axis, end=axis + 1)


def _padded(ctx: Writer, value: Value, axis: int, number: Value) -> Value:
    """Return *value* with zeros after the *number* of its slices, up to its bound."""
    shape = value.type.shape
    missing = ctx.step("Sub", VECTOR, ctx.integers([shape[axis]]), number)
    zeros = ctx.integers([0] * (len(shape) + axis))
    rest = ctx.integers([0] * (len(shape) - axis - 1))
    pads = ctx.step("Concat", TensorType(INT64, (2 * len(shape),)), zeros, missing, rest, axis=0)
    return ctx.step("Pad", value.type, value, pads)
