"""Choose the kernels of gradients: in which kind sums are made, and in how many parts."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from glow_nb.base.map_sizes import at_hints
from glow_nb.base.size import hinted, surely
from glow_nb.hlir.graph import Function, Node, Value
from glow_nb.hlir.ops import (
    Broadcast,
    ConvolutionFilterGradient,
    MaxPoolGradient,
    ReduceSum,
    Reshape,
    Transpose,
)
from glow_nb.hlir.ops.elementwise import as_kind
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.hlir.rounding import in_float32, is_narrow
from glow_nb.kernels.operators import DepthwiseFilterGradient, FilterGradientParts
from glow_nb.kernels.products.blocking import lanes_of
from glow_nb.kernels.products.convolution_shape import ConvolutionShape
from glow_nb.kernels.products.filter_gradient_plan import (
    FilterGradientNest,
    FilterGradientPlan,
    can_transpose,
)
from glow_nb.kernels.target import Target
from glow_nb.scheduling.thread_grid import largest_share


@register_pass
def select_gradient_kernels(
    function: Function, *, target: Target | None = None, threads: int = 1
) -> Function:
    """Give gradients that sum up the operands and operators that their kernels need.

    Gradients of filters are made for *threads* that share channels or sums: where rows and columns
    of the filter do not divide well among the threads, the sum is cut into parts, which are added
    in order. *target* is the processor, by default this one. Sums of 16-bit floats become sums of
    float32.

    ::

        %d = convolution_filter_gradient(%x, %g) {...} : <64 x 3 x 3 x 32>
        ->
        %parts = filter_gradient_parts(%x, %g) {..., parts = 4} : <4 x 64 x 3 x 3 x 32>
        %d = reduce_sum(%parts) {axes = [0]}
    """
    chosen = target or Target.host()

    def widen(node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, ConvolutionFilterGradient) and node.wide:
            input, gradient = (as_kind(rewriter, v, node.type.kind) for v in node.factors)
            return rewriter.emit(replace(node, input=input, gradient=gradient, wide=False))
        if isinstance(node, (ConvolutionFilterGradient, MaxPoolGradient)) and is_narrow(node.type):
            return in_float32(node, rewriter)  # sums that are stored in 16 bits are made in 32
        return None

    def cut(node: Node, rewriter: Rewriter) -> Replacement:
        if isinstance(node, ConvolutionFilterGradient):
            return _emit(node, rewriter, chosen, threads)
        return None

    return rewrite(rewrite(function, widen), cut)


def _emit(
    node: ConvolutionFilterGradient, rewriter: Rewriter, target: Target, threads: int
) -> Value:
    if node.group == node.input.type.shape[-1] > 1:
        return _emit_depthwise(node, rewriter, parts_of(node, target, threads))
    is_transposed = is_better_transposed(node, target)
    parts = parts_of(node, target, threads, is_transposed=is_transposed)
    sums = rewriter.emit(
        FilterGradientParts(
            node.input,
            node.gradient,
            **node.window.attributes,
            group=node.group,
            parts=parts,
            is_transposed=is_transposed,
            predicate=node.predicate,
        )
    )
    total, last = _total(sums, rewriter), node.type.rank - 1
    return rewriter.emit(Transpose(total, (last, *range(last)))) if is_transposed else total


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
            **node.window.attributes,
            parts=parts,
            predicate=node.predicate,
        )
    )
    total = _total(sums, rewriter)
    rank = len(node.kernel)
    transposed = rewriter.emit(Transpose(total, (rank, *range(rank))))
    return rewriter.emit(Reshape(transposed, node.type.shape))


def _total(sums: Value, rewriter: Rewriter) -> Value:
    """Return the sum of all parts, in their order."""
    if sums.type.shape[0] == 1:
        return rewriter.emit(Reshape(sums, sums.type.shape[1:]))
    return rewriter.emit(ReduceSum(sums, axes=(0,), keep_dims=False))


def is_better_transposed(node: ConvolutionFilterGradient, target: Target) -> bool:
    """Return whether the channels of the gradient of *node* fill the lanes better than its taps."""
    shape, kind = _shape_of(node), node.type.kind
    if not can_transpose(shape):
        return False
    plain, transposed = (
        FilterGradientNest.of(shape, 1, kind, target, is_transposed=is_transposed)
        for is_transposed in (False, True)
    )
    if not plain.joins_taps:
        return False
    plans = (FilterGradientPlan.of(nest, target) for nest in (plain, transposed))
    cycles = [plan.step_cycles for plan in plans]
    return cycles[1] < cycles[0]


def _shape_of(node: ConvolutionFilterGradient) -> ConvolutionShape:
    """Return the sizes of *node*; those that only the run knows are those of the example."""
    shape = ConvolutionShape.of(
        node.input.type.shape,
        node.type.shape[0],
        node.kernel,
        node.pads,
        stride=node.stride,
        dilation=node.dilation,
        group=node.group,
    )
    return at_hints(shape)


def parts_of(
    node: ConvolutionFilterGradient, target: Target, threads: int, *, is_transposed: bool = False
) -> int:
    """Return into how many parts to cut the sum of *node*, by the time of the largest share."""
    shape = _shape_of(node)
    nest = FilterGradientNest.of(shape, 1, node.type.kind, target, is_transposed=is_transposed)
    plan = FilterGradientPlan.of(nest, target)
    lanes = lanes_of(node.type.kind, target)
    if shape.group == shape.channels > 1:
        units, panels = 1, -(-shape.depth // lanes)
    else:
        units, panels = plan.cut.tiles, plan.columns.panels * shape.group
    sums = hinted(node.cost().multiply_adds)
    cycles = target.passes * sums / (target.machine.fma_per_cycle * lanes)

    def estimate(parts: int) -> float:
        unit_part, panel_part = largest_share(parts * units, panels, threads, panels_first=False)
        extra = (
            target.machine.gradient_part_byte_cycles * parts * node.type.size_bytes
            if parts > 1
            else 0.0
        )
        return unit_part * panel_part * cycles + extra / threads

    parts = max(1, min(threads, nest.lines))
    has_lines = surely(prod(node.gradient.type.shape[:-2]), ">=", parts)
    return min({1, parts if has_lines else 1}, key=estimate)
