"""A model in the cache of networks: looked for by its content, and kept after it was compiled."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from glow_nb.base.errors import GlowError, ModelError
from glow_nb.base.foreign import foreign
from glow_nb.base.log import DEBUG, INFO, WARNING, log
from glow_nb.codegen.debugging import PERF_VARIABLE
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.network.request import CompileRequest
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.network.saved.files import UnreadableError
from glow_nb.network.saved.key import NoKey, network_key, spelled, versions
from glow_nb.network.saved.model_content import ModelContent
from glow_nb.system.sha256 import sha256
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.specialized import Specialized
    from glow_nb.base.types import Array
    from glow_nb.network.excluded import KnownCheck
    from glow_nb.network.network import CompiledNetwork, Network
    from glow_nb.network.saved.manifest import Plain
    from glow_nb.network.saved.reading import SavedNetwork
    from glow_nb.network.saved.signature import Signature
    from glow_nb.network.sized_model import CompileFor, CompileOpen, SizedModel, Sizes

NETWORKS_VARIABLE = "GLOW_NB_CACHE_NETWORKS"
"""The environment variable that turns the cache of networks off: ``0``."""

WRITER = "glow_nb cache"
"""The name of the thread that writes a network."""

_NO_CONTENT = ("graph", "observer", "state", "check_finite", "cache", "specialize_after")
"""Arguments that do not change what is compiled, and the model itself."""

_PARTS, _SIGNATURE, _REFUSAL = ".parts", ".sizes", ".refusal"
"""What is noted of a model: the files beside it; of one that leaves sizes open, its border, and why
no program is for all sizes."""


class KeptModel:
    """A model that has a content, and the arguments that it is compiled with."""

    def __init__(self, request: CompileRequest, content: ModelContent, cache: NetworkCache) -> None:
        """Find or keep the network of *request*, whose model has this *content*."""
        self._request, self._content, self._cache = request, content, cache
        self._arguments = {
            name: value for name, value in request._asdict().items() if name not in _NO_CONTENT
        }
        self._digest = self._key = ""
        self._locations: list[str] = []

    @classmethod
    def of(cls, request: CompileRequest) -> KeptModel | None:
        """Return the model of *request*; None where nothing is kept of it."""
        wanted = request.cache and os.environ.get(NETWORKS_VARIABLE) != "0"
        if _is_looked_into(request):
            return None
        if not (wanted and IS_SUPPORTED) or request.observer is not None:
            return None
        if not isinstance(request.state, StateStore | None):
            return None  # whoever compiles says what is wrong with it
        content = ModelContent.of(request.graph)
        return None if content is None else cls(request, content, NetworkCache())

    def find(self) -> Network | None:
        """Return the network if it is in the cache; what is damaged there is removed."""
        try:
            self._digest = self._content.digest(self._cache.digests)
            self._locations = self._noted_locations()
            self._key = self._key_now()
        except (NoKey, RecursionError) as reason:
            log(DEBUG, "the network is not kept: %s", reason)
            self._digest = ""
            return None
        except (OSError, ModelError):  # whoever imports the model says what is wrong with it
            self._digest = ""
            return None
        signature = self._noted_signature()
        if signature is not None:
            from glow_nb.network.saved.open_sizes import open_network

            if self._request.state is None:  # which all programs share
                self._request = self._request._replace(state=StateStore())
            return open_network(self._request, signature, self, self._opened)
        found = self._read(self._key, self._request.state, self._compiled_again)
        if found is None:
            if not self._locations:
                self._look_for_parts()
            return None
        from glow_nb.network.saved.reading import as_network

        return as_network(found)

    def _noted_signature(self) -> Signature | None:
        """Return what was noted of a model that leaves sizes open, if anything was."""
        noted = self._cache.note(self._key + _SIGNATURE)
        if noted is None:
            return None
        from glow_nb.network.saved.signature import Signature

        with suppress(GlowError):
            return Signature.from_plain(noted)
        return None

    def _look_for_parts(self) -> None:
        """Find the files beside the model before it is compiled: they may change afterwards."""
        try:
            with foreign(GlowError, f"{self._content}"):
                self._locations = self._content.locations()
                self._key = self._key_now()
        except GlowError:  # whoever imports the model says what is wrong with it
            self._digest = ""

    def find_sizes(
        self,
        shapes: Sizes,
        constants: Mapping[str, Array],
        state: StateStore,
        again: Callable[[], CompiledNetwork],
    ) -> CompiledNetwork | None:
        """Return the network for inputs of *shapes*, with *constants*, if it is in the cache.

        It runs on *state*; *again* compiles it once more.
        """
        if not self._digest:
            return None
        key = _key_of_sizes(self._key, shapes, constants)
        found = self._read(key, state, lambda: [again()])
        return found and found.functions[0]

    def find_general(
        self, number: int, state: StateStore, again: CompileOpen
    ) -> tuple[CompiledNetwork, Sequence[Specialized]] | None:
        """Return the program for all sizes of this *number*, likewise, if it is in the cache."""
        if not self._digest:
            return None
        made: list[CompiledNetwork] = []
        found = self._read(
            _key_of_general(self._key, number), state, lambda: [again(made[0].border.example)[0]]
        )
        if found is None or found.signature is None:
            return None
        made += found.functions
        return made[0], found.signature.specialized

    def find_refusal(self) -> tuple[Specialized, ...]:
        """Return why there is no program for all sizes, if that was noted."""
        noted = self._cache.note(self._key + _REFUSAL) if self._digest else None
        if noted is None:
            return ()
        from glow_nb.base.specialized import Specialized

        with suppress(TypeError):
            return tuple(Specialized(*each) for each in noted)
        return ()

    def keep_refusal(self, specialized: Sequence[Specialized]) -> None:
        """Note why there is no program for all sizes: these are *specialized* in each."""
        with suppress(NoKey, GlowError, OSError):
            if self._digest and self._is_unchanged():
                reasons = [[one.name, one.size, one.reason] for one in specialized]
                self._cache.write_note(self._key + _REFUSAL, reasons)

    def _read(
        self, key: str, state: StateStore | None, again: Callable[[], Sequence[CompiledNetwork]]
    ) -> SavedNetwork | None:
        """Return the network *key*, which runs on *state*; None if it is not there."""
        folder = self._cache.find(key)
        if folder is None:
            return None
        from glow_nb.network.saved.reading import Model, read_network

        check = self._known_check()
        model = Model(
            self._with_feeds,
            again if self._content.path else None,
            again,
            None if check is None else check.check,
        )
        try:
            found = read_network(folder, self._cache.digests, state=state, model=model)
        except ModelError as error:
            log(WARNING, "%s; it is compiled again", error)
            if not isinstance(error, UnreadableError):
                self._cache.remove(key)
            return None
        log(INFO, "network of %s: found in the cache as %s", self._content, key)
        if check is not None:
            check.require_known(found.functions)
        return found

    def _known_check(self) -> KnownCheck | None:
        """Return what of a run is looked at, if anything is, by the names of the model."""
        if self._request.check_finite is None:
            return None
        from glow_nb.network.excluded import KnownCheck
        from glow_nb.network.loading import source_of

        return KnownCheck.of(self._request.check_finite, source_of(self._request.graph))

    def keep(self, network: Network) -> None:
        """Write *network* to the cache, in the background, unless its model changed meanwhile.

        Of one that leaves sizes open, each program is kept by itself.
        """
        from glow_nb.network.dynamic import DynamicNetwork
        from glow_nb.network.growing import GrowingNetwork

        if isinstance(network, DynamicNetwork):
            return
        grown = network.to_plain() if isinstance(network, GrowingNetwork) else None
        self._write_later(network.programs()[1], self._key, grown=grown)

    def keep_sizes(
        self,
        shapes: Sizes,
        constants: Mapping[str, Array],
        network: CompiledNetwork,
        model: SizedModel,
    ) -> None:
        """Write *network*, that of *model* for inputs of *shapes* with *constants*, likewise."""
        from glow_nb.network.saved.signature import Signature

        signature = Signature.of(model)
        key = _key_of_sizes(self._key, shapes, constants)
        self._write_later([network], key, signature if signature.has_open_sizes else None)

    def keep_general(
        self,
        number: int,
        network: CompiledNetwork,
        specialized: Sequence[Specialized],
        model: SizedModel,
    ) -> None:
        """Write *network*, the program of *model* for all sizes of this *number*, likewise."""
        from glow_nb.network.saved.signature import Signature

        signature = Signature.of(model, specialized, 1)
        self._write_later([network], _key_of_general(self._key, number), signature)

    def _write_later(
        self,
        networks: Sequence[CompiledNetwork],
        key: str,
        opened: Signature | None = None,
        grown: Plain | None = None,
    ) -> None:
        """Write *networks* as *key* in the background: programs of a model that is *opened*.

        Or the one of a network whose caches have *grown*.
        """
        if not self._digest:
            return
        # No daemon: a program that ends at once must not have compiled for nothing.
        with suppress(RuntimeError):  # the system gives no thread, or the program is ending
            writer = threading.Thread(
                target=self._write, args=(networks, key, opened, grown), name=WRITER
            )
            writer.start()

    def _write(
        self,
        networks: Sequence[CompiledNetwork],
        key: str,
        opened: Signature | None,
        grown: Plain | None,
    ) -> None:
        from glow_nb.network.saved.courses import programs_in
        from glow_nb.network.saved.writing import write_network

        try:
            if not self._is_unchanged():
                return
            if self._locations:
                self._cache.write_note(self._base_key() + _PARTS, self._locations)
            if opened is not None:
                self._cache.write_note(self._key + _SIGNATURE, opened.to_plain())
            initial = {s.name: s.array for one in programs_in(networks) for s in one.program.state}
            self._cache.store(
                key,
                lambda folder: write_network(
                    folder,
                    networks,
                    initial,
                    made_from=self._origin(),
                    versions=versions(),
                    opened=opened,
                    grown=grown,
                    link=self._cache.link,
                ),
            )
        except (NoKey, GlowError, OSError, MemoryError, RecursionError) as reason:
            log(DEBUG, "the network is not kept: %s", reason)

    def _is_unchanged(self) -> bool:
        """Return whether model and arguments are what they were when the network was looked for."""
        return (
            self._content.digest(self._cache.digests) == self._digest
            and self._key_now() == self._key
        )

    def _base_key(self) -> str:
        return network_key(self._digest, self._arguments)

    def _key_now(self) -> str:
        """Return the key of the network, with what the model has in files beside itself."""
        key = self._base_key()
        if not self._locations:
            return key
        parts = self._cache.digests.of(self._content.data_paths(self._locations))
        return _extended(key, parts)

    def _noted_locations(self) -> list[str]:
        """Return how the model names files beside itself, as far as that was noted."""
        return list(map(str, self._cache.note(self._base_key() + _PARTS) or ()))

    def _origin(self) -> dict[str, str]:
        """Return what the network was made from, for people."""
        asked = {
            name: f"{value!r:.200}"
            for name, value in self._arguments.items()
            if value is not None and not (isinstance(value, tuple | dict) and not value)
        }
        return {"model": str(self._content), "sha256": self._digest.partition(" ")[2], **asked}

    def _with_feeds(self) -> Network:
        from glow_nb.network.api import open_defaults

        return open_defaults(self._request, self)

    def _compiled_again(self) -> Sequence[CompiledNetwork]:
        """Return the functions of the network, compiled once more."""
        from glow_nb.network.api import compile_request

        self._require_unchanged()
        return compile_request(self._request).programs()[1]

    def _opened(self) -> tuple[SizedModel, CompileFor, CompileOpen]:
        """Return the model, which leaves sizes open, and what compiles it for some, for all."""
        from glow_nb.network.api import open_model

        opened = open_model(self._request)
        self._require_unchanged()  # afterwards: it was read into memory
        return opened

    def _require_unchanged(self) -> None:
        """Raise ModelError unless the model is what it was when the network was found."""
        try:
            if self._is_unchanged():
                return
        except OSError as error:
            raise ModelError(
                f"{self._content}: cannot be read any more: {error.strerror}; the compiled network "
                "still runs"
            ) from error
        raise ModelError(
            f"{self._content}: was changed since the network was found, which runs on; compile the "
            "model once more"
        )


def _is_looked_into(request: CompileRequest) -> bool:
    """Return whether a debugger or perf needs the code, in the process that makes it."""
    debug = request.options.get("debug") or getattr(request.backend, "debug", False)
    return bool(debug or os.environ.get(PERF_VARIABLE))


def _key_of_sizes(key: str, shapes: Sizes, constants: Mapping[str, Array]) -> str:
    return _extended(key, [spelled(shapes), spelled(constants)])


def _key_of_general(key: str, number: int) -> str:
    return _extended(key, [f"all sizes {number}"])


def _extended(key: str, parts: Iterable[str]) -> str:
    return sha256(" ".join([key, *parts]).encode()).hexdigest()[: len(key)]
