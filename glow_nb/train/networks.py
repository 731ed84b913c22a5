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


class Networks:
    """Functions that are compiled when they are first asked for.

    Attributes:
        state: What all of them run on.
    """

    def __init__(self, backend: BackendLike, threads: int, pipeline: Pipeline) -> None:
        """Compile by *pipeline* for *backend*, to run on *threads* cores."""
        self.state = StateStore()
        self._backend, self._threads, self._pipeline = backend, threads, pipeline
        self._networks: dict[Hashable, Network] = {}

    def network(self, key: Hashable, functions: tuple[Function, ...]) -> Network:
        """Return the network called *key*, compiled from *functions* if it is new."""
        if key not in self._networks:
            self._networks[key] = compile(
                Module(functions),
                backend=self._backend,
                threads=self._threads,
                pipeline=self._pipeline,
                state=self.state,
            )
        return self._networks[key]
