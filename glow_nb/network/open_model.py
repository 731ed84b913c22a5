"""A model whose sizes stay open, as a graph with symbols: for one program of all sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from glow_nb.base.arguments import Constants, Shapes
from glow_nb.base.errors import OptionError
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.hlir.with_sizes import with_symbols
from glow_nb.llir.program import Program
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.sized_model import SizedModel
from glow_nb.network.watched_model import Source, value_names, with_values

if TYPE_CHECKING:
    from glow_nb.base.specialized import Specialized

ReadOpen = Callable[[Mapping[str, int]], Function]
"""Returns the graph of a model with open sizes, for an example that is given by symbols."""


class OpenModel:
    """A model that leaves sizes open, in given ranges.

    Attributes:
        specialized: The sizes that had to be made numbers.
    """

    def __init__(
        self, source: Source, shapes: Shapes, constants: Constants, ranges: SizeRanges
    ) -> None:
        """Take the model *source*, of which *shapes* and *constants* are fixed."""
        if isinstance(source, Module | Program):
            raise OptionError(
                f"sizes=: {source!r} has fixed sizes; give a model, or a graph with open sizes"
            )
        self._source, self._shapes, self._constants = source, shapes, constants
        self._ranges = ranges
        self.specialized: list[Specialized] = []

    def function(self, example: Mapping[str, int]) -> Function:
        """Return the graph, whose hints are *example* by the words of its symbols."""
        ranges, source = self._ranges.planned_for(example), self._source
        if isinstance(source, Function):
            return with_symbols(source, ranges.symbols(source.sizes))
        from glow_nb.formats.onnx.importer import import_open

        function, self.specialized = import_open(source, self._shapes, self._constants, ranges)
        return function


class OpenModelFor:
    """A model with open sizes for an example, read again when somebody watches."""

    def __init__(self, read: ReadOpen, example: Mapping[str, int]) -> None:
        """Read the graph for *example* by *read*."""
        self._read, self._example = read, example

    def read(self) -> Function:
        """Return the model before all passes."""
        return self._read(self._example)

    def with_values(self, names: Sequence[str]) -> tuple[Function, dict[str, str]]:
        """Return the model with the values called *names* as outputs."""
        made, outputs = with_values(self.read(), names)
        assert isinstance(made, Function)
        return made, outputs

    def value_names(self) -> list[str]:
        """Return the names of all values that nodes of the model make."""
        return value_names(self.read())


def sized_model(loaded: object) -> SizedModel | None:
    """Return what was *loaded* as a model to be had for given sizes; None if all are fixed."""
    if isinstance(loaded, Function):
        return OpenFunction(loaded) if loaded.sizes else None
    return loaded if isinstance(loaded, SizedModel) else None
