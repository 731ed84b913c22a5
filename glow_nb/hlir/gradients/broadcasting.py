"""What the rules of broadcasting operators share: the way back from a result to its operands."""

from __future__ import annotations

from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.reduction import ReduceSum
from glow_nb.types import TensorType


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
