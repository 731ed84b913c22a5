"""Parts of a plan: what they take at least, and as programs with their exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from glow_nb.llir.program import Buffer, Program
from glow_nb.runtime.deploy import planned_memory
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.costs import KernelWork, kernel_seconds
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.live import copiers_of, live_edges
from glow_nb.runtime.planning.split import Splitter, placed_program
from glow_nb.runtime.planning.units import Edge


@dataclass(frozen=True)
class Sized:
    """Some units as a part for devices of one kind.

    Attributes:
        program: Their instructions.
        constant_bytes: Memory of their weights and states.
        run_bytes: Memory of one run.
        kernels: The work of their kernels.
    """

    program: Program
    constant_bytes: int
    run_bytes: int
    kernels: tuple[KernelWork, ...]

    @property
    def held_bytes(self) -> int:
        """The memory that a device needs for it."""
        return self.constant_bytes + self.run_bytes

    def seconds(self, device: DeviceDescription) -> float:
        """Return how long its kernels take on *device*."""
        return kernel_seconds(self.kernels, device)


class Parts:
    """The parts that units of a fleet may be, each looked at and made once.

    To make one takes some hundred times as long as to look at it.
    """

    def __init__(self, fleet: Fleet) -> None:
        """Prepare to make parts of the units of *fleet* for its devices."""
        self._fleet, self._units = fleet, fleet.units
        self._splitter = Splitter(fleet.units.program)
        self._sketches: dict[tuple[int, ...], Sized] = {}
        self._made: dict[tuple[tuple[int, ...], str, int], Sized] = {}

    def sketch(self, units: Sequence[int], _: DeviceDescription) -> Sized:
        """Return *units* as a program whose memory is not placed, and what it takes at least."""
        key = tuple(units)
        if key not in self._sketches:
            members = [self._units.units[unit] for unit in units]
            numbers = [number for unit in members for number in unit.instructions]
            program = self._splitter.part(numbers, self._units.program.name)
            held: tuple[Buffer, ...] = (*program.weights, *program.state)
            kept = sum(buffer.type.size_bytes for buffer in held)
            kernels = tuple(kernel for unit in members for kernel in unit.kernels)
            self._sketches[key] = Sized(program, kept, self._run_bytes(units, program), kernels)
        return self._sketches[key]

    def make(self, units: Sequence[int], device: DeviceDescription) -> Sized:
        """Return *units* as a program for devices like *device*, with its exact numbers."""
        key = (tuple(units), device.backend, device.cores)
        if key not in self._made:
            backend = self._fleet.backend_for(device)
            program = placed_program(self.sketch(units, device).program, backend)
            held, run = planned_memory(program, backend, device.cores)
            kernels = tuple(map(self._units.efficiencies.work_of, program.work))
            self._made[key] = Sized(program, held, run, kernels)
        return self._made[key]

    def _run_bytes(self, units: Sequence[int], program: Program) -> int:
        """Return what a run of *units* takes at least: what is bound, scratch, and the arena."""
        bound = {*program.inputs, *program.outputs}
        scratch = max((self._fleet.least_scratch[unit] for unit in units), default=0)
        inside = set(units)
        arena = max((self._arena_bytes(unit, inside) for unit in units), default=0)
        return sum(buffer.type.size_bytes for buffer in bound) + int(scratch) + arena

    def _arena_bytes(self, unit: int, inside: set[int]) -> int:
        """Return what *unit* needs in an arena of a part that has all units *inside*."""
        one = self._units.units[unit]
        edges = (
            edge.size_bytes
            for edge in self._live[unit]
            if edge.producer in inside and inside.issuperset(edge.readers)
        )
        return max(0, one.inner_bytes - one.on_read_bytes + sum(edges))

    @cached_property
    def _live(self) -> list[list[Edge]]:
        """What is in memory while each unit runs, and can lie nowhere but in an arena."""
        units = self._units
        return [
            [edge for edge in found if not edge.is_output and not copiers_of(units, edge)]
            for found in live_edges(units)
        ]
