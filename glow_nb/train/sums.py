"""Shared formulas of training besides arithmetic: sums of everything, and single numbers."""

from __future__ import annotations

from glow_nb.base.types import TensorType
from glow_nb.hlir.builder import Emitter
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.formulas.terms import Term
from glow_nb.hlir.ops.reduction import ReduceMean, ReduceSum
from glow_nb.hlir.ops.shape import Reshape


def total(term: Term) -> Term:
    """Return the sum of all elements, of rank 0."""
    axes = tuple(range(term.value.type.rank))
    return Term(term.builder, term.builder.emit(ReduceSum(term.value, axes, keep_dims=False)))


def mean(term: Term) -> Value:
    """Return the mean of all elements, of rank 0."""
    axes = tuple(range(term.value.type.rank))
    return term.builder.emit(ReduceMean(term.value, axes, keep_dims=False))


def beside(builder: Emitter, number: Value, type: TensorType) -> Value:
    """Return a *number* of one element so that it broadcasts to *type*; bool stays bool."""
    shape = (1,) * type.rank
    if number.type.shape != shape:
        number = builder.emit(Reshape(number, shape))
    if number.type.kind.is_float and number.type.kind is not type.kind:
        number = builder.emit(ConvertTo(number, type.kind))
    return number
