"""Loading of graphs and programs: :func:`glow_nb.load` and similar functions."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Union

from glow_nb.base.arguments import (
    Constants,
    Shapes,
    as_constants,
    as_path,
    as_shapes,
    described,
)
from glow_nb.base.errors import GlowWarning, OptionError, UnboundDimension
from glow_nb.base.memory_limit import require_memory
from glow_nb.base.progress import report
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir.program import Program
from glow_nb.network.files import load_all_text, parse_all_text
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.text_files import SUFFIX, is_ir_text

if TYPE_CHECKING:
    import onnx

    from glow_nb.formats.onnx.importer import Model, SymbolicModel

ONNX_BYTES = 64 << 20
"""Addresses that the library onnx, and NumPy's products, take at the first import of a model."""

Graph = Union[str, "os.PathLike[str]", bytes, "onnx.ModelProto", Function, Module, Program]


def load(
    graph: Graph,
    *,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    open_sizes: bool = False,
) -> Function:
    """Return *graph* as a function.

    Args:
        graph: The path of an ONNX model or of IR text (``.glow``), the bytes of a model, an
            ``onnx.ModelProto``, IR text itself, a Function, or a Module with one function.
        shapes: Sizes of symbolic dimensions by name, or whole shapes by input name. Without them a
            graph or IR text whose sizes are open stays as it is. An initializer that an ONNX model
            lists as an input, too, becomes an input by a whole shape.
        constants: Inputs of an ONNX model that are fixed to these arrays and no inputs any more;
            needed where a shape is computed from their numbers. Initializers that the model lists
            as inputs, too, get these numbers instead of their own.
        open_sizes: Sizes of an ONNX model that *shapes* does not give are open in the graph, as
            ``float32<batch x 3>``. A size that must be a number gets that of an example, and a
            ``GlowWarning`` says which size and why. Without it, all sizes must be given.

    Raises:
        OptionError: *shapes* or *constants* do not fit the model, it is no ONNX model, it is the
            text of a program, which :func:`load_program` returns, or it has several functions,
            which :func:`load_module` returns.
        ModelError: The model is broken, or has symbolic dimensions that *shapes* does not bind.
        UnsupportedError: Operators that are not supported; all of them are listed.
        ParseError: The IR text is not valid.
    """
    source, bound, fixed = source_of(graph), as_shapes(shapes) or {}, as_constants(constants)
    if open_sizes and not isinstance(source, Function | Module | Program):
        return _imported_open(source, bound, fixed)
    try:
        loaded = _one_of(source, bound, fixed)
    except UnboundDimension as error:
        if None in error.signature.values():  # a rank cannot be left open
            raise
        raise UnboundDimension(
            error.place, error.names, error.signature, otherwise="leave them open, open_sizes=True"
        ) from None
    if isinstance(loaded, Program):
        raise OptionError(
            f"{loaded!r} is a program, instructions over buffers, and load() returns graphs; "
            "glow_nb.load_program(path) returns it, and compile() takes it directly"
        )
    return loaded


def load_program(graph: Graph) -> Program:
    """Return *graph* as a program: a program itself, or its IR text.

    Args:
        graph: The path of IR text (``.glow``), IR text itself, or a Program.

    Raises:
        OptionError: It is no program but a graph or a model, which :func:`load` returns.
        ModelError: The file cannot be read.
        ParseError: The IR text is not valid.
    """
    source = source_of(graph)
    if not isinstance(source, Program):
        kind = "a graph" if isinstance(source, Function | Module) else "an ONNX model"
        raise OptionError(
            f"{described(graph)} is {kind}, and load_program() returns programs; glow_nb.load() "
            "returns its graph, and the program of a compiled network is net.program"
        )
    return source


def load_ir(
    graph: Graph, *, shapes: Shapes | None = None, constants: Constants | None = None
) -> Function | Program:
    """Return what :func:`load` returns, or the program that *graph* is; raise what they raise."""
    return _one_of(source_of(graph), as_shapes(shapes) or {}, as_constants(constants))


def _one_of(
    source: Function | Module | Program | Model, shapes: Shapes, constants: Constants
) -> Function | Program:
    """Return *source* as one function, whose sizes are known, or as a program."""
    loaded = imported(source, shapes, constants)
    if isinstance(loaded, Function | Program):
        return loaded
    if isinstance(loaded, Module):
        names = [function.name for function in loaded.functions]
        raise OptionError(
            f"the model has the functions {names}, and load() returns one; "
            "glow_nb.load_module(path) returns all, and module[name] is one of them"
        )
    return loaded.function({})  # which says what is open


