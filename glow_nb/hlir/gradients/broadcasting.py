"""What the rules of broadcasting operators share: sums over the axes that were repeated."""

from __future__ import annotations

from collections.abc import Callable

from glow_nb.base.types import TensorType
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Node, Value
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.hlir.rules import OperandGradients


def sum_to(builder: Builder, gradient: Value, type: TensorType) -> Value:
    """Return *gradient* summed over the dimensions in which an operand of *type* was repeated."""
    repeated = tuple(
        axis
        for axis, (size, own) in enumerate(zip(gradient.type.shape, type.shape, strict=True))
        if size != own
    )
    return (
        builder.emit(ReduceSum(gradient, axes=repeated, keep_dims=True)) if repeated else gradient
    )


def summed(
    node: Node, builder: Backward, **gradients: Callable[[], Term | Value]
) -> OperandGradients:
    """Return the *gradients* that are wanted, by operand, each summed to the type of its operand.

    Each is a function that emits the gradient, of the shape of the result.
    """
    found: dict[str, Value] = {}
    for name, emit in gradients.items():
        operand: Value = getattr(node, name)
        if builder.wants(operand):
            gradient = emit()
            value = gradient.value if isinstance(gradient, Term) else gradient
            found[name] = sum_to(builder, value, operand.type)
    return found
