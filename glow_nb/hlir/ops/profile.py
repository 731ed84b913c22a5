"""Counting the numbers of a tensor while a network runs (paper 4.2)."""

from __future__ import annotations

from typing_extensions import override

from glow_nb.base.costs import Cost
from glow_nb.base.types import Array, ElementKind, TensorType
from glow_nb.hlir.graph import Node, Value, define_node
from glow_nb.hlir.histogram import updated
from glow_nb.hlir.rules import no_gradient

FLOAT32, INT64 = ElementKind.FLOAT32, ElementKind.INT64


@define_node("profile")
class Profile(Node):
    """The histogram of earlier runs with the numbers of *input* counted, too.

    How wide the bins are, and how they widen: :mod:`glow_nb.hlir.histogram`.

    Operands:
        input: float32, of any shape.
        counts: int64 ``[bins]``.
        bounds: float32 ``[2]``, the least and the greatest number so far: infinite and minus
            infinite before the first, NaN once a number was not finite.

    Results: the new counts and bounds.
    """

    input: Value
    counts: Value
    bounds: Value

    @override
    def infer_types(self) -> tuple[TensorType, ...]:
        input, counts, bounds = self.input.type, self.counts.type, self.bounds.type
        wanted = TensorType(FLOAT32, input.shape)
        self.require(input == wanted, f"'input' is {input}, but must be {wanted}")
        pair = TensorType(FLOAT32, (2,))
        self.require(bounds == pair, f"'bounds' is {bounds}, but must be {pair}")
        size = counts.size if counts.rank == 1 else 2
        vector = TensorType(INT64, (size,))
        self.require(counts == vector, f"'counts' is {counts}, but must be a vector of int64")
        self.require(size >= 2, f"'counts' is {counts}; make at least 2 bins")
        return vector, pair

    @override
    def evaluate(self, input: Array, counts: Array, bounds: Array) -> tuple[Array, ...]:
        return updated(input, counts, bounds)

    @override
    def cost(self) -> Cost:
        """Count the comparisons with both bounds, and what finds the bin."""
        return Cost(others=4 * self.input.type.size)


no_gradient("its results are numbers of occurrences", Profile)
