"""The form of a network that is trained: with the statistics of the batch."""

from __future__ import annotations

from glow_nb.hlir.batch_statistics import normalize_by_batch
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Node, State, Value
from glow_nb.hlir.ops import BatchNormalization
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite


def statistics_of(function: Function) -> set[Value]:
    """Return the running means and variances, which no gradient changes."""
    nodes = [node for node in function if isinstance(node, BatchNormalization)]
    return {value for node in nodes for value in (node.mean, node.variance)}


def training_form(function: Function) -> Function:
    """Return *function* as it is trained.

    A batch normalization whose running mean and variance are states takes those of the batch, and
    moves the states towards them: ``momentum * running + (1 - momentum) * batch``. The variance
    that is kept is that of a sample, with ``n - 1`` in the place of ``n``, as PyTorch keeps it;
    ONNX's own operator keeps the other one.
    """
    updates: dict[State, Value] = {}

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        match node:
            case BatchNormalization(mean=State() as mean, variance=State() as variance):
                result, updates[mean], updates[variance] = normalize_by_batch(rewriter, node)
                return result
        return None

    builder = Builder.continuing(rewrite(function, rule))
    for state, value in updates.items():
        builder.update(state, value)
    return builder.function()
