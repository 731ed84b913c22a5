"""The compiled functions of a trainer: made for the sizes that come, over one state."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType

from glow_nb.backends import BackendLike, ModuleBackend, backend_named
from glow_nb.base.steps import Entries
from glow_nb.compiler.pipelines import TRAINING, left_out
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.network.compilation import order_for
from glow_nb.network.compiling import compile
from glow_nb.network.network import Network
from glow_nb.network.request import MAX_VARIANTS
from glow_nb.network.variants import VariantCache
from glow_nb.system.state_store import StateStore


class Networks:
    """Functions that are compiled at first use; the last that were used are kept.

    Attributes:
        state: The store of the states of all of them; it stays when a network is dropped.
        passes_before: The passes over a graph before its gradients are emitted.
    """

    def __init__(
        self,
        backend: BackendLike,
        threads: int,
        pipeline: Entries,
        state: StateStore,
        without: Collection[str] = (),
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Compile by *pipeline* for *backend*, to run on *threads* cores and on *state*.

        The *options* are those of any backend.

        Raises:
            OptionError: *without* names a pass that would not run, or that is needed, or an option
                has no such value.
        """
        chosen = backend_named(backend, threads=threads, options=options)
        backend = chosen if options else backend
        order_for(chosen, pipeline=pipeline, without=without)  # which checks it
        self.passes_before = left_out(TRAINING, without)
        self.state = state
        self._backend, self._threads, self._pipeline = backend, threads, pipeline
        self._without = without
        self._networks: VariantCache[Hashable, Network] = VariantCache(MAX_VARIANTS)

    def network(
        self, key: Hashable, functions: tuple[Function, ...], *, is_whole: bool = True
    ) -> Network:
        """Return the network called *key*, compiled from *functions* if it is not there.

        Options may name layers of other functions, such as those of gradients, unless it
        *is_whole*.
        """
        return self._networks.get(key, lambda: self._compiled(functions, is_whole=is_whole))

    def _compiled(self, functions: tuple[Function, ...], *, is_whole: bool) -> Network:
        backend = self._backend
        if not is_whole:
            chosen = backend_named(backend, threads=self._threads)
            backend = chosen.for_functions(None) if isinstance(chosen, ModuleBackend) else chosen
        return compile(
            Module(functions),
            backend=backend,
            threads=self._threads,
            pipeline=self._pipeline,
            without=self._without,
            state=self.state,
        )
