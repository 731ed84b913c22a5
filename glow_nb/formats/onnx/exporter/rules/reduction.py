"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

from glow_nb.base.types import ElementKind
from glow_nb.formats.onnx.exporter.channels_first import to_last
from glow_nb.formats.onnx.exporter.registry import exports, exports_channels_first
from glow_nb.formats.onnx.exporter.writer import Writer
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.reduction import Reduction

INT64 = ElementKind.INT64

NAMES: dict[type[Node], str] = {
    ops.ReduceMax: "ReduceMax",
    ops.ReduceMean: "ReduceMean",
    ops.ReduceMin: "ReduceMin",
    ops.ReduceProd: "ReduceProd",
    ops.ReduceSum: "ReduceSum",
}


@exports(*NAMES)
def reduce(ctx: Writer, node: Reduction) -> Value:
    """All elements along axes."""
    if not node.axes:
        return node.input
    axes, keep = ctx.integers(node.axes, "axes"), int(node.keep_dims)
    return ctx.node(node, NAMES[type(node)], node.input, axes, keepdims=keep)


def _is_global_pool(node: Reduction) -> bool:
    """True for a reduction over an image that stood with the channels first before."""
    rank, axes = node.input.type.rank, tuple(sorted(node.axes))
    match node.input:
        case ops.Transpose(permutation=permutation) if rank >= 3 and node.keep_dims:
            is_image = axes == tuple(range(1, rank - 1)) and permutation == to_last(rank)
            return is_image and node.type.kind.is_float
    return False


@exports_channels_first(ops.ReduceMean, "input", says=_is_global_pool)
def global_average_pool(ctx: Writer, node: ops.ReduceMean) -> Value:
    """The mean over all spatial axes."""
    return _pooled(ctx, node, "GlobalAveragePool")


@exports_channels_first(ops.ReduceMax, "input", says=_is_global_pool)
def global_max_pool(ctx: Writer, node: ops.ReduceMax) -> Value:
    """The largest element over all spatial axes."""
    return _pooled(ctx, node, "GlobalMaxPool")


def _pooled(ctx: Writer, node: ops.ReduceMean | ops.ReduceMax, op: str) -> Value:
    return ctx.node(node, op, node.input)


@exports(ops.CumSum)
def cumulative_sum(ctx: Writer, node: ops.CumSum) -> Value:
    """Running sums."""
    axis = ctx.number(node.axis, INT64, "axis")
    flags = {"exclusive": int(node.exclusive), "reverse": int(node.reverse)}
    return ctx.node(node, "CumSum", node.input, axis, **flags)


@exports(ops.TopK)
def top_k(ctx: Writer, node: ops.TopK) -> tuple[Value, ...]:
    """The extreme elements and their places."""
    flags = {"largest": int(node.largest), "sorted": int(node.sorted)}
    k = ctx.integers([node.k], "k")
    return ctx.steps("TopK", node.result_types, node.input, k, axis=node.axis, **flags)
