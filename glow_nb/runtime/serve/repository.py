"""Models in folders: which there are, by name and version."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from glow_nb.base.errors import OptionError

Model = TypeVar("Model")

ONLY_VERSION = "1"
"""The version of a model that is a file of its own."""
MODEL_FILE = "model"
CONFIGURATION = "config.pbtxt"
"""What other servers read about a model; this one does not."""
ALL_MODELS = "stats"
"""What the protocol calls all models where it asks for their statistics: no model has this name."""
SUFFIXES = (".onnx", ".glow")


@dataclass(frozen=True)
class ModelFile:
    """One version of a model.

    Attributes:
        name: The name in requests.
        version: A whole number, as text.
        path: Its file.
        configuration: A file beside it that other servers read; None if there is none.
    """

    name: str
    version: str
    path: Path
    configuration: Path | None = None

    @property
    def shown(self) -> str:
        """Its place in the folder of models: clients need not know where that is."""
        return "/".join(self.path.parts[-3:] if self.path.stem == MODEL_FILE else [self.path.name])


@dataclass(frozen=True)
class Listing:
    """The models in the folders.

    Attributes:
        models: The files of models by name and by version, the least version first.
        problems: By name and version, what is wrong with an entry that no model can be loaded from.
            The version is empty where none can be read.
    """

    models: Mapping[str, Mapping[str, ModelFile]]
    problems: Mapping[tuple[str, str], str]

    @property
    def names(self) -> list[str]:
        """The names of all models, also of those that cannot be read."""
        return sorted({*self.models, *(name for name, _ in self.problems)})

    def problems_of(self, name: str) -> dict[str, str]:
        """Return what is wrong with entries of the model *name*, by version."""
        return {v: problem for (other, v), problem in self.problems.items() if other == name}


class ModelRepository:
    """The models in folders, and models that are named by their files.

    A folder holds ``NAME.onnx``, which is version 1, and ``NAME/VERSION/model.onnx``. Names and
    versions of a request are looked up in what the folders list; they are never made into a path.
    """

    def __init__(self, places: Iterable[str | os.PathLike[str]]) -> None:
        """Have the models in *places*: folders, and files of models.

        Raises:
            OptionError: One of *places* is neither, or there is no model.
        """
        self._places = [Path(place) for place in places]
        for place in self._places:
            _require_there(place)
        if not self.listing().names:
            raise OptionError(
                f"{', '.join(map(str, self._places))}: there is no model; a folder has NAME.onnx "
                "or NAME/VERSION/model.onnx, and VERSION is a whole number"
            )

    def listing(self) -> Listing:
        """Return what there is now; an entry that cannot be read says so, and hides no other."""
        found = _Found()
        for place in self._places:
            if place.is_dir():
                found.look_into(place)
            else:
                found.add(ModelFile(place.stem, ONLY_VERSION, place))
        models = {name: in_order(files) for name, files in sorted(found.models.items()) if files}
        return Listing(models, found.problems)


def in_order(versions: Mapping[str, Model]) -> dict[str, Model]:
    """Return *versions* with the least first."""
    return dict(sorted(versions.items(), key=lambda item: int(item[0])))


def _require_there(place: Path) -> None:
    """Raise OptionError unless there is a file, or a folder that can be listed, at *place*."""
    try:
        if place.is_dir():
            os.listdir(place)
        else:
            os.stat(place)
    except OSError as error:
        raise OptionError(
            f"{place}: cannot be read: {error.strerror}; give a folder of models, or a model"
        ) from error


@dataclass
class _Found:
    """The models that were found so far."""

    models: dict[str, dict[str, ModelFile]] = field(default_factory=dict)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)

    def look_into(self, folder: Path) -> None:
        """Add the models in *folder*."""
        for entry in self._entries(folder, "", ""):
            path = folder / entry
            if entry.startswith("."):
                continue
            if os.path.isdir(path):
                self._look_for_versions(path)
            elif path.suffix in SUFFIXES:
                self.add(ModelFile(path.stem, ONLY_VERSION, path))

    def _look_for_versions(self, folder: Path) -> None:
        entries = self._entries(folder, folder.name, "")
        configuration = folder / CONFIGURATION if CONFIGURATION in entries else None
        for version in entries:
            place = folder / version
            if not _is_version(version) or not os.path.isdir(place):
                continue
            for file in self._entries(place, folder.name, version):
                if file in (f"{MODEL_FILE}{suffix}" for suffix in SUFFIXES):
                    self.add(ModelFile(folder.name, version, place / file, configuration))

    def _entries(self, folder: Path, name: str, version: str) -> list[str]:
        """Return the names in *folder*, which is that of a model; note why it cannot be listed."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:  # it has just gone
            return []
        except OSError as error:
            self.problems[name or folder.name, version] = f"cannot be read: {error.strerror}"
            return []

    def add(self, model: ModelFile) -> None:
        """Add *model*, or what is wrong with it."""
        key, versions = (model.name, model.version), self.models.setdefault(model.name, {})
        if problem := _wrong_name(model):
            self.problems[key] = problem
        elif other := versions.pop(model.version, None):
            self.problems[key] = (
                f"{model.shown}: {other.shown} is version {model.version} of {model.name!r}, too; "
                "rename one of them"
            )
        elif key not in self.problems:
            versions[model.version] = model


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 20 and str(int(name)) == name


def _wrong_name(model: ModelFile) -> str:
    """Return why no request can name *model* so; empty if one can."""
    if model.name == ALL_MODELS:
        return (
            f"{model.shown}: no model can be called {model.name!r}, since /v2/models/{model.name} "
            "means the statistics of all models; rename it"
        )
    try:
        model.name.encode()
    except UnicodeEncodeError:
        return (
            f"{model.shown!r}: the name has bytes that are not UTF-8, so that no request could "
            "name the model; rename it"
        )
    return ""
