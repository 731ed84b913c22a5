"""The model that is trained or calibrated: a graph, or a function that makes one for sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from glow_nb.base.arguments import as_array, described
from glow_nb.base.errors import FeedError, GlowError, OptionError
from glow_nb.base.feeds import FeedCheck, Feeds, check_open_feeds, name_feeds
from glow_nb.base.foreign import foreign, name_of
from glow_nb.base.override import override
from glow_nb.base.types import Array
from glow_nb.hlir.graph import Function
from glow_nb.llir.program import Program
from glow_nb.network.loading import Graph, load_open
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.sized_model import SizedModel

if TYPE_CHECKING:
    pass

Trained = Graph | Callable[[int], Function] | SizedModel
"""What is trained: all that ``glow_nb.load`` takes, or a function from batch size to graph.

Inside of the package it may be a model with open sizes, too.
"""

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
"""The shape of each input by name."""


class Source(Protocol):
    """A network for any sizes that it can have."""

    @property
    def inputs(self) -> list[str]:
        """The names of its inputs."""
        ...

    @property
    def batch(self) -> int | None:
        """The number of samples of the first input; None if that is open."""
        ...

    def arrays(self, inputs: Feeds) -> dict[str, Array]:
        """Return one array for each input; raise FeedError if they cannot fit."""
        ...

    def function(self, shapes: Shapes) -> Function:
        """Return the network for inputs of these shapes; equal constants have equal names."""
        ...

    def example(self) -> Function | None:
        """Return the network for some shapes, to look at its weights; None if none is found."""
        ...

    @property
    def open_graph(self) -> Function | None:
        """The network with its sizes left open; None if it is one for each set of sizes."""
        ...


def as_source(trained: Trained, *, for_training: bool = False) -> Source:
    """Return where the graphs of *trained* come from; raise GlowError as ``glow_nb.load``.

    A model that is read here *for_training* has its dropouts.
    """
    if callable(trained):
        return _BuiltSource(trained)
    loaded = (
        trained
        if isinstance(trained, SizedModel)
        else load_open(trained, for_training=for_training)
    )
    if isinstance(loaded, SizedModel):
        return _OpenSource(loaded)
    if isinstance(loaded, Program):
        raise OptionError("model: it is a program; give the graph that it was made from")
    return _OpenGraphSource(loaded) if loaded.sizes else _FixedSource(loaded)


def shapes_of(arrays: Mapping[str, Array]) -> Shapes:
    """Return the shape of each array by name."""
    return tuple((name, array.shape) for name, array in arrays.items())


class _FixedSource:
    """A graph, whose sizes are fixed."""

    open_graph: Function | None = None

    def __init__(self, function: Function) -> None:
        self._function, self._check = function, FeedCheck.of(function.inputs)

    @property
    def inputs(self) -> list[str]:
        return list(self._check.types)

    @property
    def batch(self) -> int | None:
        shapes = [type.shape for type in self._check.types.values()]
        return shapes[0][0] if shapes and shapes[0] else None

    def arrays(self, inputs: Feeds) -> dict[str, Array]:
        return dict(zip(self._check.types, self._check.arrays(inputs), strict=True))

    def function(self, shapes: Shapes) -> Function:  # noqa: ARG002 - it has but one
        return self._function

    def example(self) -> Function:
        return self._function


class _OpenSource:
    """A model with open sizes, or with inputs that need not be fed, imported for what comes."""

    open_graph: Function | None = None

    def __init__(self, model: SizedModel) -> None:
        self._model = model

    @property
    def inputs(self) -> list[str]:
        return list(self._model.inputs)

    @property
    def batch(self) -> int | None:
        shapes = [type.shape for type in self._model.inputs.values()]
        first = shapes[0][0] if shapes and shapes[0] else None
        return first if isinstance(first, int) else None

    def arrays(self, inputs: Feeds) -> dict[str, Array]:
        types = {**self._model.inputs, **self._model.defaults}
        named = name_feeds(self._model.inputs.keys(), inputs, self._model.defaults.keys())
        arrays = {name: as_array(name, named[name]) for name in types if name in named}
        check_open_feeds(types, arrays)
        return arrays

    def function(self, shapes: Shapes) -> Function:
        return self._model.function(dict(shapes))

    def example(self) -> Function | None:
        from glow_nb.formats.onnx.importer.symbolic import PROBES

        symbols = {n for type in self._model.inputs.values() for n in type.shape or ()}
        for size in (1, *PROBES):
            with contextlib.suppress(GlowError):  # another size may be one that fits
                return self._model.function({n: size for n in symbols if isinstance(n, str)})
        return None


class _OpenGraphSource(_OpenSource):
    """A graph with open sizes, for what comes or as it is."""

    def __init__(self, function: Function) -> None:
        super().__init__(OpenFunction(function))
        self.open_graph = function

    @override
    def example(self) -> Function | None:
        return self.open_graph


class _BuiltSource:
    """A Python function that builds the graph for a batch size."""

    open_graph: Function | None = None

    def __init__(self, build: Callable[[int], Function]) -> None:
        self._build = build
        self._functions: dict[int, Function] = {}

    @property
    def inputs(self) -> list[str]:
        return [placeholder.name for placeholder in self.example().inputs]

    @property
    def batch(self) -> int | None:
        return None

    def arrays(self, inputs: Feeds) -> dict[str, Array]:
        given = list(inputs.values()) if isinstance(inputs, dict) else [inputs]
        first = as_array("batch", given[0] if given else None)
        if not first.ndim:
            raise FeedError(f"inputs: {first!r:.80} is one number; give a batch, samples first")
        return _FixedSource(self._function_of(len(first))).arrays(inputs)

    def function(self, shapes: Shapes) -> Function:
        return self._function_of(shapes[0][1][0])

    def example(self) -> Function:
        return self._function_of(1)

    def _function_of(self, batch: int) -> Function:
        if batch not in self._functions:
            with foreign(OptionError, f"{name_of(self._build)}({batch})"):
                built = self._build(batch)
            if not isinstance(built, Function):
                raise OptionError(
                    f"{name_of(self._build)}({batch}) returned {described(built)}; it must "
                    "return the Function for this batch size"
                )
            self._functions[batch] = built
        return self._functions[batch]
