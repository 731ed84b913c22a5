"""A network whose runs decide sizes: one network for each stage, which run one after the other.

A count that a stage computes is a size of all that follows it. The next stage is a network with
this size open, so that one program serves all counts, and its memory is that of the count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from glow_nb.base.destinations import destinations, refuse_overlap
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.feeds import Feeds, name_feeds
from glow_nb.base.override import override
from glow_nb.base.size import symbols_of
from glow_nb.base.types import Array
from glow_nb.compiler.pipelines import Pipeline
from glow_nb.hlir.graph import Function
from glow_nb.hlir.stages import (
    Stage,
    StagedRun,
    decided_sizes,
    fed_sizes,
    names_of,
    stages_of,
)
from glow_nb.network.defaults import Defaults
from glow_nb.network.levels import Border, Levels
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.rebuilding import Rebuilding, WatchedNetwork
from glow_nb.network.runner import BoundRun
from glow_nb.network.watched_model import WatchedModel, value_names, with_values
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.kernel_report import KernelReport
    from glow_nb.base.size import Guard
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport
    from glow_nb.network.profile import Profile

CompileStage = Callable[[Function], Network]
"""Compiles a stage, whose open sizes its inputs tell."""


class StagedExecutable:
    """Networks that run in turn.

    Attributes:
        networks: That of each stage, in order.
    """

    def __init__(
        self, function: Function, stages: Sequence[Stage], networks: Sequence[Network]
    ) -> None:
        """Run the *networks* of the *stages* of *function*."""
        self._function = function
        self._names = [value.name for value in function.inputs]
        self._stages, self.networks = stages, tuple(networks)
        self._staged = StagedRun(
            function, stages, lambda number, feeds: self.networks[number].run(feeds)
        )

    @property
    def kernels(self) -> tuple[KernelReport, ...]:
        """What was generated, stage by stage."""
        return tuple(kernel for network in self.networks for kernel in network.kernels)

    @property
    def source(self) -> str:
        """The generated source, stage by stage."""
        return "\n".join(network.source for network in self.networks)

    @property
    def constant_bytes(self) -> int:
        """Memory that holds the weights."""
        return sum(network.memory.constant_bytes for network in self.networks)

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one run: that of the stage that needs most."""
        return max(network.memory.scratch_bytes for network in self.networks)

    @property
    def native(self) -> NoReturn:
        """Refuse: there is no one program to be written."""
        raise UnsupportedError(
            f"network {self._function.name!r}: its runs decide sizes "
            f"({names_of(decided_sizes(self._function))}), and it has {len(self.networks)} "
            "programs, which are not written to folders; compile it anew"
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs* in the function's order; return its outputs in order."""
        return list(self._staged(dict(zip(self._names, inputs, strict=True))).values())

    def fed(self, inputs: Sequence[Array]) -> list[tuple[Network, dict[str, Array]]]:
        """Return each network with what it is fed in a run on *inputs*."""
        found: list[tuple[Network, dict[str, Array]]] = []

        def run(number: int, feeds: dict[str, Array]) -> Mapping[str, Array]:
            found.append((self.networks[number], feeds))
            return self.networks[number].run(feeds)

        StagedRun(self._function, self._stages, run)(dict(zip(self._names, inputs, strict=True)))
        return found


class StagedNetwork(CompiledNetwork):
    """A network whose runs decide sizes.

    Attributes:
        stages: The network of each stage: its program, memory, kernels and source.
    """

    def __init__(
        self,
        function: Function,
        compile_stage: CompileStage,
        pipeline: Pipeline,
        threads: int,
        *,
        rebuilding: Rebuilding[CompiledNetwork],
        sizes: str = "",
        defaults: Defaults[Network] | None = None,
    ) -> None:
        """Compile each stage of *function*; the rest is as for any network."""
        stages = stages_of(function)
        networks = [compile_stage(stage.function) for stage in stages]
        executable = StagedExecutable(function, stages, networks)
        super().__init__(
            Border.of_function(function),
            executable,
            lambda: Levels(function, networks[-1].program, pipeline),
            threads,
            state=StateStore(),
            rebuilding=rebuilding,
            sizes=sizes,
            defaults=defaults,
        )
        self.stages: tuple[Network, ...] = executable.networks
        self._stages = executable
        fed = set(fed_sizes(function))
        self._guards = tuple(guard for guard in function.guards if fed.issuperset(guard.symbols))
        decided = decided_sizes(function)
        self._decided = names_of(decided)
        outputs = self._border.outputs.items()
        self._decided_outputs = [n for n, t in outputs if set(symbols_of(*t.shape)) & {*decided}]

    @property
    @override
    def guards(self) -> tuple[Guard, ...]:
        """The comparisons of sizes that are fed for which the model was imported."""
        return self._guards

    @override
    def run_into(self, inputs: Feeds, into: object) -> dict[str, Array]:
        if into is None:
            return self._runner.run(inputs)
        border = self._border.at(self.sizes_of(inputs))
        given = destinations(into, border.outputs, self.inputs)
        refuse_overlap(given, name_feeds(self.inputs.keys(), inputs))
        results = self._runner.run(inputs)
        for name, array in given.items():
            array[...] = results[name]
            results[name] = array
        return results

    @override
    def bind(self, inputs: Feeds, outputs: Mapping[str, Array] | None = None) -> BoundRun:
        if self._decided_outputs:
            raise UnsupportedError(
                f"bind: the runs of network {self.name!r} decide sizes ({self._decided}), and with "
                f"them how large {', '.join(self._decided_outputs)} is; call run"
            )
        return super().bind(inputs, outputs)

    @property
    @override
    def program(self) -> Program:
        self._refuse("program")

    @property
    @override
    def memory(self) -> MemoryReport:
        self._refuse("memory")

    @override
    def profile(self, inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        from glow_nb.network.profiling import profile_in_turn

        if self._defaults.are_in(inputs):
            return self._defaults.network().profile(inputs, runs=runs, limits=limits)
        fed = self._stages.fed(self._runner.arrays(inputs))
        return profile_in_turn(self.name, fed, runs=runs, limits=limits)

    def _refuse(self, what: str) -> NoReturn:
        place = "variants[0].stages" if self.sizes else "stages"  # of what a user has
        raise UnsupportedError(
            f"network {self.name!r}: its runs decide sizes ({self._decided}), and it has a program "
            f"for each of {len(self.stages)} stages; see net.{place}[0].{what}"
        )

    @override
    def _title(self) -> str:
        return f"StagedNetwork {self.name}: {len(self.stages)} stages"

    @override
    def __repr__(self) -> str:
        return f"<StagedNetwork {self.name} {self._show_types()}, {len(self.stages)} stages>"


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
    )
