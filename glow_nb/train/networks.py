"""The compiled functions of a trainer: made for the sizes that come, over one state."""

from __future__ import annotations

from collections.abc import Hashable

from glow_nb.api import compile
from glow_nb.backends import BackendLike
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.network import Network
from glow_nb.passes import Pipeline
from glow_nb.state_store import StateStore
from glow_nb.variants import MAX_VARIANTS, VariantCache


class Networks:
    """Functions that are compiled when they are first asked for; the last that were used are kept.

    Attributes:
        state: What all of them run on; it stays when a network is dropped.
    """

    def __init__(
        self, backend: BackendLike, threads: int, pipeline: Pipeline, state: StateStore
    ) -> None:
        """Compile by *pipeline* for *backend*, to run on *threads* cores and on *state*."""
        self.state = state
        self._backend, self._threads, self._pipeline = backend, threads, pipeline
        self._networks: VariantCache[Hashable, Network] = VariantCache(MAX_VARIANTS)

    def network(self, key: Hashable, functions: tuple[Function, ...]) -> Network:
        """Return the network called *key*, compiled from *functions* if it is not there."""
        return self._networks.get(key, lambda: self._compiled(functions))

    def _compiled(self, functions: tuple[Function, ...]) -> Network:
        return compile(
            Module(functions),
            backend=self._backend,
            threads=self._threads,
            pipeline=self._pipeline,
            state=self.state,
        )
