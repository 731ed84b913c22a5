"""The search for a plan: estimates first, then the exact numbers of the parts that were chosen.

The estimates are lower bounds. The parts of the best plan by them are made, and their exact numbers
take the place of the estimates, until the best plan is made of parts that are known: then it is the
best of all. The search ends before that when a plan is near enough to the estimates, or when many
parts were made; the lower bound of the plan says what may be left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.bounds import BOUNDS, path_bound
from glow_nb.runtime.planning.candidate_parts import CandidateParts, Floats
from glow_nb.runtime.planning.chains import Stage, Walk, best_walk
from glow_nb.runtime.planning.cuts import all_cuts, ordered_cuts
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.partitioning import Part, Partitioning
from glow_nb.runtime.planning.parts import Parts, Sized
from glow_nb.runtime.planning.spread import Placed, homes_by_size, spread
from glow_nb.runtime.planning.timing import VALUES, memory_bytes

MOST_LEARNED = 60
"""The most parts that are made to replace estimates by exact numbers."""

FEW_PARTS = 8
"""Plans of at most this number of parts are given up at the first part that does not fit."""

GOOD_ENOUGH = 0.02
"""The share by which a plan may exceed its estimate before the search ends; 0 for chains."""

WORTH_SPREADING = 1.05
"""A plan below its bound times this factor ends the search; units are not spread."""

ROUNDING = 1e-9
"""The relative difference that sums of the same times in another order may have."""

MOST_REPAIRS = 4
"""The most attempts to spread units anew after a device held too much."""

Size = Callable[[Sequence[int], DeviceDescription], Sized]
"""Returns units as a part for a device."""

FindHomes = Callable[[Fleet, Sequence[float]], Mapping[int, int] | None]
"""Returns the devices of some units, if each device has this number of bytes; None if there are
none."""


class Planner:
    """Looks for the best plan for one network on some devices."""

    def __init__(self, fleet: Fleet, objective: str, whole: Fleet | None = None) -> None:
        """Prepare to plan the units of *fleet* on its devices for *objective*.

        If these units are merged ones, *whole* is the fleet before that, for the bounds.
        """
        self._is_merged = whole is not None
        self._fleet, self._objective = fleet, objective
        self._units, self._program = fleet.units, fleet.units.program
        self._parts = Parts(fleet)
        self._room = [float(fleet.kinds[kind].memory_bytes) for kind in fleet.kind_of_device]
        self._bound = BOUNDS[objective](whole or fleet)
        is_path = objective == "latency" and not self._is_merged
        self._own_bound = path_bound(fleet) if is_path else 0.0

    def best(self) -> Partitioning | None:
        """Return the best plan found; None if none was."""
        plans = list(self._walks())
        if self._may_improve(plans):
            plans += self._spreads(min((plan.value for plan in plans), default=np.inf))
        best = min(plans, key=lambda plan: plan.value, default=None)
        if best is None:
            return None
        bound = self._bound
        if len({part.device for part in best.parts}) == len(best.parts):
            bound = max(bound, self._own_bound)
        is_met = best.value <= bound * (1 + ROUNDING)
        return dataclasses.replace(best, lower_bound=best.value if is_met else bound)

    def _may_improve(self, plans: Sequence[Partitioning]) -> bool:
        """Return whether devices with several parts may be better than *plans*."""
        best = min((plan.value for plan in plans), default=np.inf)
        may_be = self._objective == "memory" or self._may_run_side_by_side()
        return bool(np.isinf(best)) or (best > self._bound * WORTH_SPREADING and may_be)

    def _may_run_side_by_side(self) -> bool:
        return (
            self._objective == "latency"
            and not self._units.is_chain
            and len(self._fleet.devices) > 1
        )

    def _walks(self) -> Iterable[Partitioning]:
        """Yield plans in which each device has one part, the last one the best of them."""
        cuts = all_cuts(self._units)
        candidates = CandidateParts(
            self._units, ordered_cuts(self._units) if cuts is None else cuts
        )
        kinds = self._fleet.kinds
        memory, seconds = self._estimates(candidates)
        combine = np.add if self._objective == "latency" else np.maximum
        counts = [len(kind.devices) for kind in kinds]
        costs = self._costs(candidates, memory, seconds)
        known: set[Stage] = set()
        tolerance = 0.0 if self._units.is_chain else GOOD_ENOUGH
        while len(known) < MOST_LEARNED:
            walk = best_walk(costs, counts, combine)
            if walk is None:
                return
            if self._is_bound(walk) and cuts is not None:
                self._own_bound = max(self._own_bound, walk.value)
            new = [stage for stage in walk.stages if stage not in known]
            fits = True
            for stage in sorted(new, key=lambda s: -memory[s.kind][s.first, s.last]):
                if fits or len(walk.stages) > FEW_PARTS:  # else others may never be asked for
                    fits &= self._learn(candidates, stage, seconds, costs)
                    known.add(stage)
            if not fits:
                continue
            placed = self._placed(candidates, walk)
            plan = self.plan_of(placed)
            yield plan
            if not new or plan.value <= walk.value * (1 + tolerance + ROUNDING):
                return

    def _learn(
        self,
        candidates: CandidateParts,
        stage: Stage,
        seconds: Sequence[Floats],
        costs: Sequence[Sequence[Floats]],
    ) -> bool:
        """Put exact numbers of the part of *stage* into *costs*; return whether it finds room."""
        kind, place = self._fleet.kinds[stage.kind], (stage.first, stage.last)
        made = self._parts.make(candidates.members(*place), kind.device)
        fits = made.held_bytes <= kind.memory_bytes
        more = made.seconds(kind.device) - seconds[stage.kind][place]
        for row in costs:
            cost = row[stage.kind][place] + more
            exact = made.held_bytes if self._objective == "memory" else cost
            row[stage.kind][place] = exact if fits else np.inf
        return fits

    def _estimates(self, candidates: CandidateParts) -> tuple[list[Floats], list[Floats]]:
        """Return the least memory and seconds of each candidate on a device of each kind."""
        memory = [candidates.memory_bytes + candidates.most(asked) for asked in self._fleet.scratch]
        return memory, [candidates.seconds(kind.device) for kind in self._fleet.kinds]

    def _is_bound(self, walk: Walk) -> bool:
        """Return whether no plan with one part on each device is better than *walk*."""
        return walk.is_exact and not self._is_merged and not self._may_run_side_by_side()

    def _costs(
        self, candidates: CandidateParts, memory: Sequence[Floats], seconds: Sequence[Floats]
    ) -> list[list[Floats]]:
        """Return what a part of each kind after one of another adds to the value of a plan."""
        kinds = self._fleet.kinds
        legal = [
            candidates.is_part & (held <= kind.memory_bytes) & ~candidates.holds_any(kind.barred)
            for kind, held in zip(kinds, memory, strict=True)
        ]
        if self._objective == "memory":
            own = [np.where(fits, held, np.inf) for fits, held in zip(legal, memory, strict=True)]
            return [own for _ in kinds]
        costs: list[list[Floats]] = []
        for before in kinds:
            row = []
            for kind, fits, took in zip(kinds, legal, seconds, strict=True):
                target = kind.devices[-1].name  # two of a kind have no link of their own
                total = took + candidates.taken.seconds(before.device.link_to(target))
                total = total + candidates.fed.seconds(kind.device.link)
                total += candidates.given.seconds(kind.device.link)
                row.append(np.where(fits, total, np.inf))
            costs.append(row)
        return costs

    def _placed(self, candidates: CandidateParts, walk: Walk) -> list[Placed]:
        """Return the parts of *walk* on devices: the first of its kind gets the first part."""
        numbers: list[list[int]] = [[] for _ in self._fleet.kinds]
        for device, kind in reversed(list(enumerate(self._fleet.kind_of_device))):
            numbers[kind].append(device)
        return [
            Placed(tuple(candidates.members(stage.first, stage.last)), numbers[stage.kind].pop())
            for stage in walk.stages
        ]

    def _spreads(self, most: float) -> Iterable[Partitioning]:
        """Yield plans in which a device may have several parts, whose value may be below *most*."""
        for find_homes, looks_ahead in (
            (self._no_homes, False),
            (self._no_homes, True),
            (homes_by_size, False),
        ):
            plan = self._fitting(partial(self._spread_from, find_homes, looks_ahead), most)
            if plan:
                most = min(most, plan.value)
                yield plan

    def _spread_from(
        self, find_homes: FindHomes, looks_ahead: bool, room: Sequence[float]
    ) -> list[Placed] | None:
        homes = find_homes(self._fleet, room)
        if homes is None:
            return None
        return spread(self._fleet, room, homes=homes, looks_ahead=looks_ahead)

    def _fitting(
        self,
        place: Callable[[Sequence[float]], Sequence[Placed] | None],
        most: float = np.inf,
    ) -> Partitioning | None:
        """Return the plan of what *place* returns for the bytes of each device, or for fewer.

        What a device turns out to hold too much is not there the next time. Parts are made only
        where they may fit, and the value of the plan may be below *most*.
        """
        room = list(self._room)
        for _ in range(MOST_REPAIRS):
            placed = place(room)
            if placed is None:
                return None
            plan = self._plan_with(self._parts.sketch, placed)
            if not any(self._missing(plan)):
                if plan.value >= most:
                    return None
                plan = self.plan_of(placed)
                if not any(self._missing(plan)):
                    return plan
            room = [has - less for has, less in zip(room, self._missing(plan), strict=True)]
        return None

    def _missing(self, plan: Partitioning) -> list[float]:
        """Return how many bytes each device holds too much."""
        used = memory_bytes(plan)
        return [
            max(0.0, used[device.name] - limit)
            for device, limit in zip(self._fleet.devices, self._room, strict=True)
        ]

    def _no_homes(self, _: Fleet, __: Sequence[float]) -> dict[int, int]:
        return {}

    def plan_of(self, placed: Sequence[Placed]) -> Partitioning:
        """Return the plan with its parts made."""
        return self._plan_with(self._parts.make, placed)

    def _plan_with(self, sized: Size, placed: Sequence[Placed]) -> Partitioning:
        """Return the plan with its parts *sized*."""
        program, devices = self._program, self._fleet.devices
        parts = []
        for index, part in enumerate(placed):
            device, name = devices[part.device], f"{program.name}.{index}"
            made = sized(part.units, device)
            parts.append(
                Part(
                    name=name,
                    program=dataclasses.replace(made.program, name=name),
                    device=device.name,
                    constant_bytes=made.constant_bytes,
                    run_bytes=made.run_bytes,
                    seconds=made.seconds(device),
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
