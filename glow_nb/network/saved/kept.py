"""A model in the cache of networks: looked for by its content, and kept after it was compiled."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from glow_nb.base.arguments import as_path
from glow_nb.base.errors import GlowError, ModelError, OptionError
from glow_nb.codegen.linked_code import IS_SUPPORTED
from glow_nb.network.request import CompileRequest
from glow_nb.network.saved.cache import NetworkCache
from glow_nb.network.saved.key import NoKey, network_key, versions
from glow_nb.system.regular_files import open_regular
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.network.network import Network

NETWORKS_VARIABLE = "GLOW_NB_CACHE_NETWORKS"
"""The environment variable that turns the cache of networks off: ``0``."""

WRITER = "glow_nb cache"
"""The name of the thread that writes a network."""

_IR_TEXT = ".glow"
_NO_CONTENT = ("graph", "observer", "state", "cache")
"""Arguments that do not change what is compiled, and the model itself."""

_LOCATION = b"\n\x08location"
"""The key of an entry that tells where a tensor lies, as it stands in the bytes of a model."""


class KeptModel:
    """A model that is a file or bytes, and the arguments that it is compiled with."""

    def __init__(self, request: CompileRequest, path: Path | None, cache: NetworkCache) -> None:
        """Find or keep the network of *request*, whose model is the file *path* or bytes."""
        self._request, self._path, self._cache = request, path, cache
        self._arguments = {
            field.name: getattr(request, field.name)
            for field in fields(request)
            if field.name not in _NO_CONTENT
        }
        self._digest = self._key = ""

    @classmethod
    def of(cls, request: CompileRequest) -> KeptModel | None:
        """Return the model of *request*; None where nothing is kept of it."""
        wanted = request.cache and os.environ.get(NETWORKS_VARIABLE) != "0"
        if not (wanted and IS_SUPPORTED) or request.observer is not None:
            return None
        if not isinstance(request.state, StateStore | None):
            return None  # whoever compiles says what is wrong with it
        graph = request.graph
        if isinstance(graph, bytes):
            return cls(request, None, NetworkCache())
        if not isinstance(graph, str | os.PathLike):
            return None
        try:
            path = as_path(graph)
        except OptionError:  # IR text itself, or what whoever imports it refuses
            return None
        if path.suffix == _IR_TEXT or not os.path.isfile(path):
            return None
        return cls(request, path, NetworkCache())

    def find(self) -> Network | None:
        """Return the network if it is in the cache; what is damaged there is removed."""
        try:
            self._digest = self._model_digest()
            self._key = self._key_of(self._digest)
            folder = self._cache.find(self._key)
        except (NoKey, RecursionError) as reason:
            _tell(f"the network is not kept: {reason}")
            return None
        except OSError:  # whoever imports the model says what is wrong with it
            return None
        if folder is None:
            return None
        from glow_nb.network.saved.reading import read_network

        try:
            return read_network(
                folder, self._cache.digests, state=self._request.state, opened=self._opened
            )[0]
        except ModelError as error:
            _tell(f"{error}; it is compiled again", is_fault=True)
            self._cache.remove(self._key)
            return None

    def keep(self, network: Network) -> None:
        """Write *network* to the cache, in the background, unless its model changed meanwhile."""
        from glow_nb.network.network import CompiledNetwork

        if not self._digest or not isinstance(network, CompiledNetwork):
            return
        # No daemon: a program that ends at once must not have compiled for nothing.
        with suppress(RuntimeError):  # the system gives no thread, or the program is ending
            threading.Thread(target=self._write, args=(network,), name=WRITER).start()

    def _write(self, network: Network) -> None:
        from glow_nb.network.network import CompiledNetwork
        from glow_nb.network.saved.writing import write_network

        assert isinstance(network, CompiledNetwork)
        try:
            if self._model_digest() != self._digest:
                return
            key = self._noted_key()
            initial = {state.name: state.array for state in network.program.state}
            self._cache.store(
                key,
                lambda folder: write_network(
                    folder, [network], initial, made_from=self._origin(), versions=versions()
                ),
            )
        except (NoKey, GlowError, OSError, MemoryError) as reason:
            _tell(f"the network is not kept: {reason}")

    def _model_digest(self) -> str:
        """Return the digest of the model itself."""
        if self._path is None:
            graph = self._request.graph
            assert isinstance(graph, bytes)
            return hashlib.sha256(graph).hexdigest()
        (digest,) = self._cache.digests.of([self._path])
        return digest

    def _key_of(self, digest: str) -> str:
        """Return the key of the network, with what the model has in files beside itself."""
        key = network_key(digest, self._arguments)
        names = self._cache.parts_of(key)
        if not names or self._path is None:
            return key
        folder = Path(os.path.realpath(self._path)).parent
        parts = self._cache.digests.of([folder / name for name in names])
        return hashlib.sha256(" ".join([key, *parts]).encode()).hexdigest()[: len(key)]

    def _noted_key(self) -> str:
        """Return the key, now that the model was read, and it is known what lies beside it."""
        if self._path is not None and _names_files(self._path):
            import onnx

            from glow_nb.formats.onnx.importer.locations import external_locations

            proto = onnx.load(os.fspath(self._path), load_external_data=False)
            key = network_key(self._digest, self._arguments)
            self._cache.note_parts(key, external_locations(proto))
        return self._key_of(self._digest)

    def _origin(self) -> dict[str, str]:
        """Return what the network was made from, for people."""
        model = "bytes" if self._path is None else os.path.abspath(self._path)
        asked = {
            name: f"{value!r:.200}"
            for name, value in self._arguments.items()
            if value is not None and not (isinstance(value, tuple | dict) and not value)
        }
        return {"model": model, "sha256": self._digest, **asked}

    def _opened(self) -> Network:
        from glow_nb.network.api import open_defaults

        return open_defaults(self._request)


def _names_files(path: Path) -> bool:
    """Return whether the model *path* may name files; a large one is not parsed to find out."""
    with open_regular(path) as stream:
        content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    with content:
        return content.find(_LOCATION) >= 0


def _tell(message: str, *, is_fault: bool = False) -> None:
    """Write *message* to the log of the package."""
    import logging  # which finding a network does without

    level = logging.WARNING if is_fault else logging.DEBUG
    logging.getLogger("glow_nb").log(level, "%s", message)
