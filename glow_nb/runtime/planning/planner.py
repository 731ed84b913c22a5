"""The search for a plan: estimates first, then the exact numbers of the parts that were chosen.

The estimates are lower bounds. The parts of the best plan by them are made, and their exact numbers
take the place of the estimates, until the best plan is made of parts that are known: then it is the
best of all. The search ends before that when a plan is near enough to the estimates, or when many
parts were made; the lower bound of the plan says what may be left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from glow_nb.backends import Backend
from glow_nb.llir.program import Program
from glow_nb.runtime.deploy import backend_of, memory_beside, planned_memory
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.bounds import BOUNDS, longest_path, path_bound
from glow_nb.runtime.planning.chains import Walk, best_walk
from glow_nb.runtime.planning.costs import KernelWork, kernel_seconds
from glow_nb.runtime.planning.cuts import all_cuts, ordered_cuts
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.partitioning import Part, Partitioning
from glow_nb.runtime.planning.split import Splitter, placed_program
from glow_nb.runtime.planning.spread import Placed, homes_by_size, spread
from glow_nb.runtime.planning.stretches import Floats, Stretches
from glow_nb.runtime.planning.timing import VALUES, memory_bytes

MOST_LEARNED = 60
"""Parts that are made, at most, to correct estimates by them."""

GOOD_ENOUGH = 0.02
"""How far above the estimates a plan may be and is not improved; those of chains may not."""

WORTH_SPREADING = 1.05
"""How far above the bound of all plans a plan must be, for other ones to be tried."""

ROUNDING = 1e-9
"""By how much sums of the same times in another order may be apart."""

MOST_ASKED = 1000
"""The longest program whose kernels are asked for their working memory before there is a plan."""

MOST_REPAIRS = 4
"""How often units are spread anew because a device turned out to hold too much."""


@dataclass(frozen=True)
class _Made:
    """A part whose program is made, and its exact numbers."""

    program: Program
    constant_bytes: int
    run_bytes: int
    kernels: tuple[KernelWork, ...]


class Planner:
    """Looks for the best plan for one network on some devices."""

    def __init__(self, fleet: Fleet, objective: str, whole: Fleet | None = None) -> None:
        """Prepare to plan the units of *fleet* on its devices for *objective*.

        If these units are merged ones, *whole* is the fleet before that, for the bounds.
        """
        self._is_merged = whole is not None
        self._fleet, self._objective = fleet, objective
        self._units, self._program = fleet.units, fleet.units.program
        self._splitter = Splitter(self._program)
        self._backends: dict[tuple[str, int], Backend] = {}
        self._made: dict[tuple[tuple[int, ...], str, int], _Made] = {}
        self._walked: list[Placed] = []
        self._bound = BOUNDS[objective](whole or fleet)
        is_path = objective == "latency" and not self._is_merged
        self._own_bound = path_bound(fleet) if is_path else 0.0

    def best(self) -> Partitioning | None:
        """Return the best plan found; None if none was."""
        best = min(self._walks(), key=lambda plan: plan.value, default=None)
        if best is None or (
            best.value > self._bound * WORTH_SPREADING and self._may_be_better_spread()
        ):
            plans = [*self._spreads(), *([best] if best else ())]
            best = min(plans, key=lambda plan: plan.value, default=None)
        if best is None:
            return None
        bound = self._bound
        if len({part.device for part in best.parts}) == len(best.parts):
            bound = max(bound, self._own_bound)
        is_met = best.value <= bound * (1 + ROUNDING)
        return dataclasses.replace(best, lower_bound=best.value if is_met else bound)

    def _may_be_better_spread(self) -> bool:
        return self._objective == "memory" or self._may_run_side_by_side()

    def _may_run_side_by_side(self) -> bool:
        return (
            self._objective == "latency"
            and not self._units.is_chain
            and len(self._fleet.devices) > 1
        )

    def _walks(self) -> Iterable[Partitioning]:
        """Yield plans in which each device has one part, the last one the best of them."""
        cuts = all_cuts(self._units)
        stretches = Stretches(self._units, ordered_cuts(self._units) if cuts is None else cuts)
        kinds = self._fleet.kinds
        memory = [stretches.memory_bytes + stretches.most(self._scratch(k.device)) for k in kinds]
        seconds = [stretches.seconds(kind.device) for kind in kinds]
        combine = np.add if self._objective == "latency" else np.maximum
        counts = [len(kind.devices) for kind in kinds]
        known: set[tuple[int, int, int]] = set()
        tolerance = 0.0 if self._units.is_chain else GOOD_ENOUGH
        while len(known) < MOST_LEARNED:
            costs = self._costs(stretches, memory, seconds)
            walk = best_walk(costs, counts, combine)
            if walk is None:
                return
            if self._is_bound(walk) and cuts is not None:
                self._own_bound = max(self._own_bound, walk.value)
            placed = self._placed(stretches, walk)
            for plan in self._plans(placed):
                self._walked = placed
                yield plan
                if plan.value <= walk.value * (1 + tolerance + ROUNDING):
                    return
            new = {(step.first, step.last, step.kind) for step in walk.steps} - known
            if not new:
                return
            for first, last, kind in new:
                made = self._make(stretches.members(first, last), kinds[kind].device)
                memory[kind][first, last] = made.constant_bytes + made.run_bytes
                seconds[kind][first, last] = kernel_seconds(made.kernels, kinds[kind].device)
            known |= new

    def _is_bound(self, walk: Walk) -> bool:
        """True if no plan in which each device has one part is better than *walk* over all cuts."""
        return walk.is_exact and not self._is_merged and not self._may_run_side_by_side()

    def _costs(
        self, stretches: Stretches, memory: Sequence[Floats], seconds: Sequence[Floats]
    ) -> list[list[Floats]]:
        """Return what a part of each kind behind one of another adds to the value of a plan."""
        kinds = self._fleet.kinds
        legal = [
            stretches.is_part & (held <= kind.memory_bytes) & ~stretches.holds_any(kind.barred)
            for kind, held in zip(kinds, memory, strict=True)
        ]
        if self._objective == "memory":
            own = [np.where(fits, held, np.inf) for fits, held in zip(legal, memory, strict=True)]
            return [own for _ in kinds]
        costs: list[list[Floats]] = []
        for before in kinds:
            row = []
            for kind, fits, took in zip(kinds, legal, seconds, strict=True):
                target = kind.devices[-1].name  # two of a kind have no way of their own
                total = took + stretches.taken.seconds(before.device.link_to(target))
                total = total + stretches.fed.seconds(kind.device.link)
                total += stretches.given.seconds(kind.device.link)
                row.append(np.where(fits, total, np.inf))
            costs.append(row)
        return costs

    def _placed(self, stretches: Stretches, walk: Walk) -> list[Placed]:
        """Return the parts of *walk* on devices: the first of its kind gets the first part."""
        numbers: list[list[int]] = [[] for _ in self._fleet.kinds]
        for device, kind in reversed(list(enumerate(self._fleet.kind_of_device))):
            numbers[kind].append(device)
        return [
            Placed(tuple(stretches.members(step.first, step.last)), numbers[step.kind].pop())
            for step in walk.steps
        ]

    def _spreads(self) -> Iterable[Partitioning]:
        """Yield plans in which a device may have several parts."""
        limits = [self._fleet.kinds[kind].memory_bytes for kind in self._fleet.kind_of_device]
        finders = (self._no_homes, self._homes_of_path, homes_by_size)
        for find_homes in finders:
            room = [float(limit) for limit in limits]
            for _ in range(MOST_REPAIRS):
                homes = find_homes(self._fleet, room)
                placed = None if homes is None else spread(self._fleet, room, homes=homes)
                if placed is None:
                    break
                plans = list(self._plans(placed))
                if plans:
                    yield from plans
                    break
                used = memory_bytes(self.plan_of(placed))
                for number, device in enumerate(self._fleet.devices):
                    room[number] -= max(0, used[device.name] - limits[number])

    def _no_homes(self, _: Fleet, __: Sequence[float]) -> dict[int, int]:
        return {}

    def _homes_of_path(self, fleet: Fleet, _: Sequence[float]) -> dict[int, int] | None:
        """Return where the units of the longest path are if each device has one part."""
        device = {unit: part.device for part in self._walked for unit in part.units}
        return {unit: device[unit] for unit in longest_path(fleet)} if device else None

    def _plans(self, placed: Sequence[Placed]) -> Iterable[Partitioning]:
        """Yield the plan that *placed* is, if no device holds more than it may."""
        plan = self.plan_of(placed)
        used = memory_bytes(plan)
        if all(
            used[device.name] <= kind.memory_bytes
            for kind in self._fleet.kinds
            for device in kind.devices
        ):
            yield plan

    def plan_of(self, placed: Sequence[Placed]) -> Partitioning:
        """Return the plan with its parts made."""
        program, devices = self._program, self._fleet.devices
        parts = []
        for index, part in enumerate(placed):
            device, name = devices[part.device], f"{program.name}.{index}"
            made = self._make(part.units, device)
            parts.append(
                Part(
                    name=name,
                    program=dataclasses.replace(made.program, name=name),
                    device=device.name,
                    constant_bytes=made.constant_bytes,
                    run_bytes=made.run_bytes,
                    seconds=kernel_seconds(made.kernels, device),
                )
            )
        plan = Partitioning(
            name=program.name,
            inputs=tuple((buffer.name, buffer.type) for buffer in program.inputs),
            outputs=tuple((buffer.name, buffer.type) for buffer in program.outputs),
            parts=tuple(parts),
            devices={device.name: device for device in devices},
            objective=self._objective,
            value=0.0,
            lower_bound=0.0,
            counted={b.name: b.counted for b in program.outputs if b.counted},
        )
        return dataclasses.replace(plan, value=VALUES[self._objective](plan))

    def _scratch(self, device: DeviceDescription) -> list[int]:
        """Return the working memory that each unit needs at least on devices like *device*.

        Of a program with thousands of kernels, whose plans are no longer the best, it is not asked.
        """
        if len(self._program.work) > MOST_ASKED:
            return [0] * len(self._units.units)
        backend = self._backend(device)
        sizes = []
        for unit in self._units.units:
            alone = (self._splitter.part([number], "") for number in unit.instructions)
            known = (
                memory_beside(program, backend, device.cores).scratch_bytes
                for program in alone
                if not program.activations  # which have no place yet
            )
            sizes.append(max(known, default=0))
        return sizes

    def _backend(self, device: DeviceDescription) -> Backend:
        return self._backends.setdefault((device.backend, device.cores), backend_of(device))

    def _make(self, units: Sequence[int], device: DeviceDescription) -> _Made:
        """Return *units* as a program for devices like *device*, with its exact numbers."""
        key = (tuple(units), device.backend, device.cores)
        if key not in self._made:
            backend = self._backend(device)
            numbers = [n for unit in units for n in self._units.units[unit].instructions]
            program = placed_program(self._splitter.part(numbers, self._program.name), backend)
            held, run = planned_memory(program, backend, device.cores)
            kernels = tuple(map(self._units.efficiencies.work_of, program.work))
            self._made[key] = _Made(program, held, run, kernels)
        return self._made[key]
