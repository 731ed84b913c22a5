"""A graph whose sizes are open, as networks that are compiled for the sizes that come take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from glow_nb.base.arguments import Shapes
from glow_nb.base.errors import FeedError, OptionError
from glow_nb.base.schema import closest, listed
from glow_nb.base.size import Symbol
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.specialized import Specialized
from glow_nb.base.types import Array, SymbolicType, symbolic
from glow_nb.hlir.graph import Function
from glow_nb.hlir.watched import value_names, with_values
from glow_nb.hlir.with_sizes import (
    check_sizes,
    described,
    sizes_of_inputs,
    with_sizes,
    with_symbols,
)


class OpenFunction:
    """A graph with open sizes.

    Attributes:
        inputs: Name and type of each input, with names or polynomials for sizes.
        defaults: Nothing: a graph has no numbers for its inputs.
        outputs: The same of each output.
    """

    def __init__(self, function: Function) -> None:
        """Take *function*, of whose sizes some are open."""
        self._function = function
        self.inputs = {value.name: symbolic(value.type) for value in function.inputs}
        self.defaults: dict[str, SymbolicType] = {}
        self.outputs = {value.name: symbolic(value.type) for value in function.outputs}
        self._watched: dict[str, str] = {}  # names of values by the outputs that they become

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The open sizes."""
        return self._function.sizes

    def bind(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input; raise GlowError if *shapes* does not give all sizes."""
        sizes = self._sizes(shapes)
        return {value.name: value.type.at(sizes).shape for value in self._function.inputs}

    def function(
        self,
        shapes: Shapes,
        constants: Mapping[str, Array] | None = None,
        watched: Sequence[str] = (),
    ) -> Function:
        """Return the graph for sizes by name or whole shapes by input name.

        The values that become the outputs *watched* become outputs, too.

        Raises:
            OptionError: A size is missing, unknown or out of its range, or there are *constants*.
            FeedError: Whole shapes do not fit the inputs, or give a size in two ways.
        """
        if constants:
            raise OptionError(
                f"constants={list(constants)}: only inputs of an ONNX model can be fixed; "
                "build other graphs with a Constant instead of the input"
            )
        sizes = self._sizes(shapes)
        names = [self._watched.get(name, name) for name in watched]
        return with_sizes(with_values(self._function, names)[0], sizes)

    def open_function(
        self, ranges: SizeRanges, watched: Sequence[str] = ()
    ) -> tuple[Function, Sequence[Specialized]]:
        """Return the graph with sizes in *ranges*, planned for what is fed if that is known."""
        function = self._function
        if ranges.fed:
            ranges = replace(ranges, example=sizes_of_inputs(function, ranges.fed))
        names = [self._watched.get(name, name) for name in watched]
        made = with_symbols(function, ranges.symbols(function.sizes))
        return with_values(made, names)[0], ()

    def watched_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the output that each value called one of *names* becomes."""
        found = with_values(self._function, names)[1]
        self._watched |= {output: name for name, output in found.items()}
        return found

    def value_names(self) -> list[str]:
        """Return names for all values that nodes make."""
        return value_names(self._function)

    def nodes(self) -> None:
        """Return nothing: a graph is no file."""

    def _sizes(self, shapes: Shapes) -> dict[str, int]:
        """Return the size of each symbol; raise GlowError if not all of *shapes* fit."""
        known = [symbol.name for symbol in self._function.sizes]
        whole: dict[str, tuple[int, ...]] = {}
        named: dict[str, int] = {}
        for name, given in shapes.items():
            if isinstance(given, int):
                named[name] = given
            elif name in self.inputs:
                whole[name] = tuple(given)
            else:
                raise OptionError(
                    f"function {self._function.name!r}: it has no input {name!r}"
                    f"{closest(name, self.inputs)}; it has {listed(self.inputs)}, and the sizes "
                    f"{listed(known)}"
                )
        sizes = sizes_of_inputs(self._function, whole, named) if whole else named
        check_sizes(self._function, sizes)
        for value in self._function.inputs:
            shape = value.type.at(sizes).shape
            if whole.get(value.name, shape) != shape:
                raise FeedError(
                    f"input {value.name!r}: its shape is to be {list(whole[value.name])}, but "
                    f"{value.type} is {list(shape)} for {described(sizes)}; give shapes that fit"
                )
        return sizes
