"""The model that a network was made of, read once more with further values as outputs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

from glow_nb.base.arguments import Constants, Shapes, as_path
from glow_nb.base.errors import ModelError, OptionError
from glow_nb.base.model_node import ModelNode
from glow_nb.hlir import watched as hlir
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir import probes as llir
from glow_nb.llir.program import Program
from glow_nb.network.loading import Graph, source_of
from glow_nb.network.sized_model import SizedModel
from glow_nb.network.text_files import archive_of, is_ir_text
from glow_nb.system.data_folder import DataFolder

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import Model

Source = Union[Function, Module, Program, "Model"]
"""A model as it was read."""

Watched = tuple[Function | Program, dict[str, str]]
"""A model with further outputs, and the output of each watched name."""


class WatchedModel(Protocol):
    """A model that can be had with further values as outputs."""

    def with_values(self, names: Sequence[str]) -> Watched | None:
        """Return it with the values called *names* as outputs; None if its graph is gone."""
        ...

    def value_names(self) -> list[str] | None:
        """Return the names of all values that nodes make; None if its graph is gone."""
        ...

    def read(self) -> Function | Program | None:
        """Return it as it was before all passes; None if its graph is gone."""
        ...

    def nodes(self) -> list[ModelNode] | None:
        """Return its nodes as its file has them; None if it is a graph, or gone."""
        ...


class GivenModel:
    """The model that was given to :func:`glow_nb.compile`, read again at the first ``watch=``.

    A graph is not kept for this, since it holds all weights, but found as long as its owner has it;
    a model that is bytes or a message of onnx is kept. Files must not have changed.
    """

    def __init__(
        self, graph: Graph, source: object, shapes: Shapes, constants: Constants, *, number: int = 0
    ) -> None:
        """Read *graph* with sizes and inputs bound; of a module, its function *number*.

        *source* is what :func:`~glow_nb.network.loading.source_of` has made of it.
        """
        self._shapes, self._constants, self._number = shapes, constants, number
        self._read = _reader(graph, source, number)

    def _source(self) -> Any:
        source = self._read()
        return source.functions[self._number] if isinstance(source, Module) else source

    def with_values(self, names: Sequence[str]) -> Watched | None:
        """Return the model with the values called *names* as outputs; None if it is gone."""
        source = self._source()
        if source is None:
            return None
        if isinstance(source, Function | Program):
            return with_values(source, names)
        from glow_nb.formats.onnx.importer import import_onnx, watched_values

        values = watched_values(source.proto.graph, names)
        made = import_onnx(
            source, shapes=self._shapes, constants=self._constants, watched=list(values.values())
        )
        return made, values

    def value_names(self) -> list[str] | None:
        """Return the names of all values that nodes of the model make; None if it is gone."""
        source = self._source()
        if source is None or isinstance(source, Function | Program):
            return None if source is None else value_names(source)
        from glow_nb.formats.onnx import importer

        return importer.value_names(source.proto.graph)

    def read(self) -> Function | Program | None:
        """Return the model before all passes; None if it is gone."""
        source = self._source()
        if source is None:
            return None
        if isinstance(source, Function | Program):
            return source
        from glow_nb.formats.onnx.importer import import_onnx

        return import_onnx(source, shapes=self._shapes, constants=self._constants)

    def nodes(self) -> list[ModelNode] | None:
        """Return the nodes of the model as its file has them; None if it is a graph, or gone."""
        source = self._source()
        if source is None or isinstance(source, Function | Program):
            return None
        from glow_nb.formats.onnx.importer import model_nodes

        return model_nodes(source.proto.graph)


class SizedModelFor:
    """A model that leaves sizes open, for some sizes."""

    def __init__(self, model: SizedModel, shapes: Shapes, constants: Constants) -> None:
        """Bind the sizes of *model* by *shapes*, and some inputs by *constants*."""
        self._model, self._shapes, self._constants = model, shapes, constants

    def with_values(self, names: Sequence[str]) -> Watched:
        """Return the model with the values called *names* as outputs."""
        values = self._model.watched_values(names)
        watched = list(values.values())
        return self._model.function(self._shapes, self._constants, watched), values

    def value_names(self) -> list[str]:
        """Return the names of all values that nodes of the model make."""
        return self._model.value_names()

    def read(self) -> Function:
        """Return the model before all passes."""
        return self._model.function(self._shapes, self._constants)

    def nodes(self) -> list[ModelNode] | None:
        """Return the nodes of the model as its file has them; None if it is a graph."""
        return self._model.nodes()


class Gone:
    """A model that was deleted."""

    def with_values(self, names: Sequence[str]) -> None:
        """Return nothing."""

    def value_names(self) -> None:
        """Return nothing."""

    def read(self) -> None:
        """Return nothing."""

    def nodes(self) -> None:
        """Return nothing."""


def with_values(ir: Function | Program, names: Sequence[str]) -> Watched:
    """Return *ir* with the values called *names* as outputs; raise OptionError as it does."""
    if isinstance(ir, Function):
        return hlir.with_values(ir, names)
    return llir.with_values(ir, names)


def with_values_of_passes(ir: Function | Program, names: Sequence[str]) -> Watched:
    """Do what :func:`with_values` does to *ir*, which passes made of a model that is gone."""
    try:
        return with_values(ir, names)
    except OptionError as error:
        raise OptionError(
            f"{error}; the model itself is not available (load_compiled read the network, or its "
            "graph was deleted): the names are those of the graph after passes; compile the model "
            "again to use its own names"
        ) from None


def value_names(ir: Function | Program) -> list[str]:
    """Return the names of all values of *ir*."""
    return hlir.value_names(ir) if isinstance(ir, Function) else llir.value_names(ir)


def named_nodes(source: Source) -> dict[str, tuple[str, ...]]:
    """Return all names of a model, each with the nodes that it stands for, as kernels name them."""
    if isinstance(source, Function):
        return hlir.named_nodes(source)
    if isinstance(source, Program):
        return llir.named_nodes(source)
    if not isinstance(source, Module):
        from glow_nb.formats.onnx import importer

        return importer.named_nodes(source.proto.graph)
    found: dict[str, tuple[str, ...]] = {}
    for function in source.functions:
        for name, nodes in hlir.named_nodes(function).items():
            found[name] = (*found.get(name, ()), *nodes)
    return found


def _reader(graph: Graph, source: object, number: int) -> Callable[[], Any]:
    """Return what returns the model of *graph*, or None if it is gone."""
    if isinstance(graph, Module):
        graph = graph.functions[number]
    if isinstance(graph, Function | Program):
        return weakref.ref(graph)
    if not isinstance(graph, str | os.PathLike) or is_ir_text(graph):
        return lambda: source_of(graph)
    path = as_path(graph)
    files = [path, *_files_beside(path, source)]
    stamps = list(map(_stamp, files))

    def read() -> object:
        for file, stamp in zip(files, stamps, strict=True):
            if _stamp(file) != stamp:
                raise ModelError(
                    f"{file}: was changed or removed since the network was compiled, which runs "
                    "on; compile the model again to watch its values"
                )
        return source_of(path)

    return read


def _files_beside(path: Path, source: object) -> list[Path]:
    """Return the other files that the model *path*, read as *source*, is made of."""
    if isinstance(source, Function | Module | Program):
        return [archive_of(path)]
    from glow_nb.formats.onnx.importer import Model
    from glow_nb.formats.onnx.importer.locations import external_locations

    assert isinstance(source, Model)
    folder, found = DataFolder.of(os.fspath(path)), []
    for location in external_locations(source.proto):
        with suppress(ModelError):  # of an unused tensor, or in the model itself
            found.append(Path(folder.path_of(location, source.place)))
    return found


def _stamp(path: os.PathLike[str]) -> tuple[int, ...] | None:
    """Return number, size and time of the file *path*; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
