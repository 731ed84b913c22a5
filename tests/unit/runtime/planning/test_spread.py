"""Units go where they, or what reads from them, end first."""

from __future__ import annotations

from glow_nb.runtime import Link
from glow_nb.runtime.planning.planner import Planner
from glow_nb.runtime.planning.spread import spread
from tests.unit.runtime.networks import branches
from tests.unit.runtime.planning.test_bounds import fleet_for


def test_to_look_ahead_counts_the_way_back_from_another_device() -> None:
    fleet = fleet_for(branches(4, 32), 2, Link(1e9, 1e-6))
    seconds = []
    for looks_ahead in (False, True):
        placed = spread(fleet, [2.0**40] * 2, homes={}, looks_ahead=looks_ahead)
        assert placed is not None
        seconds.append(Planner(fleet, "latency").plan_of(placed).value)
    assert seconds[1] < seconds[0]


def test_units_without_room_have_no_place() -> None:
    fleet = fleet_for(branches(4, 32), 2, Link(1e9))
    assert spread(fleet, [1.0] * 2, homes={}, looks_ahead=True) is None
