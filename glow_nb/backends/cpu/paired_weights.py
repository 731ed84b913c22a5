"""When products of bytes take weights in pairs that do not saturate, and how these are emitted."""

from __future__ import annotations

from math import prod

import numpy as np

from glow_nb.backends.cpu.integer_products import has_known_sums, with_unsigned_left
from glow_nb.backends.cpu.products import Product
from glow_nb.base.dot_instruction import INT8, PAIRED_BYTES, UINT8
from glow_nb.base.plan import Plan
from glow_nb.hlir.graph import Constant, Value
from glow_nb.hlir.ops import Convolution, Reshape
from glow_nb.hlir.rewrite import Rewriter
from glow_nb.kernels.operators import PairedConvolution
from glow_nb.kernels.operators.paired import runs_of_bytes
from glow_nb.kernels.operators.pairings import (
    PairedWeights,
    fewest_steps,
    paired,
)
from glow_nb.kernels.operators.panels import pack_bias
from glow_nb.kernels.products.dot_choice import pays_to_pair
from glow_nb.kernels.products.open_extents import example_size
from glow_nb.kernels.target import Target

MOST_STEPS = 1.12
"""Steps of a product over those that it would take if any two weights could be a pair. A step saves
some 15 % of the time of two steps of pairs of 16 bits: with more steps little of that is left, and
the weights take more memory."""

LARGEST_RANK = 5
"""Axes of an input with three spatial dimensions."""


def may_pair(node: Product, target: Target) -> bool:
    """Return whether *node* may multiply pairs of bytes, if its weights allow it."""
    left, right = node.factors
    if right.type.kind is not INT8 or left.type.kind not in (INT8, UINT8):
        return False
    if not has_known_sums(node) or (isinstance(node, Convolution) and node.group > 1):
        return False
    rows = example_size(prod(node.type.shape[:-1]))
    has_many_rows = rows >= target.machine.paired_min_rows
    return has_many_rows and right.type.size > 0 and pays_to_pair(target)


def paired_weights(node: Product, block: int) -> PairedWeights | None:
    """Return the weights of *node* in panels of *block* columns and in steps.

    None if they are not supplied, or take too many steps.
    """
    constant = node.factors[1]
    if not isinstance(constant, Constant) or constant.payload is None:
        return None
    weights = constant.array
    weights = weights if isinstance(node, Convolution) else weights.T
    weights = weights.reshape(len(weights), *_runs(node))
    depth, runs, run = weights.shape
    made = paired(weights, block)
    return made if len(made.filter) <= MOST_STEPS * fewest_steps(depth, block, runs, run) else None


def _runs(node: Product) -> tuple[int, int]:
    """Return the number of runs of the sums of *node*, and the inputs of each."""
    if not isinstance(node, Convolution):
        return 1, node.factors[1].type.shape[0]
    return runs_of_bytes(node.kernel, node.dilation, node.filter.type.shape[-1])


def steps_over_fewest(node: Product, block: int, weights: PairedWeights) -> float:
    """Return how many times as many steps the *weights* of *node* take as the fewest for panels."""
    return len(weights.filter) / fewest_steps(node.type.shape[-1], block, *_runs(node))


def emit_paired(node: Product, rewriter: Rewriter, plan: Plan, weights: PairedWeights) -> Value:
    """Emit *node* with such *weights*."""
    block, (_, filter) = plan.number("block"), node.factors
    input, bias, raised = with_unsigned_left(node, PAIRED_BYTES, rewriter)
    if bias is None:
        bias = rewriter.constant("zeros", np.zeros(node.type.shape[-1], np.int32))
    pad_value = raised
    if isinstance(node, Convolution):
        pad_value += node.pad_value
        window = (node.kernel, node.stride, node.pads, node.dilation)
    else:
        if input.type.rank > LARGEST_RANK:
            batch, *rows, inner = input.type.shape
            input = rewriter.emit(Reshape(input, (batch, prod(rows), inner)))
        ones = (1,) * (input.type.rank - len(("N", "C")))
        window = (ones, ones, (0,) * 2 * len(ones), ones)
    kernel, stride, pads, dilation = window
    made: Value = rewriter.emit(
        PairedConvolution(
            input,
            rewriter.constant(f"{filter.name}_paired", weights.filter),
            pack_bias(rewriter, bias, 1, block),
            rewriter.constant(f"{filter.name}_order", weights.order, is_weight=False),
            depth=node.type.shape[-1],
            kernel=kernel,
            stride=stride,
            pads=pads,
            dilation=dilation,
            block=block,
            pad_value=pad_value,
            predicate=node.predicate,
            plan=plan,
        )
    )
    return made if made.type == node.type else rewriter.emit(Reshape(made, node.type.shape))
