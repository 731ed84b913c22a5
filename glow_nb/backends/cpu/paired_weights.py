"""When products of bytes take weights in pairs that do not saturate, and how these are emitted."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from glow_nb.backends.cpu.integer_products import (
    BYTE_SHIFT,
    has_known_sums,
    is_raised,
    lowered,
    raised,
)
from glow_nb.backends.cpu.products import Product
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution, FullyConnected, Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import PairedConvolution
from glow_nb.kernels.operators.pairings import FACTORS, PairedWeights, paired
from glow_nb.kernels.operators.panels import joins_taps, pack_bias, runs_of
from glow_nb.kernels.products.convolution_cost import Candidate
from glow_nb.kernels.products.dot_form import INT8, UINT8, DotForm, paired_form
from glow_nb.kernels.target import Target

MOST_STEPS = 1.08
"""Steps of a product over those that it would take if any two weights could be a pair. A step takes
0.85 of the time of two steps of pairs of 16 bits."""

FEWEST_ROWS = 4
"""Left rows for which it is worth while: fewer wait for the weights, which take more memory so."""


def pairing(node: Product, target: Target) -> DotForm | None:
    """Return the form in which *node* may multiply pairs of bytes, None if it may not."""
    left, right = node.factors
    if right.type.kind is not INT8 or left.type.kind not in (INT8, UINT8):
        return None
    if not has_known_sums(node) or (isinstance(node, Convolution) and node.group > 1):
        return None
    is_large = prod(node.type.shape[:-1]) >= FEWEST_ROWS and right.type.size > 0
    return paired_form(target) if is_large else None


def paired_weights(node: Product, block: int) -> PairedWeights | None:
    """Return the weights of *node* in panels of *block* and in steps.

    None if they are not supplied, or take too many steps.
    """
    weights = node.factors[1]
    if not isinstance(weights, Constant) or weights.payload is None:
        return None
    if not isinstance(node, Convolution):
        return _paired(weights, 0, block)
    joined = joins_taps(FACTORS, 1, node.dilation)
    taps, _ = runs_of(node.kernel, weights.type.shape[-1], joined=joined)
    return _paired(weights, prod(taps), block)


@lru_cache(maxsize=1)  # it is asked for to choose a form, and then to emit it
def _paired(constant: Constant, runs: int, block: int) -> PairedWeights | None:
    """Return a filter of so many *runs* in pairs; of 0, a matrix with the outputs as columns."""
    weights = constant.array
    weights = weights.reshape(len(weights), runs, -1) if runs else weights.T[:, None]
    made = paired(weights, block)
    depth, runs, run = weights.shape
    fewest = -(-depth // block) * runs * -(-run // FACTORS)
    return made if len(made.filter) <= MOST_STEPS * fewest else None


def emit_paired(node: Product, rewriter: Rewriter, candidate: Candidate, outside: int) -> Value:
    """Emit *node*, whose cells outside the input count as *outside*, in the way of *candidate*."""
    block, (input, filter) = candidate.block, node.factors
    weights = paired_weights(node, block)
    assert weights is not None, f"{node} has no paired weights"  # then it is no way to compute it
    bias = None if not isinstance(node, Convolution | FullyConnected) else node.bias
    depth = node.type.shape[-1]
    if is_raised(input, FACTORS):
        axes = tuple(range(1, filter.type.rank)) if isinstance(node, Convolution) else (0,)
        input, bias = raised(input, rewriter), lowered(bias, filter, axes, rewriter)
        outside += BYTE_SHIFT
    if bias is None:
        bias = rewriter.constant("zeros", np.zeros(depth, np.int32))
    if isinstance(node, Convolution):
        kernel, stride, pads, dilation = node.kernel, node.stride, node.pads, node.dilation
    else:
        kernel, stride, pads, dilation = (1,), (1,), (0, 0), (1,)
        if input.type.rank != len(("matrix", "row", "column")):
            rows = (1, prod(input.type.shape[:-1]), input.type.shape[-1])
            input = rewriter.emit(Reshape(input, rows))
    made: Value = rewriter.emit(
        PairedConvolution(
            input,
            rewriter.constant(f"{filter.name}_paired", weights.filter),
            pack_bias(rewriter, bias, 1, block),
            rewriter.constant(f"{filter.name}_order", weights.order, is_weight=False),
            depth=depth,
            kernel=kernel,
            stride=stride,
            pads=pads,
            dilation=dilation,
            block=block,
            outside=outside,
            predicate=node.predicate,
        )
    )
    return made if made.type == node.type else rewriter.emit(Reshape(made, node.type.shape))
