"""Requests in virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.runtime import Link, Partitioning, partition
from glow_nb.runtime.planning.simulate import Load, Machine, Outage, simulate
from glow_nb.runtime.planning.timing import Objective, latency, period
from tests.unit.runtime.networks import branches, chain, devices


def plan_of(count: int, objective: Objective = "throughput") -> Partitioning:
    made = devices(count, backend="interpreter", link=Link(1e12))
    return partition(chain([64] * 7, rows=64), made, objective=objective)


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory"])
def test_a_request_alone_takes_the_latency_of_the_plan(objective: Objective) -> None:
    made = devices(3, backend="interpreter")
    plan = partition(branches(3, 64, rows=64), made, objective=objective)
    result = simulate([Load((plan,), (2.0,))])
    assert result.latencies[0] == pytest.approx([latency(plan)])
    assert result.seconds == pytest.approx(2 + latency(plan))


def test_requests_follow_each_other_at_the_pace_of_the_busiest_device() -> None:
    plan = plan_of(3)
    result = simulate([Load((plan,), (0.0,) * 100)])
    assert result.seconds == pytest.approx(latency(plan) + 99 * period(plan))
    assert result.throughput == pytest.approx(100 / result.seconds)
    assert max(result.busy.values()) == pytest.approx(100 * period(plan))


def test_duplicates_share_the_requests() -> None:
    plan = plan_of(1)
    other = devices(2, backend="interpreter", link=Link(1e12))[1:]
    twin = partition(chain([64] * 7, rows=64), other)
    one = simulate([Load((plan,), (0.0,) * 10)])
    two = simulate([Load((plan, twin), (0.0,) * 10)])
    assert two.seconds == pytest.approx(one.seconds / 2)


def test_a_slow_duplicate_gets_fewer_requests() -> None:
    plan = plan_of(1)
    twin = partition(
        chain([64] * 7, rows=64), devices(2, backend="interpreter", link=Link(1e12))[1:]
    )
    result = simulate([Load((plan, twin), (0.0,) * 100)], slowdown={"d1": 4.0})
    assert result.throughput == pytest.approx(1.25 / period(plan), rel=0.05)


def test_a_slow_device_is_the_bottleneck() -> None:
    plan = plan_of(3)
    slow = plan.parts[1].device
    result = simulate([Load((plan,), (0.0,) * 200)], slowdown={slow: 4.0})
    assert result.throughput == pytest.approx(1 / (4 * period(plan)), rel=0.05)


def test_what_a_failed_device_was_doing_is_done_again() -> None:
    plan = plan_of(1)
    middle = latency(plan) / 2
    result = simulate([Load((plan,), (0.0,))], outages=[Outage("d0", middle, 1.0)])
    assert result.repeated == 1
    assert result.latencies[0] == pytest.approx([middle + 1.0 + latency(plan)])


def test_every_request_is_answered_once() -> None:
    plan = plan_of(3)
    arrivals = tuple(index * period(plan) / 3 for index in range(50))
    outages = [Outage(f"d{n % 3}", n * period(plan) * 2, period(plan)) for n in range(1, 12)]
    result = simulate([Load((plan,), arrivals), Load((plan,), arrivals)], outages=outages)
    assert [len(each) for each in result.latencies] == [50, 50]
    assert min(map(min, result.latencies)) >= latency(plan) * (1 - 1e-9)


def test_what_has_no_meaning_is_refused() -> None:
    plan = plan_of(1)
    with pytest.raises(OptionError, match="no plan has a device 'd9'"):
        simulate([Load((plan,), (0.0,))], slowdown={"d9": 2.0})
    with pytest.raises(OptionError, match="times of requests in order"):
        Load((plan,), (1.0, 0.0))


def on_one_machine(*arrivals: float) -> tuple[list[Load], list[Machine], float]:
    """Return loads for two devices of a machine, and how long a request takes on one of them."""
    plans = [
        partition(chain([64] * 7, rows=64), [device], objective="throughput")
        for device in devices(2, backend="interpreter", link=Link(1e12))
    ]
    loads = [Load((plan,), (time,)) for plan, time in zip(plans, arrivals, strict=True)]
    return loads, [Machine(("d0", "d1"), 1.5)], latency(plans[0])


def test_devices_of_one_machine_slow_each_other_down() -> None:
    loads, machines, alone = on_one_machine(0.0, 0.0)
    result = simulate(loads, machines=machines)
    assert [*result.latencies[0], *result.latencies[1]] == pytest.approx([1.5 * alone] * 2)
    assert result.busy["d0"] == pytest.approx(1.5 * alone)


def test_a_device_is_slower_only_while_the_other_one_works() -> None:
    *_, alone = on_one_machine(0.0, 0.0)
    loads, machines, _ = on_one_machine(0.0, alone / 2)
    result = simulate(loads, machines=machines)
    assert result.latencies[0] == pytest.approx([alone / 2 + 1.5 * alone / 2])
    assert result.latencies[1] == pytest.approx([1.5 * alone / 2 + alone / 2])


def test_a_device_that_has_failed_slows_nobody_down() -> None:
    loads, machines, alone = on_one_machine(0.0, 0.0)
    outages = [Outage("d1", alone * 0.75, alone * 10)]
    result = simulate(loads, machines=machines, outages=outages)
    assert result.latencies[0] == pytest.approx([alone * 0.75 + alone * 0.5])
    assert result.repeated == 1


def test_each_device_of_a_machine_does_its_share() -> None:
    machine = Machine(("a", "b", "c"), 1.3)
    assert [machine.pace(busy) for busy in (1, 2, 3)] == pytest.approx([1.0, 1.15, 1.3])


def test_machines_that_have_no_meaning_are_refused() -> None:
    loads, (machine,), _ = on_one_machine(0.0, 0.0)
    with pytest.raises(OptionError, match="give 1 or more"):
        Machine(("d0",), 0.5)
    with pytest.raises(OptionError, match="no plan has a device 'd2'"):
        simulate(loads, machines=[Machine(("d2",), 1.0)])
    with pytest.raises(OptionError, match="the device 'd0' is on several machines"):
        simulate(loads, machines=[machine, Machine(("d0",), 1.0)])


def copied(plan: Partitioning, *names: str) -> Partitioning:
    """Return *plan* with its parts on the devices of these names."""
    parts = [replace(part, device=name) for part, name in zip(plan.parts, names, strict=True)]
    made = {name: replace(plan.devices[plan.parts[0].device], name=name) for name in names}
    return replace(plan, parts=tuple(parts), devices=made)


def two_parts() -> Partitioning:
    """Return a plan whose first part takes twice as long as its second one."""
    made = devices(2, backend="interpreter", link=Link(1e12))
    assignment = {"layer[01]": "d0", "layer2": "d1"}
    return partition(chain([64] * 4, rows=64), made, assignment=assignment)


def test_a_copy_of_a_part_can_stand_behind_two_of_another() -> None:
    plan = two_parts()
    one = simulate([Load((plan,), (0.0,) * 200)])
    both = simulate([Load((plan, copied(plan, "d2", "d1")), (0.0,) * 200)])
    assert both.throughput == pytest.approx(2 * one.throughput, rel=0.05)


def test_a_part_runs_on_the_copy_that_has_least_to_do() -> None:
    plan = two_parts()
    load = Load((plan, copied(plan, "d2", "d3")), (0.0,) * 200)
    # a slow first part in one duplicate, a slow second one in the other: each by itself would
    # answer a quarter and half of the requests, but the fast ones work together
    slow = simulate([load], slowdown={"d0": 4.0, "d3": 4.0})
    assert 1.1 / period(plan) < slow.throughput < 1.25 / period(plan)
    away = simulate([load], outages=[Outage("d1", 0.0, 1e3)])
    assert away.seconds < 1
    assert away.busy["d1"] == 0
