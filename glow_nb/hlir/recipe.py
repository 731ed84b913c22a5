"""Constants that are computed from others by a node, when and where their numbers are needed.

Folding a network's weights is cheap with recipes: a scaled, transposed, packed filter is one chain
of recipes, and is made in one go, on any core, in the memory that the kernels read.
"""

from __future__ import annotations

from typing_extensions import override

from glow_nb.base.payload import Recipe
from glow_nb.base.schema import operands_of
from glow_nb.base.types import Array
from glow_nb.hlir.evaluate import evaluate_node
from glow_nb.hlir.graph import Constant, Node, Value
from glow_nb.hlir.ops import Reshape, Transpose

LARGE_BYTES = 1 << 16
"""What is smaller is computed at once: passes look at its numbers."""

MOST_STEPS = 32
"""Nodes to compute for one recipe; those that are read twice are computed twice. Weights need a
few."""


def folded(node: Node, name: str) -> Constant:
    """Return the one result of a *node* that reads only constants, as a constant called *name*."""
    recipe = NodeRecipe(node)
    is_late = node.type.size_bytes >= LARGE_BYTES and recipe.steps <= MOST_STEPS
    return Constant(name, node.type, recipe if is_late else recipe.array, makes_weight(node))


def makes_weight(node: Node) -> bool:
    """Return whether what *node* makes of constants is a weight, as one of them is."""
    return any(isinstance(each, Constant) and each.is_weight for each in operands_of(node))


class WeightTransform(Node):
    """Base of operators that prepare one constant for a kernel; most results are larger than it.

    They are folded whatever the size of the result, which is written where the kernel reads it.
    """

    def transform(self, weight: Array, result: Array) -> None:
        """Write the transformed *weight* to *result*, which is contiguous."""
        raise NotImplementedError(type(self).__name__)


class NodeRecipe(Recipe):
    """The result of a *node* that reads only constants."""

    def __init__(self, node: Node) -> None:
        """Compute *node*, which has one result."""
        self.node = node
        payloads = [operand.payload for operand in operands_of(node)]
        self.steps: int = 1 + sum(p.steps for p in payloads if isinstance(p, NodeRecipe))

    @override
    def make(self) -> Array:
        operands = self._operands()
        match self.node:
            case Reshape(input=input, shape=shape):
                return operands[input].reshape(shape)  # a view where NumPy can give one
            case Transpose(input=input, permutation=permutation):
                return operands[input].transpose(permutation)
        (array,) = evaluate_node(self.node, operands)
        return array

    @override
    def write_to(self, place: Array) -> None:
        if isinstance(self.node, WeightTransform):
            (weight,) = self._operands().values()
            self.node.transform(weight, place)
        else:
            super().write_to(place)

    def _operands(self) -> dict[Value, Array]:
        """Return the numbers of the operands; those that come from recipes are not kept."""
        return {value: _numbers_of(value) for value in operands_of(self.node)}


def _numbers_of(value: Value) -> Array:
    assert isinstance(value, Constant)
    return value.payload.make() if isinstance(value.payload, Recipe) else value.array
