"""Gradients of arithmetic; where an operand is repeated, its gradient sums over the copies."""

from __future__ import annotations

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.broadcasting import sum_to
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.arithmetic import (
    Add,
    And,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Mul,
    Or,
    Xor,
)
from glow_nb.hlir.rules import OperandGradients, gradient, no_gradient


@gradient(Add)
def add_gradient(node: Add, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x + y) = dx + dy``."""
    return {
        "lhs": sum_to(builder, upstream, node.lhs.type),
        "rhs": sum_to(builder, upstream, node.rhs.type),
    }


@gradient(Mul)
def mul_gradient(node: Mul, upstream: Value, builder: Backward) -> OperandGradients:
    """``d(x * y) = y dx + x dy``."""
    found: dict[str, Value] = {}
    for name, operand, factor in (("lhs", node.lhs, node.rhs), ("rhs", node.rhs, node.lhs)):
        if builder.wants(operand):
            found[name] = sum_to(builder, builder.emit(Mul(upstream, factor)), operand.type)
    return found


no_gradient(
    "its results are whole numbers or truth values",
    And,
    BitShift,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Or,
    Xor,
)
