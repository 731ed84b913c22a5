"""No plan is below the bounds, wherever its units are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from glow_nb.backends.interpreter import Interpreter
from glow_nb.compiler import lower_for
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, Sigmoid, Tanh
from glow_nb.runtime import Link
from glow_nb.runtime.planning.bounds import BOUNDS
from glow_nb.runtime.planning.fleet import Fleet, fleet_of
from glow_nb.runtime.planning.forks import fork_bound
from glow_nb.runtime.planning.planner import Planner
from glow_nb.runtime.planning.split import stacked_program
from glow_nb.runtime.planning.spread import spread
from glow_nb.runtime.planning.timing import VALUES
from glow_nb.runtime.planning.units import units_of
from tests.unit.runtime.networks import branches, chain, devices, product, residual


def forks(depth: int, width: int = 64) -> Function:
    """Return a network that forks into a long and a short branch again and again."""
    b = Builder("forks")
    x: Value = product(b, b.input("x", f"float32<16 x {width}>"), width)
    for _ in range(depth):
        long = product(b, product(b, b.emit(Tanh(x)), width), width)
        x = product(b, b.emit(Add(long, product(b, b.emit(Sigmoid(x)), width))), width)
    b.save(x, "y")
    return b.function()


NETWORKS: dict[str, Callable[[], Function]] = {
    "chain": lambda: chain([32] * 6),
    "branches": lambda: branches(4, 32),
    "residual": lambda: residual(32, depth=2),
    "forks": lambda: forks(3),
}


def fleet_for(function: Function, count: int, link: Link) -> Fleet:
    backend = Interpreter()
    units = units_of(stacked_program(lower_for(function, backend), backend), backend.traits)
    made = devices(count, backend="interpreter", link=link)
    return fleet_of(units, made, {}, {d.name: [False] * len(units.units) for d in made})


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("link", [Link(1e9, 1e-7), Link(1e12), Link(1e8, 1e-5)])
@pytest.mark.parametrize("count", [2, 3])
def test_random_plans_are_not_below_the_bounds(name: str, link: Link, count: int) -> None:
    fleet = fleet_for(NETWORKS[name](), count, link)
    random = np.random.default_rng(0)
    planner = Planner(fleet, "latency")
    for _ in range(5):
        homes = {unit: int(random.integers(count)) for unit in range(len(fleet.units.units))}
        placed = spread(fleet, [2.0**40] * count, homes=homes)
        assert placed is not None
        plan = planner.plan_of(placed)
        for objective, bound in BOUNDS.items():
            assert VALUES[objective](plan) >= bound(fleet) * (1 - 1e-9), objective


def test_a_fork_costs_a_transfer_or_the_time_of_both_branches() -> None:
    fleet = fleet_for(forks(2), 3, Link(1e30, 1.0))
    total = float((fleet.seconds + fleet.host_seconds).min(axis=0).sum())
    assert fork_bound(fleet) == pytest.approx(total), "to go to another device takes a second"
    free = fleet_for(forks(2), 3, Link(1e30))
    assert fork_bound(free) < 0.9 * float(free.seconds.min(axis=0).sum())
