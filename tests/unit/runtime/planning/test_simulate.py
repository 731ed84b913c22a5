"""Requests in virtual time."""

from __future__ import annotations

import pytest

from glow_nb.errors import OptionError
from glow_nb.runtime import Link, Partitioning, partition
from glow_nb.runtime.planning.simulate import Load, Outage, simulate
from glow_nb.runtime.planning.timing import latency, period
from tests.unit.runtime.networks import branches, chain, devices


def plan_of(count: int, objective: str = "throughput") -> Partitioning:
    made = devices(count, backend="interpreter", link=Link(1e12))
    return partition(chain([64] * 7, rows=64), made, objective=objective)


@pytest.mark.parametrize("objective", ["latency", "throughput", "memory"])
def test_a_request_alone_takes_the_latency_of_the_plan(objective: str) -> None:
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
