"""Models in folders: which there are, by name and version."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from glow_nb.errors import OptionError

Model = TypeVar("Model")

ONLY_VERSION = "1"
"""The version of a model that is a file of its own."""
MODEL_FILE = "model"
ALL_MODELS = "stats"
"""What the protocol calls all models where it asks for their statistics: no model has this name."""
SUFFIXES = (".onnx", ".glow")


@dataclass(frozen=True)
class ModelFile:
    """One version of a model.

    Attributes:
        name: What requests call the model.
        version: A whole number, as text.
        path: Its file.
        stamp: When the file was changed, and its size: another stamp means another model.
    """

    name: str
    version: str
    path: Path
    stamp: tuple[int, int]


class ModelRepository:
    """The models in folders, and models that are named by their files.

    A folder holds ``NAME.onnx``, which is version 1, and ``NAME/VERSION/model.onnx``. Names and
    versions of a request are looked up in what the folders list; they are never made into a path.
    """

    def __init__(self, places: Iterable[str | os.PathLike[str]]) -> None:
        """Have the models in *places*: folders, and files of models.

        Raises:
            OptionError: One of *places* is neither, two models have the same name and version, or
                there is none.
        """
        self._places = [Path(place) for place in places]
        if not self.models():
            raise OptionError(
                f"{', '.join(map(str, self._places))}: there is no model; a folder has NAME.onnx "
                "or NAME/VERSION/model.onnx, and VERSION is a whole number"
            )

    def models(self) -> Mapping[str, Mapping[str, ModelFile]]:
        """Return the files there are now, by name and by version, the least version first."""
        found: dict[str, dict[str, ModelFile]] = {}
        for place in self._places:
            for model in _models_in(place):
                versions = found.setdefault(model.name, {})
                if other := versions.get(model.version):
                    raise OptionError(
                        f"{model.path}: {other.path} is version {model.version} of "
                        f"{model.name!r}, too; rename one of them"
                    )
                versions[model.version] = model
        return {name: in_order(versions) for name, versions in sorted(found.items())}


def in_order(versions: Mapping[str, Model]) -> dict[str, Model]:
    """Return *versions* with the least first."""
    return dict(sorted(versions.items(), key=lambda item: int(item[0])))


def _models_in(place: Path) -> Iterator[ModelFile]:
    try:
        if not place.is_dir():
            yield _model_file(place.stem, ONLY_VERSION, place)
            return
        for entry in sorted(place.iterdir()):
            if entry.is_dir():
                yield from _versions_in(entry)
            elif entry.suffix in SUFFIXES and not entry.name.startswith("."):
                yield _model_file(entry.stem, ONLY_VERSION, entry)
    except OSError as error:
        raise OptionError(
            f"{error.filename or place}: cannot be read: {error.strerror}; give a folder of models"
            ", or a model"
        ) from error


def _versions_in(folder: Path) -> Iterator[ModelFile]:
    for entry in sorted(folder.iterdir()):
        if entry.name.isascii() and entry.name.isdigit() and str(int(entry.name)) == entry.name:
            yield from _models_named(folder.name, entry)


def _models_named(name: str, folder: Path) -> Iterator[ModelFile]:
    """Return the model in the folder of a version, if there is one."""
    paths: Sequence[Path] = [folder / f"{MODEL_FILE}{suffix}" for suffix in SUFFIXES]
    yield from (_model_file(name, folder.name, path) for path in paths if path.exists())


def _check_name(name: str, path: Path) -> None:
    """Raise OptionError if no request can name a model so."""
    if name == ALL_MODELS:
        raise OptionError(
            f"{path}: no model can be called {name!r}, since /v2/models/{name} means the "
            "statistics of all models; rename it"
        )
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise OptionError(
            f"{str(path)!r}: the name has bytes that are not UTF-8, so that no request could name "
            "the model; rename it"
        ) from error


def _model_file(name: str, version: str, path: Path) -> ModelFile:
    _check_name(name, path)
    status = path.stat()
    return ModelFile(name, version, path, (status.st_mtime_ns, status.st_size))
