"""A model some of whose inputs are outputs of the run before, as one program of all sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glow_nb.base.grown_cache import Cache
from glow_nb.base.override import override
from glow_nb.base.specialized import Specialized
from glow_nb.hlir.graph import Function
from glow_nb.hlir.grow_caches import grow_caches
from glow_nb.network.cache_names import caches_of
from glow_nb.network.open_model import OpenModel


@dataclass(frozen=True)
class GrowingModel(OpenModel):
    """A model that leaves sizes open, and whose caches grow where they lie.

    Attributes:
        caches: Outputs by the inputs that they become, names or patterns.
        grown: The grown caches, once the graph was read.
    """

    caches: Mapping[str, str]
    grown: list[Cache] = field(default_factory=list)

    @override
    def function(self, watched: Sequence[str] = ()) -> tuple[Function, Sequence[Specialized]]:
        function, specialized = super().function(watched)
        names = caches_of(self.caches, (value.name for value in function.inputs))
        function, self.grown[:] = grow_caches(function, names)
        return function, specialized
