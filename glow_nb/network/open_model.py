"""A model whose sizes stay open, as a graph with symbols: for one program of all sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from glow_nb.base.model_node import ModelNode
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.specialized import Specialized
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import fed_sizes
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.sized_model import Example, SizedModel


@dataclass(frozen=True)
class OpenModel:
    """A model that leaves sizes open, in given ranges and planned for an example.

    Attributes:
        model: The model.
        ranges: The ranges of its sizes.
    """

    model: SizedModel
    ranges: SizeRanges

    def function(self, watched: Sequence[str] = ()) -> tuple[Function, Sequence[Specialized]]:
        """Return the graph, and which of its sizes are numbers.

        The values called *watched* become outputs, too.
        """
        return self.model.open_function(self.ranges, watched)

    def planned_for(self, fed: Example) -> OpenModel:
        """Return the same, planned for inputs of the shapes *fed* if there are some."""
        return replace(self, ranges=self.ranges.planned_for(fed))

    def read(self) -> Function:
        """Return the model before all passes."""
        return self.function()[0]

    def with_values(self, names: Sequence[str]) -> tuple[Function, dict[str, str]]:
        """Return the model with the values called *names* as outputs."""
        values = self.model.watched_values(names)
        return self.function(list(values.values()))[0], values

    def value_names(self) -> list[str]:
        """Return the names of all values that nodes of the model make."""
        return self.model.value_names()

    def nodes(self) -> list[ModelNode] | None:
        """Return the nodes of the model as its file has them; None if it is a graph."""
        return self.model.nodes()


def sized_model(loaded: object) -> SizedModel | None:
    """Return what was *loaded* as a model to be had for given sizes; None if all are fixed."""
    if isinstance(loaded, Function):
        return OpenFunction(loaded) if fed_sizes(loaded) else None
    return loaded if isinstance(loaded, SizedModel) else None
