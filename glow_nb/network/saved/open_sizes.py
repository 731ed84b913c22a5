"""A network that leaves sizes open, found by what was noted of it: the model is read when needed.

Programs for all sizes, and for single ones, that were compiled before are found one by one. The
first new one reads the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from glow_nb.base.arguments import Shapes
from glow_nb.base.types import Array
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.network import CompiledNetwork
from glow_nb.network.request import CompileRequest
from glow_nb.network.saved.signature import Signature
from glow_nb.network.sized_model import (
    CompileFor,
    CompileOpen,
    Example,
    KeptSizes,
    SizedModel,
    Sizes,
)

if TYPE_CHECKING:
    from glow_nb.base.model_node import ModelNode
    from glow_nb.base.size_ranges import SizeRanges
    from glow_nb.base.specialized import Specialized
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.hlir.graph import Function

Opened = Callable[[], tuple[SizedModel, CompileFor, CompileOpen]]
"""Reads a model, and returns it with what compiles it: for some sizes, and for all."""


def open_network(
    request: CompileRequest, signature: Signature, kept: KeptSizes, opened: Opened
) -> DynamicNetwork:
    """Return the network of *request*, whose model has this *signature* and is *opened* later."""
    model = KnownModel(signature, opened)

    def pipeline() -> Pipeline:
        from glow_nb.network.api import pipeline_of

        return pipeline_of(request)

    network = DynamicNetwork(
        model,
        model.compile_for,
        None if request.each else model.compile_open,
        is_asked=request.ranges is not None,
        specialize_after=request.specialize_after,
        max_variants=request.max_variants,
        threads=request.threads,
        pipeline=pipeline,
        kept=kept,
        state=request.state,
    )
    network.compile_now()
    return network


class KnownModel:
    """A model of which is known what it takes and gives.

    Attributes:
        inputs: Name and type of each input that must be fed, in order.
        defaults: The same of each input that need not be fed.
        outputs: The same of each output.
    """

    def __init__(self, signature: Signature, opened: Opened) -> None:
        """Take the *signature* of the model, and what reads it."""
        self.inputs, self.defaults, self.outputs = signature[:3]
        self._open = opened

    @cached_property
    def _opened(self) -> tuple[SizedModel, CompileFor, CompileOpen]:
        return self._open()

    def bind(self, shapes: Shapes) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input."""
        return self._opened[0].bind(shapes)

    def function(
        self,
        shapes: Shapes,
        constants: Mapping[str, Array] | None = None,
        watched: Sequence[str] = (),
    ) -> Function:
        """Return the model for inputs of these *shapes*."""
        return self._opened[0].function(shapes, constants, watched)

    def open_function(
        self, ranges: SizeRanges, watched: Sequence[str] = ()
    ) -> tuple[Function, Sequence[Specialized]]:
        """Return the model with its sizes open, in *ranges*, and those that had to be numbers."""
        return self._opened[0].open_function(ranges, watched)

    def watched_values(self, names: Sequence[str]) -> dict[str, str]:
        """Return the value that each of *names* means."""
        return self._opened[0].watched_values(names)

    def value_names(self) -> list[str]:
        """Return names for all values that nodes of the model make."""
        return self._opened[0].value_names()

    def nodes(self) -> list[ModelNode] | None:
        """Return the nodes of the model as its file has them; None if it is a graph."""
        return self._opened[0].nodes()

    def compile_for(self, shapes: Sizes, constants: Mapping[str, Array]) -> CompiledNetwork:
        """Compile the model for inputs of these *shapes*."""
        return self._opened[1](shapes, constants)

    def compile_open(self, example: Example) -> tuple[CompiledNetwork, Sequence[Specialized]]:
        """Compile the model for all sizes, planned for *example*."""
        return self._opened[2](example)
