"""The decisions at import: conditions, and whether an optional tensor is there."""

from __future__ import annotations

import numpy as np

from glow_nb.formats.onnx.importer.context import Context
from glow_nb.formats.onnx.importer.dependence import is_decided
from glow_nb.formats.onnx.importer.node import OnnxNode
from glow_nb.formats.onnx.importer.registry import onnx_op
from glow_nb.hlir import ops
from glow_nb.hlir.graph import Value


@onnx_op("OptionalHasElement", since=15)
def has_element(ctx: Context, node: OnnxNode) -> Value:
    """True for a tensor, false where the operand is left out."""
    return ctx.constant(np.array(node.optional(0) is not None))


@onnx_op("OptionalGetElement", since=15)
def get_element(ctx: Context, node: OnnxNode) -> Value:
    """Return the tensor itself."""
    return node.operand(0)


@onnx_op("If")
def conditional(ctx: Context, node: OnnxNode) -> tuple[Value, ...]:
    """One of two graphs; with a condition known at run time only, both and a selection.

    Nodes have no side effects, so computing both branches changes nothing but the time.
    """
    condition = node.operand(0)
    if condition.type.size != 1:
        raise ctx.wrong(f"the condition {condition} must be one bool")
    then_branch, else_branch = node.message("then_branch").g, node.message("else_branch").g
    if is_decided(condition):
        taken = ctx.known(condition, "the condition").any()
        return ctx.subgraph(then_branch if taken else else_branch)
    ctx.check_branches(then_branch, else_branch)
    chosen = ctx.branch(then_branch, condition, True)
    other = ctx.branch(else_branch, condition, False)
    if [value.type for value in chosen] != [value.type for value in other]:
        ctx.known(condition, "the condition, which the types of the results depend on,")
    if any(value in ctx.counts for value in (*chosen, *other)):
        raise ctx.unsupported("a branch gives a result whose size only a run shows")
    condition = ctx.reshape(condition, ())
    return tuple(
        ctx.emit(ops.Select(ctx.with_rank(condition, lhs.type.rank), lhs, rhs))
        for lhs, rhs in zip(chosen, other, strict=True)
    )
