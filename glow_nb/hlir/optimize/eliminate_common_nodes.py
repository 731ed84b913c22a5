"""Compute equal things once."""

from __future__ import annotations

import hashlib

import numpy as np

from glow_nb.base.schema import per_item, structural_key
from glow_nb.hlir.graph import Constant, Function, Node, Value
from glow_nb.hlir.ops.random import RandomBits
from glow_nb.hlir.passes import register_pass
from glow_nb.hlir.recipe import NodeRecipe
from glow_nb.hlir.rewrite import Replacement, Rewriter, rewrite, substitute


@register_pass
def eliminate_common_nodes(function: Function) -> Function:
    """Reuse the first of several nodes, or of several constants, that are the same.

    Nodes are the same if operator, attributes, operands and predicate are; constants if their type
    and every bit of their numbers are. Random words are computed again wherever they are read: in
    the loop that reads them, this takes no longer than keeping a mask in memory, for example from a
    dropout until its gradient.

    ::

        %a = relu(%x)        ->  %a = relu(%x)
        %b = relu(%x)
        %c = add(%a, %b)         %c = add(%a, %a)
    """
    first: dict[tuple[object, ...], Node] = {}

    def rule(node: Node, rewriter: Rewriter) -> Replacement:
        if node.has_side_effects or isinstance(node, RandomBits):
            return None
        earlier = first.setdefault(structural_key(node), node)
        return None if earlier is node else earlier.results

    return rewrite(substitute(function, _repeated_constants(function)), rule)


def _repeated_constants(function: Function) -> dict[Value, Value]:
    """Map every constant that repeats an earlier one to that one."""
    known = _KnownConstants()
    firsts = {constant: known.first_alike(constant) for constant in function.constants}
    return {constant: first for constant, first in firsts.items() if first is not constant}


class _KnownConstants:
    """The constants seen so far."""

    def __init__(self) -> None:
        self._first: dict[Value, Value] = {}
        self._alike: dict[tuple[object, ...], Constant] = {}

    def first_alike(self, value: Value) -> Value:
        """Return the first constant that is the same as *value*, perhaps itself."""
        if value not in self._first:
            self._first[value] = self._search(value)
        return self._first[value]

    def _search(self, value: Value) -> Value:
        match value:
            case Constant(payload=NodeRecipe(node=node)):
                # What is still to be made is the same if it is made alike.
                return self._alike.setdefault(structural_key(node, self.first_alike), value)
            case Constant(payload=payload) if payload is not None:
                key = (value.type, _sample(value))
                seems = self._alike.setdefault(key, value)
                if seems is value:
                    return value
                self._alike.setdefault((*key, _digest(seems)), seems)
                return self._alike.setdefault((*key, _digest(value)), value)
        return value


@per_item
def _sample(constant: Constant) -> bytes:
    """Return a few of the numbers: enough to distinguish most arrays without reading them all."""
    array = constant.array.squeeze()  # NumPy takes fewer indices at a time than a tensor has axes
    places = np.arange(0, array.size, max(1, array.size // 16))
    return array[np.unravel_index(places, array.shape)].tobytes() if array.ndim else array.tobytes()


@per_item
def _digest(constant: Constant) -> bytes:
    """Return a digest that differs for numbers that differ in any bit."""
    numbers = np.ascontiguousarray(constant.array).reshape(-1).view(np.uint8)
    return hashlib.sha256(numbers.data).digest()
