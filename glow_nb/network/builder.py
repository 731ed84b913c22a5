"""How networks are made of the functions and programs of one model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from glow_nb.backends import Backend, ModuleBackend, VariantBackend, backend_named
from glow_nb.base.arguments import Constants, Shapes
from glow_nb.base.errors import GlowError, OptionError
from glow_nb.base.finite import FiniteCheck
from glow_nb.base.log import INFO, log
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.passes import Observer, PassRun, finish, observed, tell
from glow_nb.base.precision import FULL
from glow_nb.base.progress import shown
from glow_nb.base.size_ranges import SizeRanges, described_ranges
from glow_nb.compiler import pipelines
from glow_nb.hlir.graph import Function
from glow_nb.hlir.kept_names import require_kept
from glow_nb.hlir.stages import decided_sizes
from glow_nb.llir.program import Program
from glow_nb.network import compilation as compiler
from glow_nb.network.defaults import Defaults
from glow_nb.network.dynamic import DynamicNetwork
from glow_nb.network.excluded import KnownCheck
from glow_nb.network.heard_precision import heard
from glow_nb.network.levels import Border, Levels
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.open_function import OpenFunction
from glow_nb.network.open_model import OpenModel
from glow_nb.network.rebuilding import Rebuilding, WatchedNetwork
from glow_nb.network.sized_model import (
    CompileFor,
    CompileOpen,
    Example,
    SizedModel,
    describe_sizes,
)
from glow_nb.network.staging import compile_stages, rebuilding_of
from glow_nb.network.watched_model import (
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


@dataclass(frozen=True)
class Build:
    """How :func:`compile` makes a network of each function or program of one model."""

    backend: Backend
    threads: int
    order: Callable[[Backend], compiler.Order]
    observer: Observer | None
    state: StateStore | None
    check: KnownCheck | None = None
    seconds: float = 0.0
    has_layers_to_keep: bool = True

    def checking(self, check: FiniteCheck | None, source: Source) -> Build:
        """Return what makes networks of *source* that *check* their runs."""
        return self if check is None else replace(self, check=KnownCheck.of(check, source))

    def require_known(self, *networks: CompiledNetwork) -> CompiledNetwork:
        """Return the first of all *networks* of a model, which have all that a check excludes."""
        if self.check is not None:
            self.check.require_known(networks)
        return networks[0]

    def for_variants(self) -> Build:
        """Return what makes several networks of one model, which share their weights."""
        if not isinstance(self.backend, VariantBackend):
            return self
        with compiler.code_of(self.backend, "for_variants"):
            return replace(self, backend=self.backend.for_variants())

    def for_functions(self, functions: Sequence[Function]) -> Build:
        """Return what makes the networks of all *functions* of a module, which share weights."""
        if not isinstance(self.backend, ModuleBackend):
            return self.for_variants()._of_several(functions)
        passes = self.order(self.backend).graph
        with compiler.code_of(self.backend, "for_functions"):
            backend = self.backend.for_functions(functions, passes)
        return replace(self, backend=backend)._of_several(functions)

    def _of_several(self, functions: Sequence[Function]) -> Build:
        """Return what makes networks of parts of a model, of which each may lack layers to keep."""
        require_kept(functions, self.backend.keep)
        return replace(self, has_layers_to_keep=False)

    @within_memory("compile")
    def __call__(
        self,
        known: Function | Program,
        model: WatchedModel,
        sizes: str = "",
        defaults: Defaults[Network] | None = None,
    ) -> CompiledNetwork:
        """Compile *known*, to run on the state if there is one; *model* is where it is from."""
        if isinstance(known, Program):
            _require_full_precision(self.backend)
        elif self.has_layers_to_keep:
            require_kept([known], self.backend.keep)
        if isinstance(known, Function) and decided_sizes(known):
            return self._in_stages(known, model, sizes, defaults)
        began = time.perf_counter()
        if self.state is not None:
            self.state.add(known.state)
        state = StateStore(known.state) if self.state is None else self.state
        order = self.order(self.backend)
        hearing = heard(self.backend, self.observer)
        if isinstance(known, Program):
            order = order.of(known)
            made = compiler.compile_program(
                known, self.backend, threads=self.threads, order=order, observer=self.observer
            )
        else:
            made = compiler.compile_function(
                known,
                self.backend,
                threads=self.threads,
                order=order,
                observer=hearing or self.observer,
            )
        state.add(made.program.state)  # a pass may have brought some
        observed("free_memory", _return_freed_memory, made.program, self.observer)
        finish(self.observer)
        seconds, kernels, name = time.perf_counter() - began, len(made.program.work), known.name
        where = f" for {sizes}" if sizes else ""
        log(INFO, "network %r%s: compiled %d kernels in %.2f s", name, where, kernels, seconds)
        precision = None if hearing is None else hearing.report
        levels = Levels(made.function, made.program, order.whole, precision)
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
                model.nodes,
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
        """Compile *function*, with data-dependent sizes: each stage as a network of its own."""
        build = replace(self.for_variants()._of_several([function]), state=None)

        def compile_stage(stage: Function) -> Network:
            return _open_stage(stage, build) if stage.sizes else build(stage, Gone())

        return compile_stages(
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


def _require_full_precision(backend: Backend) -> None:
    if backend.precision != FULL:
        raise OptionError(
            f"precision={backend.precision!r}: the model is a program, whose text "
            "fixes the precision; give the model that it was made from"
        )


def _value_names(model: WatchedModel, levels: Levels) -> list[str]:
    names = model.value_names()
    return value_names(levels.function or levels.program) if names is None else names


def watched_in_levels(
    levels: Levels, threads: int, names: Sequence[str], state: StateStore
) -> WatchedNetwork[CompiledNetwork]:
    """Return a network of the cpu backend that has the values *names* of *levels* as outputs."""
    backend = backend_named("cpu", threads=threads, options={})
    return Build(backend, threads, compiler.order_for, None, state).from_levels(levels, names)


def _open_stage(stage: Function, build: Build) -> DynamicNetwork:
    """Return the network of a stage that takes sizes from others, compiled for all of them."""
    model, whole, work = OpenFunction(stage), build.order(build.backend).whole, "compiling a stage"
    network = DynamicNetwork(
        model,
        for_sizes(model, build, work),
        for_all_sizes(OpenModel(model, SizeRanges()), build, work),
        threads=build.threads,
        in_turn=build.observer is not None,
        pipeline=lambda: whole,
    )
    with suppress(GlowError):  # where kernels need numbers, it is compiled for those that come
        network.compile_first()
    return network


def for_all_sizes(opened: OpenModel, build: Build, work: str) -> CompileOpen:
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


def for_sizes(model: SizedModel, build: Build, work: str) -> CompileFor:
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


def _return_freed_memory(program: Program) -> Program:
    """Be the last step of a compilation, which frees much and changes nothing."""
    return_freed_memory()
    return program
