"""The public functions: what a user calls, in terms of the compiler's steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from glow_nb.backends import (
    Backend,
    ModuleBackend,
    VariantBackend,
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
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.finite import FiniteCheck
from glow_nb.base.habits import refuse_arguments
from glow_nb.base.log import INFO, log
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.passes import Observer, PassRun, check_observer, finish, observed, tell
from glow_nb.base.progress import shown
from glow_nb.base.schema import listed
from glow_nb.base.size_ranges import SizeRanges, described_ranges
from glow_nb.base.text import format_name
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.hlir.module import Module
from glow_nb.hlir.stages import decided_sizes
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.network.cache_memory import CacheMemory
from glow_nb.network.cache_names import refuse_caches
from glow_nb.network.defaults import Defaults
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.excluded import KnownCheck
from glow_nb.network.growing import GrowingNetwork
from glow_nb.network.growing_model import GrowingModel
from glow_nb.network.levels import Border, Levels
from glow_nb.network.loading import Graph, imported, source_of
from glow_nb.network.module_network import ModuleNetwork
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.open_model import OpenModel, sized_model
from glow_nb.network.rebuilding import Rebuilding, WatchedNetwork
from glow_nb.network.request import CompileRequest
from glow_nb.network.sized_model import (
    CompileFor,
    CompileOpen,
    Example,
    KeptSizes,
    SizedModel,
    describe_sizes,
)
from glow_nb.network.staged import StagedNetwork, rebuilding_of
from glow_nb.network.text_files import is_ir_text
from glow_nb.network.watched_model import (
    GivenModel,
    Gone,
    SizedModelFor,
    Source,
    WatchedModel,
    value_names,
    with_values_of_passes,
)
from glow_nb.system.freed_memory import return_freed_memory
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.specialized import Specialized
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
    return model, _for_sizes(model, build, work), _for_all_sizes(opened, build, work)


def pipeline_of(request: CompileRequest) -> Pipeline:
    """Return all that a graph of *request* is compiled by."""
    build = _build_for(request)
    return build.order(build.backend).whole


def _work(request: CompileRequest) -> str:
    """Return what progress calls the work on *request*."""
    return f"compiling {_called(request.graph)}"


def _build_for(request: CompileRequest) -> _Build:
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
    return _Build(backend, request.threads, order, request.observer, state, seconds=seconds)


def _compile(request: CompileRequest, build: _Build, work: str, kept: KeptSizes | None) -> Network:
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
            network = _open_network(sized, request, build, kept, _for_all_sizes(given, build, work))
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
            build.order(build.backend).of(loaded).whole.checked(request.without)
        opened = partial(_open_network, request=request, build=build, kept=kept)
        defaults = _defaults(source, request.shapes, request.constants, opened)
        return build.require_known(build(loaded, model_of(), defaults=defaults))


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
    check: KnownCheck | None = None
    seconds: float = 0.0

    def checking(self, check: FiniteCheck | None, source: Source) -> _Build:
        """Return what makes networks of *source* that *check* their runs."""
        return self if check is None else replace(self, check=KnownCheck.of(check, source))

    def require_known(self, *networks: CompiledNetwork) -> CompiledNetwork:
        """Return the first of all *networks* of a model, which have all that a check excludes."""
        if self.check is not None:
            self.check.require_known(networks)
        return networks[0]

    def for_variants(self) -> _Build:
        """Return what makes several networks of one model, which share their weights."""
        if not isinstance(self.backend, VariantBackend):
            return self
        with compiler.code_of(self.backend, "for_variants"):
            return replace(self, backend=self.backend.for_variants())

    def for_functions(self, functions: Sequence[Function]) -> _Build:
        """Return what makes the networks of all *functions* of a module, which share weights."""
        if not isinstance(self.backend, ModuleBackend):
            return self.for_variants()
        passes = self.order(self.backend).graph
        with compiler.code_of(self.backend, "for_functions"):
            return replace(self, backend=self.backend.for_functions(functions, passes))

    @within_memory("compile")
    def __call__(
        self,
        known: Function | Program,
        model: WatchedModel,
        sizes: str = "",
        defaults: Defaults[Network] | None = None,
    ) -> CompiledNetwork:
        """Compile *known*, to run on the state if there is one; *model* is where it is from."""
        if isinstance(known, Function) and decided_sizes(known):
            return self._in_stages(known, model, sizes, defaults)
        began = time.perf_counter()
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
        seconds, kernels, name = time.perf_counter() - began, len(made.program.work), known.name
        where = f" for {sizes}" if sizes else ""
        log(INFO, "network %r%s: compiled %d kernels in %.2f s", name, where, kernels, seconds)
        levels = Levels(made.function, made.program, order.whole)
        return CompiledNetwork(
            Border.of(made.program),
            made.executable,
            lambda: levels,
            self.threads,
            state=state,
            rebuilding=Rebuilding(
                partial(self._watched, model, lambda: levels),
                partial(_value_names, model, levels),
                partial(compiler.make_executable, backend=self.backend, threads=self.threads),
                model.read,
            ),
            check=self.check.check if self.check else None,
            sizes=sizes,
            defaults=defaults,
        )

    def _in_stages(
        self,
        function: Function,
        model: WatchedModel,
        sizes: str,
        defaults: Defaults[Network] | None,
    ) -> CompiledNetwork:
        """Compile *function*, whose runs decide sizes: each stage as a network of its own."""
        build = replace(self.for_variants(), state=None)

        def compile_stage(stage: Function) -> Network:
            return _open_stage(stage, build) if stage.sizes else build(stage, Gone())

        return StagedNetwork(
            function,
            compile_stage,
            self.order(self.backend).whole,
            self.threads,
            rebuilding=rebuilding_of(function, model, lambda made: self(made, Gone())),
            sizes=sizes,
            defaults=defaults,
        )

    def _watched(
        self,
        model: WatchedModel,
        levels: Callable[[], Levels],
        names: Sequence[str],
        state: StateStore,
    ) -> WatchedNetwork[CompiledNetwork]:
        """Compile *model*, or its *levels* where it is gone, with the values *names* as outputs."""
        build = replace(self, observer=None, state=state)
        with shown("compiling the network for the values that are watched"):
            with within_memory("import"):
                found = model.with_values(names)
            if found is None:
                return build.from_levels(levels(), names)
            return WatchedNetwork(build(found[0], Gone()), found[1])

    def from_levels(self, levels: Levels, names: Sequence[str]) -> WatchedNetwork[CompiledNetwork]:
        """Compile what the passes made of a model with the values *names* as outputs."""
        ir, outputs = with_values_of_passes(levels.function or levels.program, names)
        order = self.order(self.backend)
        lowered = replace(self, order=lambda _: replace(order, graph=pipelines.Pipeline()))
        return WatchedNetwork(lowered(ir, Gone()), outputs)


def _value_names(model: WatchedModel, levels: Levels) -> list[str]:
    names = model.value_names()
    return value_names(levels.function or levels.program) if names is None else names


def watched_in_levels(
    levels: Levels, threads: int, names: Sequence[str], state: StateStore
) -> WatchedNetwork[CompiledNetwork]:
    """Return a network of the cpu backend that has the values *names* of *levels* as outputs."""
    backend = backend_named("cpu", threads=threads, options={})
    return _Build(backend, threads, compiler.order_for, None, state).from_levels(levels, names)


def _open_network(
    model: SizedModel,
    request: CompileRequest,
    build: _Build,
    kept: KeptSizes | None = None,
    compile_open: CompileOpen | None = None,
) -> DynamicNetwork:
    """Return *model* as a network that is compiled for the sizes that come, or for all sizes."""
    whole = build.order(build.backend).whole
    return DynamicNetwork(
        model,
        _for_sizes(model, build, _work(request)),
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
    model: SizedModel, request: CompileRequest, build: _Build, work: str
) -> GrowingNetwork:
    """Return *model* as a network that keeps the caches of *request*."""
    given = GrowingModel(model, request.ranges or SizeRanges(), request.caches)
    network, specialized = _for_all_sizes(given, build, work)({})
    return GrowingNetwork(network, specialized, CacheMemory(given.grown))


def _open_stage(stage: Function, build: _Build) -> DynamicNetwork:
    """Return the network of a stage that takes sizes from others, compiled for all of them."""
    model, whole, work = OpenFunction(stage), build.order(build.backend).whole, "compiling a stage"
    network = DynamicNetwork(
        model,
        _for_sizes(model, build, work),
        _for_all_sizes(OpenModel(model, SizeRanges()), build, work),
        threads=build.threads,
        in_turn=build.observer is not None,
        pipeline=lambda: whole,
    )
    with suppress(GlowError):  # where kernels need numbers, it is compiled for those that come
        network.compile_first()
    return network


def _for_all_sizes(opened: OpenModel, build: _Build, work: str) -> CompileOpen:
    """Return what compiles *opened* for all sizes."""

    def compile_open(example: Example) -> tuple[CompiledNetwork, Sequence[Specialized]]:
        with shown(f"{work} for all sizes"):
            began = time.perf_counter()
            planned = opened.planned_for(example)
            with within_memory("import"):
                function, specialized = planned.function()
            seconds = time.perf_counter() - began
            tell(build.observer, PassRun("import", function, function, seconds))
            sizes = described_ranges(function.sizes)
            return build.require_known(build(function, planned, sizes)), specialized

    return compile_open


def _for_sizes(model: SizedModel, build: _Build, work: str) -> CompileFor:
    """Return what compiles *model* for the sizes that come."""

    def build_for(known: Shapes, constants: Constants) -> CompiledNetwork:
        sizes = describe_sizes(model, known)
        with shown(f"{work} for {sizes}"):
            began = time.perf_counter()
            function = model.function(known, constants)
            seconds = time.perf_counter() - began
            tell(build.observer, PassRun("import", function, function, seconds))
            made = build(function, SizedModelFor(model, known, constants), sizes)
            return build.require_known(made)

    return build_for


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


def _compile_module(module: Module, build: _Build, models: Iterable[WatchedModel]) -> ModuleNetwork:
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


def _return_freed_memory(program: Program) -> Program:
    """Be the last step of a compilation, which frees much and changes nothing."""
    return_freed_memory()
    return program
