"""A network with data-dependent sizes: one network for each stage, which run one after the other.

A count that a stage computes is a size of later tensors. The next stage is a network with this size
open, so one program runs for all counts, with memory for the actual count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from glow_nb.base.destinations import destinations, refuse_overlap
from glow_nb.base.errors import UnsupportedError
from glow_nb.base.feeds import Feeds, name_feeds
from glow_nb.base.override import override
from glow_nb.base.size import symbols_of
from glow_nb.base.types import Array
from glow_nb.network.course import Course
from glow_nb.network.defaults import Defaults
from glow_nb.network.levels import MakeLevels
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.rebuilding import Rebuilding
from glow_nb.network.runner import BoundRun
from glow_nb.system.state_store import StateStore

if TYPE_CHECKING:
    from glow_nb.base.kernel_report import KernelReport
    from glow_nb.base.precision import PrecisionReport
    from glow_nb.base.size import Guard
    from glow_nb.llir.program import Program
    from glow_nb.network.memory_report import MemoryReport
    from glow_nb.network.profile import Profile


class StagedExecutable:
    """Networks that run in turn.

    Attributes:
        networks: The network of each stage, in order.
    """

    def __init__(self, course: Course, networks: Sequence[Network]) -> None:
        """Run the *networks* of the stages of *course*."""
        self._course, self.networks = course, tuple(networks)
        self._names = tuple(course.border.inputs)
        self._staged = course.run_by(lambda number, feeds: self.networks[number].run(feeds))

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
            f"network {self._course.border.name!r}: it has data-dependent sizes "
            f"({self._course.names}), and it has {len(self.networks)} programs; a bundle has one, "
            "whose caller knows all sizes before a run; net.save writes the network for Python"
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run on *inputs* in the function's order; return its outputs in order."""
        return list(self._staged(dict(zip(self._names, inputs, strict=True))).values())

    def fed(self, inputs: Sequence[Array]) -> list[tuple[Network, dict[str, Array]]]:
        """Return each network with its feeds in a run on *inputs*."""
        found: list[tuple[Network, dict[str, Array]]] = []

        def run(number: int, feeds: dict[str, Array]) -> Mapping[str, Array]:
            found.append((self.networks[number], feeds))
            return self.networks[number].run(feeds)

        self._course.run_by(run)(dict(zip(self._names, inputs, strict=True)))
        return found


class StagedNetwork(CompiledNetwork):
    """A network with data-dependent sizes.

    Attributes:
        course: The course of a run through the stages.
        stages: The network of each stage: its program, memory, kernels and source.
    """

    def __init__(
        self,
        course: Course,
        stages: Sequence[Network],
        levels: MakeLevels,
        threads: int,
        *,
        rebuilding: Rebuilding[CompiledNetwork],
        sizes: str = "",
        defaults: Defaults[Network] | None = None,
    ) -> None:
        """Run *stages* as *course* says; the rest is as for any network."""
        self._stages = StagedExecutable(course, stages)
        super().__init__(
            course.border,
            self._stages,
            levels,
            threads,
            state=StateStore(),
            rebuilding=rebuilding,
            sizes=sizes,
            defaults=defaults,
        )
        self.course: Course = course
        self.stages: tuple[Network, ...] = self._stages.networks
        self._decided = course.names
        decided, outputs = set(course.decided), self._border.outputs.items()
        self._decided_outputs = [
            n for n, t in outputs if decided.intersection(symbols_of(*t.shape))
        ]

    @property
    @override
    def guards(self) -> tuple[Guard, ...]:
        """The comparisons of sizes of the inputs that the import of the model has relied on."""
        return self.course.guards

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
                f"bind: network {self.name!r} has data-dependent sizes ({self._decided}), and with "
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

    @property
    @override
    def precision(self) -> PrecisionReport:
        found = [stage.precision for stage in self.stages]
        layers = tuple(layer for report in found for layer in report.layers)
        count = sum(report.integer_instructions for report in found)
        return dataclasses.replace(found[0], layers=layers, integer_instructions=count)

    def _refuse(self, what: str) -> NoReturn:
        place = "variants[0].stages" if self.sizes else "stages"  # of what a user has
        raise UnsupportedError(
            f"network {self.name!r}: it has data-dependent sizes ({self._decided}), and it has a "
            f"program for each of {len(self.stages)} stages; see net.{place}[0].{what}"
        )

    @override
    def _title(self) -> str:
        return f"StagedNetwork {self.name}: {len(self.stages)} stages"

    @override
    def __repr__(self) -> str:
        return f"<StagedNetwork {self.name} {self._show_types()}, {len(self.stages)} stages>"
