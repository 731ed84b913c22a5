"""Choose how the gradients of filters are summed up, and in how many parts."""

from __future__ import annotations

from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    Broadcast,
    ConvertTo,
    ConvolutionFilterGradient,
    ReduceSum,
    Reshape,
    Transpose,
)
from glow_nb.hlir.ops.windows import window_attributes
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.operators import DepthwiseFilterGradient, FilterGradientParts
from glow_nb.kernels.operators.filter_gradient import KINDS
from glow_nb.kernels.products.blocking import FMA_PER_CYCLE, lanes_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.filter_gradient_plan import FilterGradientNest, FilterGradientPlan
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.shares import largest_share
from glow_nb.types import ElementKind

PART_CYCLES = 0.2
"""Of each byte of a part: writing it, and adding it to the others."""


@register_pass
def select_filter_gradients(
    function: Function, *, target: Target | None = None, threads: int = 1
) -> Function:
    """Sum the gradients of filters up by kernels, for *threads* that share taps, channels or sums.

    Where rows and columns of the filter do not divide well among the threads, the sum is cut into
    parts, which are added in order. *target* is the processor, by default this one.

    ::

        %d = convolution_filter_gradient(%x, %g) {...} : <64 x 3 x 3 x 32>
        ->
        %parts = filter_gradient_parts(%x, %g) {..., parts = 4} : <4 x 64 x 3 x 3 x 32>
        %d = reduce_sum(%parts) {axes = [0]}
    """
    chosen = target or Target.host()

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if not isinstance(node, ConvolutionFilterGradient):
            return None
        return _emit(node, rewriter, chosen, threads)

    return rewrite(function, rule)


def _emit(
    node: ConvolutionFilterGradient, rewriter: Rewriter, target: Target, threads: int
) -> Value:
    kind = node.type.kind
    if kind not in KINDS:  # sums of what is stored in 16 bits are made in 32
        input, gradient = (
            rewriter.emit(ConvertTo(value, ElementKind.FLOAT32)) for value in node.factors
        )
        whole = ConvolutionFilterGradient(
            input,
            gradient,
            **window_attributes(node),
            group=node.group,
            predicate=node.predicate,
        )
        return rewriter.emit(ConvertTo(_emit(whole, rewriter, target, threads), kind))
    parts = parts_of(node, target, threads)
    if node.group == node.input.type.shape[-1] > 1:
        return _emit_depthwise(node, rewriter, parts)
    sums = rewriter.emit(
        FilterGradientParts(
            node.input,
            node.gradient,
            **window_attributes(node),
            group=node.group,
            parts=parts,
            predicate=node.predicate,
        )
    )
    return _total(sums, rewriter)


def _emit_depthwise(node: ConvolutionFilterGradient, rewriter: Rewriter, parts: int) -> Value:
    input: Value = node.input
    channels, depth = input.type.shape[-1], node.type.shape[0]
    if channels != depth:  # each channel is read for several results
        wide = (*input.type.shape, depth // channels)
        input = rewriter.emit(Reshape(input, (*input.type.shape, 1)))
        input = rewriter.emit(Broadcast(input, wide))
        input = rewriter.emit(Reshape(input, (*wide[:-2], depth)))
    sums = rewriter.emit(
        DepthwiseFilterGradient(
            input,
            node.gradient,
            **window_attributes(node),
            parts=parts,
            predicate=node.predicate,
        )
    )
    total = _total(sums, rewriter)
    rank = len(node.kernel)
    turned = rewriter.emit(Transpose(total, (rank, *range(rank))))
    return rewriter.emit(Reshape(turned, node.type.shape))


def _total(sums: Value, rewriter: Rewriter) -> Value:
    """Return the sum of all parts, in their order."""
    if sums.type.shape[0] == 1:
        return rewriter.emit(Reshape(sums, sums.type.shape[1:]))
    return rewriter.emit(ReduceSum(sums, axes=(0,), keep_dims=False))


def parts_of(node: ConvolutionFilterGradient, target: Target, threads: int) -> int:
    """Return into how many parts to cut the sum of *node*, by the time of the largest share."""
    shape = ConvolutionShape.of(
        node.input.type.shape,
        node.type.shape[0],
        node.kernel,
        node.pads,
        stride=node.stride,
        dilation=node.dilation,
        group=node.group,
    )
    nest = FilterGradientNest.of(shape, 1, node.type.kind, target)
    plan = FilterGradientPlan.of(nest, target)
    lanes = lanes_of(node.type.kind, target)
    if shape.group == shape.channels > 1:
        units, panels = 1, -(-shape.depth // lanes)
    else:
        units, panels = plan.cut.tiles, plan.columns.panels * shape.group
    cycles = node.cost().multiply_adds / (FMA_PER_CYCLE * lanes)

    def estimate(parts: int) -> float:
        unit_part, panel_part = largest_share(parts * units, panels, threads, panels_first=False)
        extra = PART_CYCLES * parts * node.type.size_bytes if parts > 1 else 0.0
        return unit_part * panel_part * cycles + extra / threads

    return min({1, max(1, min(threads, nest.lines))}, key=estimate)
