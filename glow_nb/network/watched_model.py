"""The model that a network was made of, read once more with further values as outputs."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from glow_nb.base.arguments import Constants, Shapes, as_path
from glow_nb.base.errors import ModelError
from glow_nb.hlir import watched as hlir
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir import probes as llir
from glow_nb.llir.program import Program
from glow_nb.network.levels import Levels
from glow_nb.network.loading import Graph, source_of
from glow_nb.network.text_files import is_ir_text

Watched = tuple[Function | Program, dict[str, str]]
"""A model with further outputs, and the output of each name that was asked for."""

WatchedModel = Callable[[Sequence[str]], Watched | None]
"""Returns the model with some values as outputs; None if its graph is gone."""


def watched_model(
    graph: Graph, shapes: Shapes, constants: Constants, *, number: int = 0
) -> WatchedModel:
    """Return what reads *graph* again; of a module, its function *number*.

    A graph is not kept for this, since it holds all weights, but found as long as its owner has it;
    a model that is bytes or a message of onnx is kept. A file must not have changed.
    """
    read = _reader(graph, number)

    def watched(names: Sequence[str]) -> Watched | None:
        source = read()
        if source is None:
            return None
        if isinstance(source, Module):
            source = source.functions[number]
        if isinstance(source, Function | Program):
            return with_values(source, names)
        from glow_nb.formats.onnx.importer import import_onnx, watched_values

        values = watched_values(source.proto.graph, names)
        function = import_onnx(
            source, shapes=shapes, constants=constants, watched=list(values.values())
        )
        return function, values

    return watched


def with_values(ir: Function | Program, names: Sequence[str]) -> Watched:
    """Return *ir* with the values called *names* as outputs; raise OptionError as it does."""
    if isinstance(ir, Function):
        return hlir.with_values(ir, names)
    return llir.with_values(ir, names)


def watched_levels(levels: Levels, names: Sequence[str]) -> Watched:
    """Return what the passes made of a model, with the values called *names* as outputs."""
    return with_values(levels.function or levels.program, names)


def _reader(graph: Graph, number: int) -> Callable[[], Any]:
    """Return what returns the model of *graph*, or None if it is gone."""
    if isinstance(graph, Module):
        graph = graph.functions[number]
    if isinstance(graph, Function | Program):
        return weakref.ref(graph)
    if not isinstance(graph, str | os.PathLike) or is_ir_text(graph):
        return lambda: source_of(graph)
    path = as_path(graph)
    stamp = _stamp(path)

    def read() -> object:
        if _stamp(path) != stamp:
            raise ModelError(
                f"{path}: was changed or removed since the network was compiled, which runs on; "
                "compile the model again to watch its values"
            )
        return source_of(path)

    return read


def _stamp(path: os.PathLike[str]) -> tuple[int, int] | None:
    """Return size and time of the file *path*; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
