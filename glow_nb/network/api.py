"""The public functions: what a user calls, in terms of the compiler's steps."""

from __future__ import annotations

import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Union

from glow_nb.backends import Backend, BackendLike, VariantBackend, backend_named, option_names
from glow_nb.base.arguments import (
    MOST_THREADS,
    Constants,
    Shapes,
    as_constants,
    as_path,
    as_shapes,
    described,
    whole_number,
)
from glow_nb.base.errors import GlowWarning, OptionError, UnboundDimension
from glow_nb.base.habits import refuse_arguments
from glow_nb.base.memory_limit import require_memory, within_memory
from glow_nb.base.passes import Observer, PassRun, check_observer, finish, observed, tell
from glow_nb.base.progress import report, shown
from glow_nb.base.steps import Entries
from glow_nb.base.text import format_name
from glow_nb.codegen.stopwatch import Stopwatch
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir.allocate import Allocator
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.network.defaults import Defaults
from glow_nb.network.dynamic import DynamicNetwork, describe_sizes
from glow_nb.network.files import SUFFIX, is_ir_text, load_all_text, parse_all_text
from glow_nb.network.levels import Border, Levels
from glow_nb.network.module_network import ModuleNetwork
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.variants import MAX_VARIANTS
from glow_nb.scheduling.ordering import Scheduler
from glow_nb.system.cores import available_cores
from glow_nb.system.freed_memory import return_freed_memory
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    import onnx

    from glow_nb.formats.onnx.importer import Model, SymbolicModel

ONNX_BYTES = 64 << 20
"""Addresses that the library onnx, and NumPy's products, take at the first import of a model."""

Graph = Union[str, "os.PathLike[str]", bytes, "onnx.ModelProto", Function, Module, Program]


def load(
    graph: Graph, *, shapes: Shapes | None = None, constants: Constants | None = None
) -> Function | Program:
    """Return *graph* as a function, or as a program if it is IR text of the lower level.

    Args:
        graph: The path of an ONNX model or of IR text (``.glow``), the bytes of a model, an
            ``onnx.ModelProto``, IR text itself, a Function, a Module with one function, or a
            Program.
        shapes: Sizes of symbolic dimensions by name, or whole shapes by input name. An initializer
            that the model lists as an input, too, becomes an input by a whole shape.
        constants: Inputs of an ONNX model that are fixed to these arrays and no inputs any more;
            needed where a shape is computed from their numbers. Initializers that the model lists
            as inputs, too, get these numbers in place of their own.

    Raises:
        OptionError: *shapes* or *constants* do not fit the model, it is no ONNX model, or it has
            several functions, which :func:`load_module` returns.
        ModelError: The model is broken, or has symbolic dimensions that *shapes* does not bind.
        UnsupportedError: Operators that are not supported; all of them are listed.
        ParseError: The IR text is not valid.
    """
    loaded = _imported(_source(graph), as_shapes(shapes) or {}, as_constants(constants))
    if isinstance(loaded, Function | Program):
        return loaded
    if isinstance(loaded, Module):
        names = [function.name for function in loaded.functions]
        raise OptionError(
            f"the model has the functions {names}, and load() returns one; "
            "glow_nb.load_module(path) returns all, and module[name] is one of them"
        )
    return loaded.function({})  # which says what is open


def load_open(
    graph: Graph,
    *,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    for_training: bool = False,
) -> Function | Program | SymbolicModel:
    """Do what :func:`load` does, but leave open what a model leaves open.

    That is sizes, and inputs that may be fed or left at a default. If it is imported
    *for_training*, the dropouts of an ONNX model are there, which are nothing in inference.
    """
    source, bound, fixed = _source(graph), as_shapes(shapes) or {}, as_constants(constants)
    if isinstance(source, Function | Module | Program):
        return load(source, shapes=shapes, constants=constants)
    from glow_nb.formats.onnx.importer import SymbolicModel, defaults_of

    source = replace(source, for_training=for_training)
    if defaults_of(source, bound, fixed):
        return SymbolicModel(source, bound, fixed)
    loaded = _imported(source, bound, fixed)
    assert not isinstance(loaded, Module)
    return loaded


def load_module(path: str | os.PathLike[str]) -> Module:
    """Return all functions in the IR text at *path*, with the states that they share.

    Raises:
        OptionError: *path* is none of IR text, or the text is a program.
        ModelError, ParseError: As :func:`load`.
    """
    place = as_path(path)
    loaded = load_all_text(place) if _is_text(place) else None
    if not isinstance(loaded, Module):
        raise OptionError(f"{place}: not IR text of graphs, in a file named *{SUFFIX}; use load()")
    return loaded


def _source(graph: Graph) -> Function | Module | Program | Model:
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


def _imported(
    source: Function | Module | Program | Model, shapes: Shapes, constants: Constants
) -> Function | Module | Program | SymbolicModel:
    """Return *source* as IR, or as it is where it leaves sizes open."""
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
            "build other graphs with a Constant in the place of the input"
        )
    if shapes:
        raise OptionError(
            f"shapes={dict(shapes)!r:.80}: only an ONNX model has sizes to bind; "
            "those of other graphs are fixed"
        )


