"""Emit the packed operator that carries out a product in the way that was chosen."""

from __future__ import annotations

from glow_nb.backends.cpu.integer_products import widened, with_unsigned_left
from glow_nb.backends.cpu.paired_weights import Pairing, emit_paired, paired_weights
from glow_nb.backends.cpu.products import Product
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops import Convolution, FullyConnected, MatMul, Reshape, Transpose
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import (
    PackedConvolution,
    PackedMatMul,
    StrassenMatMul,
    StrassenScales,
    StrassenWeights,
    WinogradConvolution,
    WinogradFilter,
)
from glow_nb.kernels.operators.panels import joins_taps, pack_bias, pack_filter, pack_matrix
from glow_nb.kernels.products.product_cost import Candidate
from glow_nb.strassen import SIDE


def emit_candidate(
    node: Product,
    rewriter: Rewriter,
    candidate: Candidate,
    *,
    guarded: bool = False,
    pairing: Pairing = paired_weights,
) -> Value:
    """Emit the packed operator that carries *node* out in the way of *candidate*.

    If *guarded*, Winograd's algorithm sums up directly what is not finite. *pairing* pairs weights.
    """
    if candidate.is_strassen:
        return _emit_strassen(node, rewriter, candidate)
    pairs = pairing(node, candidate.block) if candidate.is_paired else None
    if pairs is not None:
        return emit_paired(node, rewriter, candidate, pairs)
    if candidate.factors == 1:
        node = widened(node, rewriter)
    if isinstance(node, Convolution):
        return _emit_convolution(node, rewriter, candidate, guarded)
    return _emit_product(node, rewriter, candidate)


def _emit_convolution(
    node: Convolution, rewriter: Rewriter, candidate: Candidate, guarded: bool
) -> Value:
    depth, block = node.filter.type.shape[0], candidate.block
    if candidate.tile is not None:
        return _emit_winograd(node, rewriter, candidate, guarded)
    factors = candidate.factors
    input, bias, raised = with_unsigned_left(node, factors, rewriter)
    assert bias is not None  # convolutions have one
    joined = joins_taps(factors, node.group, node.dilation)
    return rewriter.emit(
        PackedConvolution(
            input,
            pack_filter(rewriter, node.filter, node.group, block, factors, joined=joined),
            pack_bias(rewriter, bias, node.group, block),
            depth=depth,
            kernel=node.kernel,
            stride=node.stride,
            pads=node.pads,
            dilation=node.dilation,
            group=node.group,
            block=block,
            factors=factors,
            pad_value=node.pad_value + raised,
            predicate=node.predicate,
        )
    )


def _emit_winograd(
    node: Convolution, rewriter: Rewriter, candidate: Candidate, guarded: bool
) -> Value:
    block, tile = candidate.block, candidate.tile
    assert tile is not None
    factors, is_float = candidate.factors, node.type.kind.is_float
    filter = pack_filter(
        rewriter, node.filter, node.group, block, factors, taps_inside=not is_float
    )
    return rewriter.emit(
        WinogradConvolution(
            node.input,
            rewriter.emit(WinogradFilter(filter, tile, node.stride)) if is_float else filter,
            pack_bias(rewriter, node.bias, node.group, block),
            depth=node.type.shape[-1],
            kernel=node.kernel,
            tile=tile,
            stride=node.stride,
            pads=node.pads,
            dilation=node.dilation,
            group=node.group,
            block=block,
            guarded=guarded and is_float,
            pad_value=node.pad_value,
            predicate=node.predicate,
        )
    )


def _emit_product(node: MatMul | FullyConnected, rewriter: Rewriter, candidate: Candidate) -> Value:
    block, factors, (_, rhs) = candidate.block, candidate.factors, node.factors
    lhs, bias, _ = with_unsigned_left(node, factors, rewriter)
    return rewriter.emit(
        PackedMatMul(
            lhs,
            pack_matrix(rewriter, rhs, block, factors),
            None if bias is None else pack_bias(rewriter, bias, 1, block),
            depth=rhs.type.shape[-1],
            block=block,
            factors=factors,
            predicate=node.predicate,
        )
    )


def _emit_strassen(node: Product, rewriter: Rewriter, candidate: Candidate) -> Value:
    """Emit *node* with sums of blocks of its constant matrix in panels."""
    block = candidate.block
    bias = None if isinstance(node, MatMul) else node.bias
    lhs, matrix = node.factors
    if isinstance(node, Convolution):  # of single pixels
        depth, *_, channels = matrix.type.shape
        rows = rewriter.emit(Reshape(matrix, (depth, channels)))
        matrix = rewriter.emit(Transpose(rows, (1, 0)))
    return rewriter.emit(
        StrassenMatMul(
            lhs,
            rewriter.emit(StrassenWeights(matrix, block)),
            rewriter.emit(StrassenScales(matrix, block)),
            None if bias is None else pack_bias(rewriter, bias, SIDE, block),
            depth=matrix.type.shape[-1],
            block=block,
            predicate=node.predicate,
        )
    )
