"""A model that leaves sizes open: what a network that is compiled for them needs of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from glow_nb.base.arguments import Shapes
from glow_nb.base.specialized import Specialized
from glow_nb.base.types import Array, SymbolicType
from glow_nb.network.network import CompiledNetwork
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.model_node import ModelNode
    from glow_nb.base.size_ranges import SizeRanges
    from glow_nb.hlir.graph import Function

Sizes = Mapping[str, tuple[int, ...]]
"""The shape of each input that is fed, by its name."""

Example = Mapping[str, tuple[int, ...]]
"""Shapes of inputs by name, for which a program is planned; none for hints, or a guess."""

CompileOpen = Callable[[Example], tuple[CompiledNetwork, Sequence[Specialized]]]
"""Compiles a model with open sizes, planned for an example; tells which sizes are numbers."""

CompileFor = Callable[[Sizes, Mapping[str, Array]], CompiledNetwork]
"""Compiles a model for inputs of some shapes, with arrays that take the place of others."""


@runtime_checkable
class SizedModel(Protocol):
    """A model that can be had for given sizes, as an importer makes it."""

    @property
    def inputs(self) -> Mapping[str, SymbolicType]:
        """Name and type of each input, in order."""
        ...

    @property
    def defaults(self) -> Mapping[str, SymbolicType]:
        """Name and type of each further input, which need not be fed."""
        ...

    @property
    def outputs(self) -> Mapping[str, SymbolicType]:
        """Name and type of each output, in order."""
        ...

    def bind(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input; raise GlowError if *shapes* does not give them all."""
        ...

    def function(
        self,
        shapes: Shapes,
        constants: Mapping[str, Array] | None = None,
        watched: Sequence[str] = (),
    ) -> Function:
        """Return the model for inputs of these *shapes*; *constants* take the place of defaults.

        The values called *watched* become outputs, too.
        """
        ...

    def open_function(
        self, ranges: SizeRanges, watched: Sequence[str] = ()
    ) -> tuple[Function, Sequence[Specialized]]:
        """Return the model with its sizes open, in *ranges*, and those that had to be numbers."""
        ...

    def watched_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the value that each of *names* means, which may be a node's."""
        ...

    def value_names(self) -> list[str]:
        """Return names for all values that nodes of the model make."""
        ...

    def nodes(self) -> list[ModelNode] | None:
        """Return the nodes of the model as its file has them; None if it is a graph."""
        ...


class KeptSizes(Protocol):
    """Where networks of sets of sizes, and of all, are kept, for this process and others."""

    def find_sizes(
        self,
        shapes: Sizes,
        constants: Mapping[str, Array],
        state: StateStore,
        again: Callable[[], CompiledNetwork],
    ) -> CompiledNetwork | None:
        """Return what was kept, to run on *state*.

        *again* compiles it, for views of it if it is removed then.
        """
        ...

    def keep_sizes(
        self,
        shapes: Sizes,
        constants: Mapping[str, Array],
        network: CompiledNetwork,
        model: SizedModel,
    ) -> None:
        """Keep *network*, that of *model* for these sizes."""
        ...

    def find_general(
        self, number: int, state: StateStore, again: CompileOpen
    ) -> tuple[CompiledNetwork, Sequence[Specialized]] | None:
        """Return what was kept as the program for all sizes of this *number*, likewise."""
        ...

    def keep_general(
        self,
        number: int,
        network: CompiledNetwork,
        specialized: Sequence[Specialized],
        model: SizedModel,
    ) -> None:
        """Keep *network*, the program of *model* for all sizes of this *number*."""
        ...

    def find_refusal(self) -> tuple[Specialized, ...]:
        """Return why there is no program for all sizes, if that was kept."""
        ...

    def keep_refusal(self, specialized: Sequence[Specialized]) -> None:
        """Keep why there is no program for all sizes."""
        ...


def describe_sizes(model: SizedModel, shapes: Mapping[str, object]) -> str:
    """Return what *shapes* binds: ``batch = 3, width = 5``, and which defaults it replaces."""
    sizes: dict[str, object] = {}
    fed = {name: type for name, type in model.defaults.items() if name in shapes}
    for name, type in {**model.inputs, **fed}.items():
        given = shapes[name]
        if type.shape is None:
            sizes[name] = list(given) if isinstance(given, tuple) else given
        elif isinstance(given, tuple):
            named = zip(type.shape, given, strict=True)
            sizes.update({symbol: size for symbol, size in named if isinstance(symbol, str)})
    bound = (f"{name} = {size}" for name, size in sizes.items())
    return ", ".join((*bound, *(f"{name} = fed" for name in fed)))
