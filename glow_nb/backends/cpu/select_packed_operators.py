"""Choose the packed form of convolutions and matrix products (paper 5.3, Figure 6)."""

from __future__ import annotations

from math import prod

from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops import (
    Convolution,
    DepthwiseConvolution,
    FullyConnected,
    MatMul,
    PackedConvolution,
    PackedMatMul,
    WinogradConvolution,
    WinogradFilter,
)
from glow_nb.hlir.ops.packed import (
    pack_bias,
    pack_depthwise_filter,
    pack_filter,
    pack_matrix,
)
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite
from glow_nb.kernels.convolution_cost import Candidate, convolution_candidates
from glow_nb.kernels.convolution_shape import ConvolutionShape
from glow_nb.kernels.matmul import MatMulShape, choose_matmul_block
from glow_nb.kernels.target import Target


@register_pass
def select_packed_operators(
    function: Function, *, target: Target | None = None, winograd: str = "auto"
) -> Function:
    """Lay filters and right-hand sides out in panels as wide as the kernels' register tiles.

    A convolution with a constant filter is done by Winograd's algorithm where that is estimated to
    be faster, unless *winograd* is "off"; *target* is the processor, by default this one.

    ::

        %y = convolution(%x, %w : <64 x 3 x 3 x 32>, %b)
        ->
        %w_panels = ... pad, reshape and transpose of %w     // <1 x 4 x 3 x 3 x 32 x 16>
        %y = packed_convolution(%x, %w_panels, %b_panels) {block = 16, ...}
        or
        %u = winograd_filter(%w_panels) {tile = [4, 4]}      // <1 x 4 x 6 x 6 x 32 x 16>
        %y = winograd_convolution(%x, %u, %b_panels) {tile = [4, 4], block = 16, ...}
    """
    chosen = target or Target.host()

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        match node:
            case Convolution():
                return _select_convolution(node, rewriter, chosen, winograd)
            case FullyConnected(input=input, weights=weights, bias=bias):
                return _pack_product(node, input, weights, bias, rewriter, chosen.lanes)
            case MatMul(lhs=lhs, rhs=rhs):
                return _pack_product(node, lhs, rhs, None, rewriter, chosen.lanes)
        return None

    return rewrite(function, rule)


def _select_convolution(
    node: Convolution, rewriter: Rewriter, target: Target, winograd: str
) -> Replacement:
    channels = node.input.type.shape[-1]
    if node.group == channels and node.group > 1:
        filter = pack_depthwise_filter(rewriter, node.filter)
        return rewriter.emit(
            DepthwiseConvolution(
                node.input,
                filter,
                node.bias,
                kernel=node.kernel,
                stride=node.stride,
                pads=node.pads,
                dilation=node.dilation,
                predicate=node.predicate,
            )
        )
    may_transform = winograd == "auto" and isinstance(node.filter, Constant)
    candidates = convolution_candidates(
        _shape_of(node), node.type.kind, target, winograd=may_transform
    )
    return emit_candidate(node, rewriter, candidates[0])


def emit_candidate(node: Convolution, rewriter: Rewriter, candidate: Candidate) -> Value:
    """Emit the packed operator that carries *node* out in the way of *candidate*."""
    depth, block = node.filter.type.shape[0], candidate.block
    filter = pack_filter(rewriter, node.filter, node.group, block)
    bias = pack_bias(rewriter, node.bias, node.group, block)
    if candidate.tile is not None:
        return rewriter.emit(
            WinogradConvolution(
                node.input,
                rewriter.emit(WinogradFilter(filter, candidate.tile)),
                bias,
                depth=depth,
                kernel=node.kernel,
                tile=candidate.tile,
                pads=node.pads,
                group=node.group,
                block=block,
                predicate=node.predicate,
            )
        )
    return rewriter.emit(
        PackedConvolution(
            node.input,
            filter,
            bias,
            depth=depth,
            kernel=node.kernel,
            stride=node.stride,
            pads=node.pads,
            dilation=node.dilation,
            group=node.group,
            block=block,
            predicate=node.predicate,
        )
    )


def _shape_of(node: Convolution) -> ConvolutionShape:
    batch, *spatial, channels = node.input.type.shape
    return ConvolutionShape(
        batch=batch,
        channels=channels,
        depth=node.filter.type.shape[0],
        input=tuple(spatial),
        kernel=node.kernel,
        stride=node.stride,
        pads=node.pads,
        dilation=node.dilation,
        group=node.group,
    )


def _pack_product(
    node: Node, lhs: Value, rhs: Value, bias: Value | None, rewriter: Rewriter, lanes: int
) -> Replacement:
    *batch, rows, inner = lhs.type.shape
    depth = rhs.type.shape[-1]
    is_batched = rhs.type.rank > 2
    shape = MatMulShape(
        batch=prod(batch) if is_batched else 1,
        rows=rows if is_batched else prod(batch) * rows,
        inner=inner,
        depth=depth,
        has_bias=bias is not None,
    )
    block = choose_matmul_block(shape, node.type.kind, lanes)
    packed_bias = None if bias is None else pack_bias(rewriter, bias, 1, block)
    return rewriter.emit(
        PackedMatMul(
            lhs,
            pack_matrix(rewriter, rhs, block),
            packed_bias,
            depth=depth,
            block=block,
            predicate=node.predicate,
        )
    )
