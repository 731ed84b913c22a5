"""Plans where memory is short, at sizes that take no time."""

from __future__ import annotations

from experiments.partition_gaps import ALL_COLUMNS, COLUMNS, line, lines, sweep
from glow_nb.runtime.planning.timing import Objective
from tests.unit.runtime.networks import residual


def test_a_row_for_each_plan_and_one_for_each_objective() -> None:
    objectives: tuple[Objective, ...] = ("latency", "throughput")
    found = list(sweep("residual", residual(64), objectives, (2, 4), (0.1, 1.0)))
    assert {one.objective for one in found} == set(objectives)
    assert {one.share for one in found} == {1.0}, "a tenth cannot be enough"
    assert all(one.gap >= 0 and one.parts for one in found)
    assert all(line(one).count("|") == len(ALL_COLUMNS) + 1 for one in found)
    table = list(lines(found))
    assert len(table) == len(objectives)
    assert all(row.count("|") == len(COLUMNS) + 1 for row in table)