def _is_text(graph: object) -> bool:
    return isinstance(graph, str | os.PathLike) and os.fspath(graph).endswith(SUFFIX)


def compile(
    graph: Graph,
    *,
    backend: BackendLike = "cpu",
    threads: int | None = None,
    shapes: Shapes | None = None,
    constants: Constants | None = None,
    max_variants: int = MAX_VARIANTS,
    pipeline: Entries = pipelines.INFERENCE,
    program_pipeline: Entries | None = None,
    without: Collection[str] = (),
    scheduler: Scheduler | None = None,
    allocator: Allocator | None = None,
    observer: Observer | None = None,
    state: StateStore | None = None,
    **options: object,
) -> Network:
    """Compile a neural network for this machine.

    Args:
        graph: What :func:`load` takes, or IR text or a Module of several functions: these are
            compiled for one state, and the network has each by its name, ``net["train"]``.
        backend: ``"cpu"``, ``"interpreter"``, the options of a backend such as
            ``glow_nb.Cpu(winograd="off")``, or a backend of your own.
        threads: Cores that share the work of one run; all that are available by default.
        shapes: Sizes of symbolic dimensions by name, ``{"batch": 8}``, or whole shapes by input
            name. What is bound nowhere stays open: the network is compiled for the sizes of the
            arrays that it is fed, each set of sizes once; see :class:`glow_nb.DynamicNetwork`. A
            graph has fixed sizes, so no pass runs before they are known: checked are the operators
            with their operands and attributes, and that the pipelines name passes and options.
        constants: Inputs of an ONNX model that are fixed to these arrays, by name, and are no
            inputs of the network: needed where a shape is computed from their numbers. Initializers
            that the model lists as inputs, too, get these numbers in place of their own; without
            that they are constants, which feeds may replace, see :attr:`glow_nb.Network.defaults`.
        max_variants: For how many sets of sizes a network with open sizes is kept compiled. Those
            used least recently are dropped; a run that is in progress ends as it should.
        pipeline: Graph passes, run before and after lowering. Behind them the backend runs its own,
            whatever *pipeline* is; :attr:`glow_nb.Network.pipeline` shows all that ran.
        program_pipeline: Instruction passes, run before allocation; those of the backend by
            default, which are :data:`glow_nb.INSTRUCTIONS` for those that come with glow_nb.
        without: Names of passes that are left out of all of these, wherever they stand, to see what
            they do: ``without=("fold_constants",)``. A pass without which the backend cannot run
            networks is refused; the error says why.
        scheduler: Orders nodes, and the instructions made of them, in place of the compiler's own.
            It is given a :class:`glow_nb.scheduling.steps.Steps` (what each step reads, writes and
            must come behind) and returns the numbers of the steps in their new order, which is
            checked.
        allocator: Places activations in the arena, in place of the compiler's own. It is given a
            sequence of :class:`glow_nb.llir.allocate.LiveRange` and returns an offset in bytes for
            each, a multiple of 64. That no two overlap is checked.
        observer: Called after every step, in order; see :mod:`glow_nb.observers`.
        state: What to keep states in: give that of another network, ``net.state``, and both work on
            the same ones. States that it does not hold yet are added. By default it is a new one.
        options: Options of the backend, short for an object of them: ``tune=True`` for
            ``backend=glow_nb.Cpu(tune=True)``. Backends that do not have an option ignore it. The
            error about an argument of another runtime says what is meant here.

    Returns:
        A network whose ``run`` takes and gives arrays.

    Raises:
        ModelError, UnsupportedError, ParseError: As :func:`load`.
        OptionError: An argument has no meaning.
        PassError: A pass failed; names it and those before it.
        CompileError: No machine code could be made.
        StateError: *state* holds one of the name of another type.
        MemoryLimitError: A run needs more memory than this process may have.
    """
    known = (*list(inspect.signature(compile).parameters)[:-1], *option_names())
    refuse_arguments("compile", options.keys() - known, known)
    cores = as_threads(threads)
    if observer is not None:
        check_observer(observer)
    limit = whole_number("max_variants", max_variants, 1)
    if state is not None and not isinstance(state, StateStore):
        raise OptionError(f"state={described(state)}: give the state of another network, net.state")
    stopwatch = Stopwatch()
    chosen = backend_named(backend, threads=cores, options=options)
    stopwatch.lap("backend")
    bound, fixed = as_shapes(shapes) or {}, as_constants(constants)
    order = partial(
        compiler.order_for,
        pipeline=pipeline,
        program_pipeline=program_pipeline,
        without=without,
        scheduler=scheduler,
        allocator=allocator,
    )
    order(chosen)  # which checks all of it, before sizes are known
    build = _Build(chosen, cores, order, observer, state)
    work = f"compiling {_called(graph)}"
    with shown(work):
        with within_memory("import"):
            source = _source(graph)
            loaded = _imported(source, bound, fixed)
        stopwatch.lap("import")
        if not isinstance(loaded, Function | Module | Program):
            return _open_network(loaded, build, limit, work)
        for step in ("import", "backend"):
            tell(observer, PassRun(step, loaded, loaded, stopwatch.seconds[step]))
        if isinstance(loaded, Module):
            return _compile_module(loaded, build)
        if isinstance(loaded, Program):
            order(chosen).of(loaded).whole.checked(without)  # no passes run on a program
        open_network = partial(_open_network, build=build, limit=limit, work=work)
        return build(loaded, defaults=_defaults(source, bound, fixed, open_network))


