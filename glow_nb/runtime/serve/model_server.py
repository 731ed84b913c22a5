"""The models that a host serves: loaded from a repository, by name and version."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from glow_nb.base.errors import GlowError
from glow_nb.base.feeds import Feeds
from glow_nb.base.schema import closest
from glow_nb.base.types import Array, SymbolicType, TensorType
from glow_nb.base.uncopied import Uncopied
from glow_nb.runtime.hosting.batching import open_types
from glow_nb.runtime.hosting.network_info import NetworkInfo
from glow_nb.runtime.hosting.network_source import Servable
from glow_nb.runtime.hosting.statistics import Statistics
from glow_nb.runtime.serve.model_source import LoadOptions, ModelSource, read_source
from glow_nb.runtime.serve.refusal import Refusal, bad_request, status_of
from glow_nb.runtime.serve.repository import ModelFile, ModelRepository, in_order

Types = Mapping[str, TensorType | SymbolicType]


class Host(Protocol):
    """The server of the networks; a :class:`~glow_nb.runtime.hosting.host.HostManager` is one."""

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
class ServedModel:
    """A version of a model that takes requests.

    Attributes:
        file: The file that it was loaded from.
        network: The name on the host.
        info: The description.
        source: The source that it was read from.
        max_rows: Rows of a request, at most; 0 if all sizes are fixed.
    """

    file: ModelFile
    network: str
    info: NetworkInfo
    source: ModelSource
    max_rows: int

    @property
    def max_batch(self) -> int:
        """The largest number of rows that run together."""
        return self.info.batch_sizes[-1]

    @property
    def rows_of_a_run(self) -> int:
        """The largest number of rows of one request that run together."""
        is_alone = self.source.is_open and self.max_batch == 1
        return self.max_rows if is_alone else self.max_batch

    @property
    def inputs(self) -> Types:
        """Its inputs; the leading size is open where requests have rows."""
        return self._with_rows(self.info.inputs)

    @property
    def outputs(self) -> Types:
        """Its outputs, likewise."""
        return self._with_rows(self.info.outputs)

    def _with_rows(self, types: Types) -> Types:
        return open_types(types) if self.max_rows and not self.source.is_open else types


class ModelServer(Uncopied):
    """Models of a repository on a host.

    All versions of a model are loaded; a request that names none gets the greatest. Methods may be
    called from any thread; one loads or unloads at a time.
    """

    UNCOPIED = (
        "a model server cannot be copied or pickled, its host belongs to this process; share it, "
        "or make another one"
    )

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
        for name in self.repository.listing().names:
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
            listing = self.repository.listing()
            files, problems = listing.models.get(name, {}), listing.problems_of(name)
            if not files and not problems:
                raise Refusal(
                    404,
                    f"there is no model {name!r:.80}{closest(name, listing.names)} in the "
                    "repository",
                )
            if "" not in problems:
                for version in set(self._served.get(name, ())) - {*files, *problems}:
                    self._publish(name, version, None)
            errors = [error for file in files.values() if (error := self._refresh(file))]
            errors += [bad_request(_about(name, *problem)) for problem in problems.items()]
        if errors:
            raise errors[0]

    def _refresh(self, file: ModelFile) -> Refusal | None:
        """Load *file* unless it is there as it is; return what is wrong with it."""
        served = self._served.get(file.name, {}).get(file.version)
        if served is not None and served.file == file and served.source.stamp.is_current:
            self._failed.pop((file.name, file.version), None)
            return None
        try:
            model = self._loaded(file)
        except GlowError as error:
            # a client has no business with where the server keeps its files
            text = _about(file.name, file.version, _without_folder(str(error), file))
            self._failed[file.name, file.version] = text
            return Refusal(status_of(error), text)
        self._failed.pop((file.name, file.version), None)
        self._publish(file.name, file.version, model)
        return None

    def _loaded(self, file: ModelFile) -> ServedModel:
        network = f"{file.name}/{file.version}/{next(self._numbers)}"
        options = self._options
        source = read_source(file, options)
        max_batch = options.max_batch if source.has_rows else 1
        self.host.add_network(
            network,
            source.network,
            duplicates=options.duplicates,
            max_batch=max_batch,
            max_delay=options.max_delay if max_batch > 1 else 0.0,
        )
        info = self.host.networks()[network]
        is_fixed = any(isinstance(type, TensorType) for type in info.inputs.values())
        has_rows = source.has_rows and not (source.is_open and is_fixed)
        max_rows = max(options.max_rows, max_batch) if has_rows else 0
        return ServedModel(file, network, info, source, max_rows)

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
        ready, listing = self.host.networks(), self.repository.listing()
        versions = [(name, version) for name, files in listing.models.items() for version in files]
        entries = []
        for name, version in sorted({*versions, *listing.problems}, key=_by_number):
            model = self._served.get(name, {}).get(version)
            problem = listing.problems.get((name, version))
            reason = self._failed.get((name, version), "")
            if problem is not None:
                reason = _about(name, version, problem)
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


def _by_number(version: tuple[str, str]) -> tuple[str, int]:
    name, number = version
    return name, int(number or 0)


def _about(name: str, version: str, problem: str) -> str:
    """Return *problem*, and of which version of which model it is."""
    return f"model {name!r}, version {version}: {problem}" if version else f"{name!r}: {problem}"


def _without_folder(text: str, file: ModelFile) -> str:
    """Return *text* with the names of files beside *file* instead of their paths."""
    found, real = file.path.parent, Path(os.path.realpath(file.path)).parent
    folders = {str(found), str(found.absolute()), os.path.realpath(found), str(real)}
    for folder in sorted(folders, key=len, reverse=True):
        if folder not in (os.curdir, os.sep):
            text = text.replace(folder.removesuffix(os.sep) + os.sep, "")
    return text
