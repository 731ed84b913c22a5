"""The public functions: what a user calls, in terms of the compiler's steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from glow_nb.backends import (
    backend_named,
    option_names,
)
from glow_nb.base.arguments import (
    Constants,
    Shapes,
    as_path,
    described,
    whole_number,
)
from glow_nb.base.errors import OptionError
from glow_nb.base.habits import refuse_arguments
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.passes import PassRun, check_observer, tell
from glow_nb.base.progress import shown
from glow_nb.base.schema import listed
from glow_nb.base.size_ranges import SizeRanges
from glow_nb.base.text import format_name
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.network.builder import Build, for_all_sizes, for_sizes
from glow_nb.network.cache_memory import CacheMemory
from glow_nb.network.cache_names import refuse_caches
from glow_nb.network.defaults import Defaults
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.growing import GrowingNetwork
from glow_nb.network.growing_model import GrowingModel
from glow_nb.network.loading import Graph, imported, source_of
from glow_nb.network.module_network import ModuleNetwork
from glow_nb.network.network import Network
from glow_nb.network.open_model import OpenModel, sized_model
from glow_nb.network.request import CompileRequest
from glow_nb.network.sized_model import (
    CompileFor,
    CompileOpen,
    KeptSizes,
    SizedModel,
)
from glow_nb.network.text_files import is_ir_text
from glow_nb.network.watched_model import (
    GivenModel,
    WatchedModel,
)
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.compiler.pipelines import Pipeline
    from glow_nb.formats.onnx.importer import Model, SymbolicModel


def compile_request(request: CompileRequest, kept: KeptSizes | None = None) -> Network:
    """Return the network of *request*, compiled now; :func:`glow_nb.compile` says what it is.

    If it leaves sizes open, those that were compiled before are looked for among the *kept* ones.
    """
    return _compile(request, _build_for(request), _work(request), kept)


def open_defaults(request: CompileRequest, kept: KeptSizes | None = None) -> Network:
    """Return a network that takes feeds for inputs which that of *request* leaves at defaults."""
    build = _build_for(request)
    with within_memory("import"):
        source = source_of(request.graph)
    build = build.checking(request.check_finite, source)
    opened = partial(_open_network, request=request, build=build, kept=kept)
    defaults = _defaults(source, request.shapes, request.constants, opened)
    assert defaults is not None
    return defaults.network()


def open_model(request: CompileRequest) -> tuple[SizedModel, CompileFor, CompileOpen]:
    """Return the model of *request*, which leaves sizes open, and what compiles it: for some, all.

    That is what :class:`DynamicNetwork` takes.
    """
    build = _build_for(request)
    with within_memory("import"):
        source = source_of(request.graph)
        model = sized_model(imported(source, request.shapes, request.constants))
    assert model is not None
    build = build.checking(request.check_finite, source).for_variants()
    work, opened = _work(request), OpenModel(model, request.ranges or SizeRanges())
    return model, for_sizes(model, build, work), for_all_sizes(opened, build, work)


def pipeline_of(request: CompileRequest) -> Pipeline:
    """Return all that a graph of *request* is compiled by."""
    build = _build_for(request)
    return build.order(build.backend).whole


def _work(request: CompileRequest) -> str:
    """Return what progress calls the work on *request*."""
    return f"compiling {_called(request.graph)}"


def _build_for(request: CompileRequest) -> Build:
    """Return how networks of *request* are made; raise OptionError if an argument is wrong."""
    named = (name for name in request._fields if name not in ("ranges", "each", "options"))
    known = (*named, "sizes", "hints", *option_names())
    refuse_arguments("compile", request.options.keys() - known, known)
    if request.observer is not None:
        check_observer(request.observer)
    whole_number("max_variants", request.max_variants, 1)
    state = request.state
    if state is not None and not isinstance(state, StateStore):
        raise OptionError(f"state={described(state)}: give the state of another network, net.state")
    began = time.perf_counter()
    backend = backend_named(request.backend, threads=request.threads, options=request.options)
    seconds = time.perf_counter() - began
    order = partial(
        compiler.order_for,
        pipeline=pipelines.INFERENCE if request.pipeline is None else request.pipeline,
        program_pipeline=request.program_pipeline,
        without=request.without,
        scheduler=request.scheduler,
        allocator=request.allocator,
    )
    order(backend)  # which checks all of it, before sizes are known
    return Build(backend, request.threads, order, request.observer, state, seconds=seconds)


def _compile(request: CompileRequest, build: Build, work: str, kept: KeptSizes | None) -> Network:
    observer = request.observer
    with shown(work):
        began = time.perf_counter()
        with within_memory("import"):
            source = source_of(request.graph)
            loaded = imported(source, request.shapes, request.constants)
        seconds = time.perf_counter() - began
        build = build.checking(request.check_finite, source)
        sized = sized_model(loaded)
        if sized is not None and isinstance(loaded, Function) and build.state is None:
            build = replace(build, state=StateStore(loaded.state))
        if sized is not None:
            build = build.for_variants()
        if sized is not None and request.caches:
            return _growing_network(sized, request, build, work)
        if sized is not None:
            given = OpenModel(sized, request.ranges or SizeRanges())
            network = _open_network(sized, request, build, kept, for_all_sizes(given, build, work))
            network.compile_now()
            return network
        assert isinstance(loaded, Function | Module | Program)
        refuse_caches(request.caches)
        if request.ranges is not None:
            parts = loaded.functions if isinstance(loaded, Module) else [loaded]
            inputs = [value for part in parts for value in part.inputs]
            request.ranges.require_fixed({value.name: value.type.shape for value in inputs})
        tell(observer, PassRun("import", loaded, loaded, seconds))
        tell(observer, PassRun("backend", loaded, loaded, build.seconds))
        model_of = partial(GivenModel, request.graph, source, request.shapes, request.constants)
        if isinstance(loaded, Module):
            models = [model_of(number=number) for number, _ in enumerate(loaded.functions)]
            return _compile_module(loaded, build, models)
        if isinstance(loaded, Program):  # no passes run on it
            _refuse_for_program(request)
            build.order(build.backend).of(loaded).whole.checked(request.without)
        opened = partial(_open_network, request=request, build=build, kept=kept)
        defaults = _defaults(source, request.shapes, request.constants, opened)
        return build.require_known(build(loaded, model_of(), defaults=defaults))


def _refuse_for_program(request: CompileRequest) -> None:
    """Raise OptionError for an argument that is without effect on a program, which is given."""
    without_effect = ("pipeline", "program_pipeline", "scheduler")
    given = {name: getattr(request, name) for name in without_effect}
    given |= {name: request.options.get(name) for name in ("plan", "cost_model")}
    for name, value in given.items():
        if value is not None:
            raise OptionError(
                f"{name}={described(value)}: the model is a program, whose instructions and plans "
                "are those of its text; leave it out, or give the model that it was made from"
            )


def _called(graph: Graph) -> str:
    """Return what progress calls *graph*."""
    if isinstance(graph, str | os.PathLike) and not is_ir_text(graph):
        return format_name(as_path(graph).name)
    return format_name(graph.name) if isinstance(graph, Function | Program) else "the model"


def _open_network(
    model: SizedModel,
    request: CompileRequest,
    build: Build,
    kept: KeptSizes | None = None,
    compile_open: CompileOpen | None = None,
) -> DynamicNetwork:
    """Return *model* as a network that is compiled for the sizes that come, or for all sizes."""
    whole = build.order(build.backend).whole
    return DynamicNetwork(
        model,
        for_sizes(model, build, _work(request)),
        None if request.each else compile_open,
        is_asked=request.ranges is not None,
        specialize_after=request.specialize_after,
        max_variants=request.max_variants,
        threads=build.threads,
        # An observer sees the steps of one compilation after those of another.
        in_turn=build.observer is not None,
        pipeline=lambda: whole,
        kept=kept,
        state=build.state,
    )


def _growing_network(
    model: SizedModel, request: CompileRequest, build: Build, work: str
) -> GrowingNetwork:
    """Return *model* as a network that keeps the caches of *request*."""
    given = GrowingModel(model, request.ranges or SizeRanges(), request.caches)
    network, specialized = for_all_sizes(given, build, work)({})
    return GrowingNetwork(network, specialized, CacheMemory(given.grown))


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


def _compile_module(module: Module, build: Build, models: Iterable[WatchedModel]) -> ModuleNetwork:
    """Compile the functions of *module* one after the other, for one state."""
    names = [function.name for function in module.functions]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated or not names:
        problem = f"several functions are called {repeated}" if names else "it has no function"
        raise OptionError(f"{module!r}: {problem}; give each function a name of its own")
    for function in module.functions:
        if function.sizes:
            opened = listed(symbol.name for symbol in function.sizes)
            raise OptionError(
                f"function {function.name!r} of {module!r}: its sizes {opened} are open, and those "
                "of a network of several functions are fixed; give them, glow_nb.load(function, "
                "shapes={...}), or compile each function on its own"
            )
    state = StateStore(module.state) if build.state is None else build.state
    build = replace(build.for_functions(module.functions), state=state)
    made = zip(module.functions, models, strict=True)
    networks = {function.name: build(function, model) for function, model in made}
    build.require_known(*networks.values())
    return ModuleNetwork(networks, state, build.threads)