def _called(graph: Graph) -> str:
    """Return what progress calls *graph*."""
    if isinstance(graph, str | os.PathLike) and not is_ir_text(graph):
        return format_name(as_path(graph).name)
    return format_name(graph.name) if isinstance(graph, Function | Program) else "the model"


@dataclass(frozen=True)
class _Build:
    """How :func:`compile` makes a network of each function or program of one model."""

    backend: Backend
    threads: int
    order: Callable[[Backend], compiler.Order]
    observer: Observer | None
    state: StateStore | None

    def for_variants(self) -> _Build:
        """Return what makes several networks of one model, which share their weights."""
        if not isinstance(self.backend, VariantBackend):
            return self
        with compiler.code_of(self.backend, "for_variants"):
            return replace(self, backend=self.backend.for_variants())

    @within_memory("compile")
    def __call__(
        self, known: Function | Program, sizes: str = "", defaults: Defaults[Network] | None = None
    ) -> CompiledNetwork:
        """Compile *known*, to run on the state if there is one."""
        if self.state is not None:
            self.state.add(known.state)
        state = StateStore(known.state) if self.state is None else self.state
        order = self.order(self.backend)
        if isinstance(known, Program):
            order = order.of(known)
            made = compiler.compile_program(
                known, self.backend, threads=self.threads, order=order, observer=self.observer
            )
        else:
            made = compiler.compile_function(
                known, self.backend, threads=self.threads, order=order, observer=self.observer
            )
        state.add(made.program.state)  # a pass may have brought some
        observed("free_memory", _return_freed_memory, made.program, self.observer)
        finish(self.observer)
        levels = Levels(made.function, made.program, order.whole)
        return CompiledNetwork(
            Border.of(made.program),
            made.executable,
            lambda: levels,
            self.threads,
            state=state,
            sizes=sizes,
            defaults=defaults,
        )


def _open_network(model: SymbolicModel, build: _Build, limit: int, work: str) -> DynamicNetwork:
    """Return *model* as a network that is compiled for the sizes that come; *work* is its name."""
    build, observer = build.for_variants(), build.observer

    def build_for(known: Shapes, constants: Constants) -> CompiledNetwork:
        sizes = describe_sizes(model, known)
        with shown(f"{work} for {sizes}"):
            began = time.perf_counter()
            function = model.function(known, constants)
            tell(observer, PassRun("import", function, function, time.perf_counter() - began))
            return build(function, sizes)

    # An observer sees the steps of one compilation after those of another.
    in_turn = observer is not None
    pipeline = build.order(build.backend).whole
    return DynamicNetwork(model, build_for, max_variants=limit, in_turn=in_turn, pipeline=pipeline)


def _defaults(
    source: Function | Module | Program | Model,
    shapes: Shapes,
    constants: Constants,
    open_network: Callable[[SymbolicModel], DynamicNetwork],
) -> Defaults[Network] | None:
    """Return the inputs of a model that are left at their defaults; None if it has none."""
    if isinstance(source, Function | Module | Program):
        return None
    from glow_nb.formats.onnx.importer import SymbolicModel, defaults_of, snapshot

    types = defaults_of(source, shapes, constants)
    if not types:
        return None
    kept, fixed = snapshot(source), {name: array.copy() for name, array in constants.items()}

    def opened() -> DynamicNetwork:
        with within_memory("import"):
            return open_network(SymbolicModel(kept, shapes, fixed))

    return Defaults(types, opened)


def _compile_module(module: Module, build: _Build) -> ModuleNetwork:
    """Compile the functions of *module* one after the other, for one state."""
    names = [function.name for function in module.functions]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated or not names:
        problem = f"several functions are called {repeated}" if names else "it has no function"
        raise OptionError(f"{module!r}: {problem}; give each function a name of its own")
    state = StateStore(module.state) if build.state is None else build.state
    build = replace(build.for_variants(), state=state)
    networks = {function.name: build(function) for function in module.functions}
    return ModuleNetwork(networks, state, build.threads)


def as_threads(threads: int | None) -> int:
    """Return how many cores share the work; raise OptionError if *threads* is no number.

    More of them than there are cores get a :class:`GlowWarning`.
    """
    available = available_cores()
    if threads is None:
        return available
    cores = whole_number("threads", threads, 1, MOST_THREADS)
    if cores > available:
        warnings.warn(
            f"threads={cores}: this process may use {available} cores, and no more "
            f"threads work at the same time; threads={available} is as fast",
            GlowWarning,
            stacklevel=3,
        )
    return cores


def _return_freed_memory(program: Program) -> Program:
    """Be the last step of a compilation, which frees much and changes nothing."""
    return_freed_memory()
    return program
