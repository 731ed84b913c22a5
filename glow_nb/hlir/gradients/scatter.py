"""Gradients of writing at places, for each reduction of an update with what stands there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from glow_nb.base.types import ElementKind, TensorType
from glow_nb.hlir.backward import Backward
from glow_nb.hlir.graph import Value
from glow_nb.hlir.ops.elementwise import ConvertTo
from glow_nb.hlir.ops.formulas.terms import Term, where
from glow_nb.hlir.ops.gather import GatherElements, GatherND
from glow_nb.hlir.ops.scatter import ScatterElements, ScatterND
from glow_nb.hlir.rules import OperandGradients, gradient

Scatter = ScatterElements | ScatterND


@dataclass(frozen=True)
class Places:
    """The places that a scatter writes, to be read, or written with something else."""

    node: Scatter
    builder: Backward

    def read(self, data: Term) -> Term:
        """Return what stands in *data* at the place of each update."""
        indices = self.node.indices
        if isinstance(self.node, ScatterElements):
            read = GatherElements(data.value, indices, self.node.axis)
            return self.builder.term(self.builder.emit(read))
        return self.builder.term(self.builder.emit(GatherND(data.value, indices)))

    def written(self, data: Term, updates: Term, reduction: str) -> Term:
        """Return *data* with *updates*, which *reduction* combines with what is there."""
        again = dataclasses.replace(
            self.node, data=data.value, updates=updates.value, reduction=reduction, name=""
        )
        return self.builder.term(self.builder.emit(again))

    def filled(self, like: Value, number: float) -> Term:
        """Return a tensor of the type of *like* with *number* everywhere."""
        return self.builder.term(self.builder.filled(like.type, number))

    def wants(self, operand: str) -> bool:
        """Return whether the gradient of *operand* is wanted."""
        return self.builder.wants(getattr(self.node, operand))


Rule = Callable[[Places, Term], tuple[Term | None, Term | None]]
"""Takes the gradient of the result, and gives those of the data and the updates."""


@gradient(ScatterElements, ScatterND)
def scatter_gradient(node: Scatter, upstream: Value, builder: Backward) -> OperandGradients:
    """Follow the rule of the reduction."""
    data, updates = _RULES[node.reduction](Places(node, builder), builder.term(upstream))
    found = {"data": data, "updates": updates}
    return {name: term.value for name, term in found.items() if term is not None}


def _replacing(places: Places, up: Term) -> tuple[Term | None, Term | None]:
    """What was replaced gets 0, also an update that another one at its place has replaced."""
    node, data, updates = places.node, None, None
    if places.wants("data"):
        data = places.written(up, places.filled(node.updates, 0.0), "none")
    if places.wants("updates"):
        updates = where(_is_last(places), places.read(up), 0)
    return data, updates


def _is_last(places: Places) -> Term:
    """Return which updates are the last ones at their places, from the updates' numbers."""
    node, builder = places.node, places.builder
    depth = node.data.type.rank
    if isinstance(node, ScatterND):
        depth = node.indices.type.shape[-1]  # a whole slice is written at once
    rest = node.data.type.rank - depth
    shape = node.updates.type.shape[: node.updates.type.rank - rest]
    numbers = np.arange(prod(shape), dtype=np.int64).reshape((*shape, *(1,) * rest))
    count = TensorType(ElementKind.INT64, (*node.data.type.shape[:depth], *(1,) * rest))
    own = builder.term(builder.constant("numbers", numbers))
    board = builder.term(builder.filled(count, 0.0))
    return places.read(places.written(board, own, "none")).equals(own)


def _adding(places: Places, up: Term) -> tuple[Term | None, Term | None]:
    """Data and updates have a part in the sum at their place."""
    return up, places.read(up) if places.wants("updates") else None


def _multiplying(places: Places, up: Term) -> tuple[Term | None, Term | None]:
    """Each factor gets the product of all others at its place.

    Divided by is no zero: they are counted, and unless a factor is the only zero at its place, or
    none is, the others have the product 0.
    """
    node, builder, data, updates = places.node, places.builder, None, None
    own = builder.term(node.updates)
    if places.wants("data"):
        data = up * places.written(places.filled(node.data, 1.0), own, "mul")
    if places.wants("updates"):
        is_zero = own.equals(0)
        zeros = builder.term(builder.emit(ConvertTo(is_zero.value, node.type.kind)))
        count = places.read(places.written(places.filled(node.data, 0.0), zeros, "add"))
        others = where(is_zero, 1, own)
        product = places.read(up * places.written(builder.term(node.data), others, "mul"))
        updates = where(count.equals(zeros), product / others, 0)
    return data, updates


def _choosing(places: Places, up: Term) -> tuple[Term | None, Term | None]:
    """All that equal the extreme at their place share its gradient, as in ``scatter_reduce``."""
    node, builder = places.node, places.builder
    chosen, first, own = builder.terms(node, node.data, node.updates)
    kept, taken = first.equals(chosen), own.equals(places.read(chosen))

    def counted(condition: Term) -> Term:
        return builder.term(builder.emit(ConvertTo(condition.value, node.type.kind)))

    share = up / places.written(counted(kept), counted(taken), "add")
    data = where(kept, share, 0) if places.wants("data") else None
    updates = where(taken, places.read(share), 0) if places.wants("updates") else None
    return data, updates


_RULES: dict[str, Rule] = {
    "none": _replacing,
    "add": _adding,
    "mul": _multiplying,
    "max": _choosing,
    "min": _choosing,
}
