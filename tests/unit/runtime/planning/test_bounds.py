"""No plan is below the bounds, wherever its units are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from glow_nb.backends.interpreter import Interpreter
from glow_nb.hlir.builder import Builder
from glow_nb.hlir.graph import Function, Value
from glow_nb.hlir.ops import Add, MatMul, Sigmoid, Tanh
from glow_nb.network.compilation import lower_for
from glow_nb.runtime import Link
from glow_nb.runtime.planning.bounds import BOUNDS, latency_bound, synchronization_points
from glow_nb.runtime.planning.fleet import Fleet, fleet_of
from glow_nb.runtime.planning.planner import Planner
from glow_nb.runtime.planning.split import stacked_program
from glow_nb.runtime.planning.spread import Placed, spread
from glow_nb.runtime.planning.timing import VALUES
from glow_nb.runtime.planning.units import units_of
from tests.in_turn import one_in
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


def fleet_for(function: Function, count: int, link: Link, room: int = 1 << 40) -> Fleet:
    backend = Interpreter()
    units = units_of(stacked_program(lower_for(function, backend), backend), backend.traits)
    made = devices(count, backend="interpreter", link=link, memory_bytes=room)
    return fleet_of(units, made, {}, {d.name: [False] * len(units.units) for d in made})


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("link", one_in(2, [Link(1e9, 1e-7), Link(1e12), Link(1e8, 1e-5)]))
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


def seconds_of(fleet: Fleet, parts: Sequence[tuple[int, Sequence[int]]]) -> float:
    """Return how long a request takes if *parts*, each a device and its units, run in order.

    It is infinite if a part comes before one that it reads from, or the two read from each other.
    """
    part_of = {unit: number for number, (_, units) in enumerate(parts) for unit in units}
    ends: list[float] = []
    free = dict.fromkeys(range(len(fleet.devices)), 0.0)
    for number, (device, units) in enumerate(parts):
        begin, took = free[device], float(fleet.seconds[0, list(units)].sum())
        for value in fleet.units.edges:
            maker = None if value.producer is None else part_of[value.producer]
            if maker == number:
                took += fleet.devices[0].link.seconds(value.size_bytes) * value.is_output
            elif set(units) & set(value.readers):
                if maker is not None and maker > number:
                    return float("inf")
                begin = max(begin, 0.0 if maker is None else ends[maker])
                if maker is None or parts[maker][0] != device:
                    took += fleet.devices[0].link.seconds(value.size_bytes)
        ends.append(begin + took)
        free[device] = ends[-1]
    return max(ends)


def all_parts(units: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield each way to divide *units* into parts, in each order of the parts."""
    if not units:
        yield []
        return
    for count in range(1, len(units) + 1):
        for first in itertools.combinations(units, count):
            for others in all_parts([unit for unit in units if unit not in first]):
                yield [list(first), *others]


def best_seconds(planner: Planner, fleet: Fleet) -> float:
    """Return the seconds of the best of all plans, by trying them all."""
    best, count = float("inf"), len(fleet.devices)
    rooms = [fleet.kinds[kind].memory_bytes for kind in fleet.kind_of_device]
    sizes = {
        units: held_bytes(planner, units)
        for size in range(1, len(fleet.units.units) + 1)
        for units in itertools.combinations(range(len(fleet.units.units)), size)
    }
    for parts in all_parts(range(len(fleet.units.units))):
        for places in itertools.product(range(count), repeat=len(parts)):
            held = [0] * count
            for device, units in zip(places, parts, strict=True):
                held[device] += sizes[tuple(units)]
            if all(size <= room for size, room in zip(held, rooms, strict=True)):
                best = min(best, seconds_of(fleet, list(zip(places, parts, strict=True))))
    return best


def drawn_network(random: np.random.Generator, count: int) -> Function:
    """Return *count* kernels, each of which reads one or two of those before it."""
    b = Builder("drawn")
    made: list[Value] = [b.input("x", "float32<8 x 32>")]
    read: set[int] = set()
    for _ in range(count):
        first, second = random.integers(max(0, len(made) - 3), len(made), 2).tolist()
        read |= {first, second}
        x, y = made[first], made[second]
        weights = b.constant("w", random.standard_normal((32, 32), np.float32))
        made.append(b.emit(MatMul(x, weights) if first == second else Add(x, y)))
    for number in sorted(set(range(1, len(made))) - read):
        b.save(made[number], f"y{number}")
    return b.function()


def held_bytes(planner: Planner, units: Sequence[int]) -> int:
    """Return what a device needs for a part of *units*."""
    return planner.plan_of([Placed(tuple(units), 0)]).parts[0].memory_bytes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [1.0, 0.75])
def test_the_best_of_all_plans_is_between_the_bound_and_the_plan(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    link = Link(float(random.choice([1e9, 1e11])), float(random.choice([0, 1e-7])))
    function = drawn_network(random, 5)
    whole = fleet_for(function, 1, link)
    need = held_bytes(Planner(whole, "latency"), range(len(whole.units.units)))
    fleet = fleet_for(function, 2, link, int(need * share))
    planner = Planner(fleet, "latency")
    best, plan = best_seconds(planner, fleet), planner.best()
    assert latency_bound(fleet) <= best * (1 + 1e-9)
    if plan:
        assert best <= plan.value * (1 + 1e-9)
    else:
        assert share < 1, "what one device can hold has a plan"


def test_a_fork_costs_a_transfer_or_the_time_of_both_branches() -> None:
    fleet = fleet_for(forks(2), 3, Link(1e30, 1.0))
    total = float((fleet.seconds + fleet.host_seconds).min(axis=0).sum())
    assert latency_bound(fleet) == pytest.approx(total), "to go to another device takes a second"
    free = fleet_for(forks(2), 3, Link(1e30))
    assert latency_bound(free) < 0.9 * float(free.seconds.min(axis=0).sum())


def test_what_branches_come_from_and_meet_in_is_a_synchronization_point() -> None:
    units = fleet_for(branches(4, 32), 2, Link(1e9)).units
    assert synchronization_points(units) == [0, 1, 6, 7, 8]
    assert [units.before[unit] for unit in (5, 6)] == [{1}, {2, 3, 4, 5}]
