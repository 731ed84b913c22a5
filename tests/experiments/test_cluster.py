"""Networks on clusters on paper, at sizes that take no time."""

from __future__ import annotations

import pytest

from experiments.cluster import CLUSTERS, COLUMNS, Cluster, decoder, line, row, two_kinds
from experiments.cluster_bound import most_a_second
from experiments.cluster_plans import deployed, ways
from glow_nb.runtime import Link, partition
from glow_nb.runtime.planning.timing import busy_seconds, latency
from tests.in_turn import one_in
from tests.unit.runtime.networks import chain, devices

LAYERS = chain([64] * 7, rows=64)
SMALL = 128 << 10
"""Memory that is too small for the six layers, each of which keeps 16 KiB."""


@pytest.mark.parametrize("cluster", one_in(2, CLUSTERS), ids=lambda cluster: cluster.name)
def test_a_row_of_the_table(cluster: Cluster) -> None:
    functions = [LAYERS, decoder(layers=2, tokens=8, heads=2, depth=16)]
    found = row(cluster, functions, 6, failures_per_hour=1e12)
    assert found is not None
    assert 0 < found.throughput <= found.bound * 1.01  # the time between requests is looked at
    assert 0 < found.least <= found.alone * (1 + 1e-9)
    assert found.alone <= found.median * (1 + 1e-9)
    assert found.median <= found.late
    assert (found.repeated > 0) == cluster.fails
    assert line("chain", found).count("|") == len(COLUMNS) + 1


def test_networks_without_a_device_each_have_no_row() -> None:
    assert row(CLUSTERS[0], [LAYERS, LAYERS], 1, failures_per_hour=0) is None


def test_a_plan_keeps_its_time_on_devices_that_are_alike() -> None:
    made = two_kinds(8)
    plan = partition(LAYERS, made[:2], objective="throughput")
    fast, slow = made[::2], made[1::2]
    found = ways(plan, {"d0": fast[:3], "d1": slow[1:3]})
    assert [set(way.devices) for way in found] == [
        {"d0", "d3"},
        {"d2", "d3"},
        {"d2", "d5"},
        {"d4", "d5"},
    ]
    assert [latency(way) for way in found] == pytest.approx([latency(plan)] * 4)


@pytest.mark.parametrize("count", [3, 7, 12])
def test_a_part_has_devices_by_its_work(count: int) -> None:
    made = devices(count, memory_bytes=SMALL, link=Link(1e9))
    found = deployed(LAYERS, made)
    assert found is not None
    assert found.parts > 1
    used = {name for way in found.ways for name in way.devices}
    assert used == {device.name for device in made}
    busy = sorted(seconds for seconds in busy_seconds(found.ways[0]).values() if seconds)
    # the slowest part has at most one device less than its share
    assert found.pace >= (count - len(busy)) / sum(busy)
    assert found.pace <= most_a_second(LAYERS, made)


def test_the_bound_counts_what_must_move() -> None:
    whole = devices(2, link=Link(1e6))
    small = devices(2, memory_bytes=SMALL, link=Link(1e6))
    alone, cut = (partition(LAYERS, made, objective="latency") for made in (whole, small))
    assert most_a_second(LAYERS, whole) == pytest.approx(2 / latency(alone))
    assert most_a_second(LAYERS, small) == pytest.approx(2 / latency(cut))
    assert latency(cut) > 1.3 * latency(alone)
