"""The public functions: what a user calls, in terms of the compiler's steps."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from glow_nb.backends import (
    Backend,
    BackendLike,
    ModuleBackend,
    VariantBackend,
    backend_named,
    option_names,
)
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
from glow_nb.base.errors import GlowWarning, OptionError
from glow_nb.base.habits import refuse_arguments
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.passes import Observer, PassRun, check_observer, finish, observed, tell
from glow_nb.base.progress import shown
from glow_nb.base.steps import Entries
from glow_nb.base.stopwatch import Stopwatch
from glow_nb.base.text import format_name
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir.allocate import Allocator
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.network.defaults import Defaults
from glow_nb.network.dynamic import DynamicNetwork, describe_sizes
from glow_nb.network.files import is_ir_text
from glow_nb.network.levels import Border, Levels
from glow_nb.network.loading import Graph, imported, source_of
from glow_nb.network.module_network import ModuleNetwork
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.variants import MAX_VARIANTS
from glow_nb.scheduling.ordering import Scheduler
from glow_nb.system.cores import available_cores
from glow_nb.system.freed_memory import return_freed_memory
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.formats.onnx.importer import Model, SymbolicModel


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
            source = source_of(graph)
            loaded = imported(source, bound, fixed)
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

    @contextmanager
    def for_functions(self) -> Iterator[_Build]:
        """Yield what makes the networks of all functions of a module, which share weights."""
        if not isinstance(self.backend, ModuleBackend):
            yield self.for_variants()
            return
        with compiler.code_of(self.backend, "for_functions"), self.backend.for_functions() as own:
            yield replace(self, backend=own)

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
    with build.for_functions() as each:
        each = replace(each, state=state)
        networks = {function.name: each(function) for function in module.functions}
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
