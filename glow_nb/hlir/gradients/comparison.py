"""Gradients of the choice by a bool tensor; comparisons have none."""

from __future__ import annotations

from glow_nb.hlir.backward import Backward
from glow_nb.hlir.gradients.broadcasting import summed
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.comparison import Equal, Greater, GreaterEqual, Less, LessEqual, Select
from glow_nb.hlir.ops.formulas.terms import where
from glow_nb.hlir.rules import OperandGradients, gradient, no_gradient


@gradient(Select)
def select_gradient(node: Select, upstream: Value, builder: Backward) -> OperandGradients:
    """Where an operand was chosen, it gets the gradient; else 0, whatever the other one is."""
    condition, up = builder.terms(node.condition, upstream)
    return summed(
        node,
        builder,
        lhs=lambda: where(condition, up, 0),
        rhs=lambda: where(condition, 0, up),
    )


no_gradient("its results are truth values", Equal, Greater, GreaterEqual, Less, LessEqual)
