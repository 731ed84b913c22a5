"""Stems and branches find room where memory is short."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from glow_nb.runtime import Link, partition
from glow_nb.runtime.planning.fleet import Fleet
from glow_nb.runtime.planning.packing import Packer, Packing, states_at_each_of
from glow_nb.runtime.planning.planner import Planner
from glow_nb.runtime.planning.stretches import Floats, Stretches
from glow_nb.runtime.planning.ways import ways_of
from tests.unit.runtime.networks import devices
from tests.unit.runtime.planning.test_bounds import fleet_for, forks

LINK = Link(1e12, 1e-9)


def packed(fleet: Fleet) -> tuple[Packing | None, Stretches]:
    """Return the best packing of the units of *fleet*, by estimates, and the cuts of its parts."""
    ways = ways_of(fleet.units, fleet.forks)
    stretches = Stretches(fleet.units, ways.cuts)
    memory: Sequence[Floats] = [stretches.memory_bytes + stretches.most(s) for s in fleet.scratch]
    seconds: list[Floats] = []
    for kind in fleet.kinds:
        link = kind.device.link
        host = stretches.fed.seconds(link) + stretches.given.seconds(link)
        seconds.append(stretches.seconds(kind.device) + host)
    return Packer(fleet, ways, stretches, memory, seconds).best(0.0), stretches


def whole_bytes(depth: int) -> int:
    (part,) = partition(forks(depth), devices(1, backend="interpreter")).parts
    return part.memory_bytes


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("share", [1.0, 0.7])
def test_a_packing_takes_the_time_that_it_says(count: int, share: float) -> None:
    fleet = fleet_for(forks(4), count, LINK, int(whole_bytes(4) * share))
    found, stretches = packed(fleet)
    assert found is not None
    plan = Planner(fleet, "latency").plan_of(found.placed(stretches))
    units = sorted(unit for part in found.placed(stretches) for unit in part.units)
    assert units == list(range(len(fleet.units.units))), "each unit is in one part"
    assert plan.value == pytest.approx(found.seconds)


def test_branches_run_side_by_side_where_there_is_room_and_one_after_the_other_elsewhere() -> None:
    roomy, _ = packed(fleet_for(forks(4), 2, LINK))
    tight, _ = packed(fleet_for(forks(4), 2, LINK, int(whole_bytes(4) * 0.62)))
    assert roomy is not None
    assert tight is not None
    assert len(tight.parts) < len(roomy.parts)
    assert roomy.seconds < tight.seconds


def test_there_is_no_packing_without_room() -> None:
    found, _ = packed(fleet_for(forks(4), 2, LINK, int(whole_bytes(4) * 0.4)))
    assert found is None


def test_a_plan_is_near_its_bound_where_memory_is_short() -> None:
    made = devices(2, backend="interpreter", link=LINK, memory_bytes=int(whole_bytes(4) * 0.7))
    plan = partition(forks(4), made)
    assert len(plan.parts) > 2
    assert plan.gap < 0.1


def test_where_there_are_many_stops_fewer_states_stay_at_each() -> None:
    assert [states_at_each_of(stops) for stops in (1, 30, 50, 75, 1000)] == [60, 60, 45, 30, 24]
