"""Networks on clusters on paper, at sizes that take no time."""

from __future__ import annotations

import pytest

from experiments.cluster import CLUSTERS, COLUMNS, Cluster, decoder, line, moved, row, two_kinds
from glow_nb.runtime import partition
from glow_nb.runtime.planning.timing import latency
from tests.unit.runtime.networks import chain


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.name)
def test_a_row_of_the_table(cluster: Cluster) -> None:
    functions = [chain([64] * 5, rows=64), decoder(layers=2, width=32, tokens=8)]
    found = row(cluster, functions, 6, failures_per_hour=1e12)
    assert found is not None
    assert 0 < found.throughput <= found.bound
    assert 0 < found.least <= found.alone * (1 + 1e-9)
    assert found.alone <= found.median * (1 + 1e-9)
    assert found.median <= found.late
    assert (found.repeated > 0) == cluster.fails
    assert line("chain", found).count("|") == len(COLUMNS) + 1


def test_a_plan_keeps_its_time_on_devices_that_are_alike() -> None:
    devices = two_kinds(8)
    plan = partition(chain([64] * 5, rows=64), devices[:4], objective="throughput")
    other = moved(plan, devices[4:])
    assert set(other.devices) == {"d4", "d5", "d6", "d7"}
    assert latency(other) == pytest.approx(latency(plan))
