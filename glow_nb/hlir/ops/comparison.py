"""Comparisons of two tensors, which give bool, and the choice by a bool tensor."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from typing_extensions import override

from glow_nb.base.types import Array, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.ops.families import (
    BOOL,
    COMPUTED,
    Comparison,
    Kinds,
    broadcast_type,
    fitted,
    require_kind,
)


@define_node("equal", scalar="lhs == rhs", commutes=True)
class Equal(Comparison):
    """True where the elements are equal; NaN equals nothing."""

    kinds: ClassVar[Kinds] = COMPUTED

    compute = np.equal


@define_node("less", scalar="lhs < rhs")
class Less(Comparison):
    """True where ``lhs[i] < rhs[i]``; false for NaN."""

    compute = np.less


@define_node("less_equal", scalar="lhs <= rhs")
class LessEqual(Comparison):
    """True where ``lhs[i] <= rhs[i]``; false for NaN."""

    compute = np.less_equal


@define_node("greater", scalar="lhs > rhs")
class Greater(Comparison):
    """True where ``lhs[i] > rhs[i]``; false for NaN."""

    compute = np.greater


@define_node("greater_equal", scalar="lhs >= rhs")
class GreaterEqual(Comparison):
    """True where ``lhs[i] >= rhs[i]``; false for NaN."""

    compute = np.greater_equal


@define_node("select", scalar="where(condition, lhs, rhs)")
class Select(Node):
    """Choose by a bool tensor: ``lhs[i] if condition[i] else rhs[i]``; all three broadcast."""

    type_transparent: ClassVar[bool] = True
    condition: Value
    lhs: Value
    rhs: Value

    @override
    def infer_type(self) -> TensorType:
        require_kind(self, "condition", self.condition.type, BOOL)
        lhs, rhs = self.lhs.type, self.rhs.type
        require_kind(self, "lhs", lhs.stored, COMPUTED)
        self.require(
            rhs.with_shape(lhs.shape) == lhs,
            f"'lhs' is {lhs}, 'rhs' is {rhs}; kind, scale and offset must be equal",
        )
        condition = lhs.stored.with_shape(self.condition.type.shape)
        result = broadcast_type(self, condition=condition, lhs=lhs.stored, rhs=rhs.stored)
        return lhs.with_shape(result.shape)

    @override
    def evaluate(self, condition: Array, lhs: Array, rhs: Array) -> Array:
        return fitted(np.where(condition, lhs, rhs), self.type)
