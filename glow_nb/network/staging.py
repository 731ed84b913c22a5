"""How networks with data-dependent sizes are made: each stage is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from glow_nb.base.errors import UnsupportedError
from glow_nb.compiler.pipelines import Pipeline
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import fed_sizes, stages_of
from glow_nb.llir.program import Program
from glow_nb.network.course import Course
from glow_nb.network.defaults import Defaults
from glow_nb.network.levels import Border, Levels
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.rebuilding import Rebuilding, WatchedNetwork
from glow_nb.network.staged import StagedNetwork
from glow_nb.network.watched_model import WatchedModel, value_names, with_values
from glow_nb.system.state_store import StateStore

CompileStage = Callable[[Function], Network]
"""Compiles a stage, whose open sizes its inputs tell."""


def compile_stages(
    function: Function,
    compile_stage: CompileStage,
    pipeline: Pipeline,
    threads: int,
    *,
    rebuilding: Rebuilding[CompiledNetwork],
    sizes: str = "",
    defaults: Defaults[Network] | None = None,
) -> StagedNetwork:
    """Return the network of *function*, each stage compiled; the rest is as for any network."""
    stages = stages_of(function)
    networks = [compile_stage(stage.function) for stage in stages]
    fed = set(fed_sizes(function))
    course = Course(
        Border.of_function(function),
        tuple(stage.passage for stage in stages),
        tuple(guard for guard in function.guards if fed.issuperset(guard.symbols)),
    )
    return StagedNetwork(
        course,
        networks,
        lambda: Levels(function, networks[-1].program, pipeline),
        threads,
        rebuilding=rebuilding,
        sizes=sizes,
        defaults=defaults,
    )


def rebuilding_of(
    function: Function, model: WatchedModel, compile_again: Callable[[Function], CompiledNetwork]
) -> Rebuilding[CompiledNetwork]:
    """Return what makes the network of *function*, which is of *model*, once more."""

    def watched(names: Sequence[str], _: StateStore) -> WatchedNetwork[CompiledNetwork]:
        made, outputs = model.with_values(names) or with_values(function, names)
        assert isinstance(made, Function)
        return WatchedNetwork(compile_again(made), outputs)

    def no_executable(program: Program) -> NoReturn:
        raise UnsupportedError(f"program {program.name!r}: it is one of several stages")

    return Rebuilding(
        watched,
        lambda: model.value_names() or value_names(function),
        no_executable,
        lambda: model.read() or function,
        model.nodes,
    )