def _imported_open(source: Model, shapes: Shapes, constants: Constants) -> Function:
    from glow_nb.formats.onnx.importer import import_open

    function, specialized = import_open(source, shapes, constants)
    for each in specialized:
        warnings.warn(
            f"size {each.name!r} is made {each.size}: {each.reason}", GlowWarning, stacklevel=3
        )
    return function


def load_open(
    graph: Graph,
    *,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    for_training: bool = False,
) -> Function | Program | SymbolicModel:
    """Do what :func:`load` does, but keep open sizes, and inputs with a default, open.

    If a model is imported *for_training*, its dropouts are kept, which are removed for inference.
    """
    source, bound, fixed = source_of(graph), as_shapes(shapes) or {}, as_constants(constants)
    if isinstance(source, Function | Module | Program):
        return load_ir(source, shapes=shapes, constants=constants)
    from glow_nb.formats.onnx.importer import SymbolicModel, defaults_of

    source = replace(source, for_training=for_training)
    if defaults_of(source, bound, fixed):
        return SymbolicModel(source, bound, fixed)
    loaded = imported(source, bound, fixed)
    assert not isinstance(loaded, Module)
    return loaded


def load_module(path: str | os.PathLike[str]) -> Module:
    """Return all functions in the IR text at *path*, with the states that they share.

    Raises:
        OptionError: *path* is not the path of IR text, or the text is a program.
        ModelError, ParseError: As :func:`load`.
    """
    place = as_path(path)
    loaded = load_all_text(place) if _is_text(place) else None
    if not isinstance(loaded, Module):
        raise OptionError(f"{place}: not IR text of graphs, in a file named *{SUFFIX}; use load()")
    return loaded


def source_of(graph: Graph) -> Function | Module | Program | Model:
    """Return what *graph* names or holds: IR, or an ONNX model that is read and not imported."""
    if isinstance(graph, str) and is_ir_text(graph):
        graph = parse_all_text(graph)
    if isinstance(graph, str | os.PathLike):
        graph = as_path(graph)
    if isinstance(graph, str | os.PathLike) and _is_text(graph):
        graph = load_all_text(graph)
    if isinstance(graph, Function | Program):
        return graph
    if isinstance(graph, Module):
        return graph.functions[0] if len(graph.functions) == 1 else graph
    if "onnx" not in sys.modules:
        require_memory("import", {"the library onnx": ONNX_BYTES})
    from glow_nb.formats.onnx.importer import load_model

    if not isinstance(graph, str | bytes | os.PathLike) and not hasattr(graph, "graph"):
        raise OptionError(
            f"{described(graph)} is no model; give a path, the bytes of a model, an "
            "onnx.ModelProto, a Function, a Module or a Program; a model in another library is "
            "exported to ONNX first, as torch.onnx.export does"
        )
    report("reading the model")
    return load_model(graph)


def imported(
    source: Function | Module | Program | Model, shapes: Shapes, constants: Constants
) -> Function | Module | Program | SymbolicModel:
    """Return *source* as IR, or as it is where it leaves sizes open."""
    if isinstance(source, Function) and source.sizes and shapes:
        return OpenFunction(source).function(shapes, constants)
    if isinstance(source, Function | Module | Program):
        _refuse_bindings(shapes, constants)
        return source
    from glow_nb.formats.onnx.importer import SymbolicModel, import_onnx

    try:
        return import_onnx(source, shapes=shapes, constants=constants)
    except UnboundDimension:
        return SymbolicModel(source, shapes, constants)


def _refuse_bindings(shapes: Shapes, constants: Constants) -> None:
    """Raise OptionError if anything is to be bound in a graph that leaves nothing open."""
    if constants:
        raise OptionError(
            f"constants={list(constants)}: only inputs of an ONNX model can be fixed; "
            "build other graphs with a Constant instead of the input"
        )
    if shapes:
        raise OptionError(
            f"shapes={dict(shapes)!r:.80}: there are no sizes to bind; those of the graph are fixed"
        )


def _is_text(graph: object) -> bool:
    return isinstance(graph, str | os.PathLike) and os.fspath(graph).endswith(SUFFIX)
