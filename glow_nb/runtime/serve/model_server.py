"""The models that a host serves: loaded from a repository, by name and version."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import glow_nb
from glow_nb.errors import GlowError, UnboundDimension
from glow_nb.feeds import Feeds
from glow_nb.runtime.hosting.network_info import NetworkInfo
from glow_nb.runtime.hosting.network_source import Servable
from glow_nb.runtime.hosting.statistics import Statistics
from glow_nb.runtime.serve.refusal import Refusal, status_of
from glow_nb.runtime.serve.repository import ModelFile, ModelRepository, in_order
from glow_nb.schema import closest
from glow_nb.types import Array


class Host(Protocol):
    """What serves the networks; a :class:`~glow_nb.runtime.hosting.host.HostManager` is one."""

    def add_network(
        self,
        name: str,
        network: Servable,
        *,
        duplicates: int | None = 1,
        max_batch: int = 1,
        max_delay: float = 0.0,
    ) -> None:
        """Load *network* and call it *name*."""
        ...

    def remove_network(self, name: str) -> None:
        """Unload the network *name*, when its requests are answered."""
        ...

    def networks(self) -> Mapping[str, NetworkInfo]:
        """Return what each network is."""
        ...

    def submit(
        self, name: str, inputs: Feeds, *, priority: int = 0, deadline: float | None = None
    ) -> Future[dict[str, Array]]:
        """Let the network *name* run on *inputs*."""
        ...

    def statistics(self) -> Statistics:
        """Return what was counted."""
        ...

    def close(self, timeout: float | None = None) -> None:
        """Answer what came, and end."""
        ...


@dataclass(frozen=True)
class LoadOptions:
    """How each model is loaded.

    Attributes:
        duplicates: Copies of it; None for as many as there are empty devices.
        max_batch: Rows that run together, of models whose leading size is open.
        max_delay: Seconds that a batch waits for more rows.
    """

    duplicates: int | None = 1
    max_batch: int = 1
    max_delay: float = 0.0


@dataclass(frozen=True)
class ServedModel:
    """A version of a model that takes requests.

    Attributes:
        file: What it was loaded from.
        network: What the host calls it.
        info: What it is.
    """

    file: ModelFile
    network: str
    info: NetworkInfo


class ModelServer:
    """Models of a repository on a host.

    All versions of a model are loaded; a request that names none gets the greatest. Methods may be
    called from any thread; one loads or unloads at a time.
    """

    def __init__(
        self, host: Host, repository: ModelRepository, options: LoadOptions | None = None
    ) -> None:
        """Serve the models of *repository* on *host*, none of them yet."""
        self.host, self.repository = host, repository
        self._options = options or LoadOptions()
        self._served: Mapping[str, Mapping[str, ServedModel]] = {}  # replaced, never changed
        self._failed: dict[tuple[str, str], str] = {}
        self._changing = threading.Lock()
        self._numbers = itertools.count(1)

    @property
    def served(self) -> Mapping[str, Mapping[str, ServedModel]]:
        """The models that take requests, by name and version, the least version first."""
        return self._served

    def find(self, name: str, version: str | None = None) -> ServedModel:
        """Return the model *name*, its greatest version if none is given.

        Raises:
            Refusal: There is none, with the status 404.
        """
        versions = self._served.get(name)
        if not versions:
            names = list(self._served)
            raise Refusal(
                404,
                f"there is no model {name!r:.80}{closest(name, names)}; loaded are {names!s:.200}",
            )
        found = versions.get(list(versions)[-1] if version is None else version)
        if found is None:
            raise Refusal(
                404,
                f"model {name!r}: there is no version {version!r:.40}; loaded are "
                f"{', '.join(versions)}",
            )
        return found

    def load_all(self) -> list[GlowError]:
        """Load all models there are; return the errors of those that cannot be."""
        errors: list[GlowError] = []
        for name in self.repository.models():
            try:
                self.load(name)
            except GlowError as error:
                errors.append(error)
        return errors

    def load(self, name: str) -> None:
        """Load the versions of the model *name* that are new or have changed, and drop those gone.

        A version that has changed is loaded beside the old one, which takes requests until then.

        Raises:
            Refusal: There is no such model, with the status 404.
            Refusal: A version cannot be loaded; an old one of it stays.
        """
        with self._changing:
            files = self.repository.models().get(name)
            if files is None:
                names = list(self.repository.models())
                raise Refusal(
                    404, f"there is no model {name!r:.80}{closest(name, names)} in the repository"
                )
            for version in set(self._served.get(name, ())) - set(files):
                self._publish(name, version, None)
            errors = [error for file in files.values() if (error := self._refresh(file))]
        if errors:
            raise errors[0]

    def _refresh(self, file: ModelFile) -> Refusal | None:
        """Load *file* unless it is there as it is; return what is wrong with it."""
        served = self._served.get(file.name, {}).get(file.version)
        if served is not None and served.file.stamp == file.stamp:
            return None
        try:
            model = self._loaded(file)
        except GlowError as error:
            # a client has no business with where the server keeps its files
            reason = _without_folder(str(error), file)
            text = f"model {file.name!r}, version {file.version}: {reason}"
            self._failed[file.name, file.version] = text
            return Refusal(status_of(error), text)
        self._failed.pop((file.name, file.version), None)
        self._publish(file.name, file.version, model)
        return None

    def _loaded(self, file: ModelFile) -> ServedModel:
        network = f"{file.name}/{file.version}/{next(self._numbers)}"
        options = self._options
        source, max_batch = _source(file, options.max_batch)
        self.host.add_network(
            network,
            source,
            duplicates=options.duplicates,
            max_batch=max_batch,
            max_delay=options.max_delay if max_batch > 1 else 0.0,
        )
        return ServedModel(file, network, self.host.networks()[network])

    def unload(self, name: str) -> None:
        """Take no more requests to the model *name*, and unload it when those that came are done.

        Raises:
            Refusal: It is not loaded, with the status 404.
        """
        with self._changing:
            self.find(name)
            for version in list(self._served[name]):
                self._publish(name, version, None)

    def _publish(self, name: str, version: str, model: ServedModel | None) -> None:
        """Let *model* take the requests to *version* of *name*; unload what did so far."""
        versions = dict(self._served.get(name, {}))
        old = versions.pop(version, None)
        if model is not None:
            versions[version] = model
        rest = {key: value for key, value in self._served.items() if key != name}
        if versions:
            rest[name] = in_order(versions)
        self._served = dict(sorted(rest.items()))
        if old is not None:
            self.host.remove_network(old.network)

    def index(self) -> list[dict[str, str]]:
        """Return each version of each model, and whether it is loaded, as the protocol has it."""
        ready = self.host.networks()
        entries = []
        for name, files in self.repository.models().items():
            for version in files:
                model = self._served.get(name, {}).get(version)
                reason = self._failed.get((name, version), "")
                if model is None:
                    state, reason = "UNAVAILABLE", reason or "not loaded"
                else:
                    info = ready.get(model.network)
                    state = "READY" if info is not None and info.ready else "UNAVAILABLE"
                entries.append({"name": name, "version": version, "state": state, "reason": reason})
        return entries

    def is_ready(self, model: ServedModel | None = None) -> bool:
        """Return whether requests to *model* can be answered, or to each that is loaded."""
        networks = self.host.networks()
        models = (
            [model]
            if model is not None
            else [each for versions in self._served.values() for each in versions.values()]
        )
        return all(
            (info := networks.get(each.network)) is not None and info.ready for each in models
        )


def _without_folder(text: str, file: ModelFile) -> str:
    """Return *text* with the names of files beside *file* in the place of their paths."""
    folder = str(file.path).removesuffix(file.path.name)
    return text.replace(folder, "") if len(folder) > len(os.sep) else text


def _source(file: ModelFile, max_batch: int) -> tuple[Servable, int]:
    """Return what a host loads of *file*, and the batch: 1 if its sizes are fixed."""
    try:
        loaded = glow_nb.load(str(file.path))
    except UnboundDimension:
        return str(file.path), max_batch
    return loaded, 1
