"""The roofline's arithmetic."""

from __future__ import annotations

import pytest

from glow_nb.base.machine_limits import MachineLimits, MemoryLevel

LEVELS = (
    MemoryLevel("L1", 1000, 400.0, 400.0),
    MemoryLevel("L2", 10_000, 200.0, 200.0),
    MemoryLevel("DRAM", 0, 40.0, 30.0),
)
LIMITS = MachineLimits(1, 100.0, LEVELS)


def test_the_nearest_level_that_is_large_enough() -> None:
    assert LIMITS.level_for(1000).name == "L1"
    assert LIMITS.level_for(1001).name == "L2"
    assert LIMITS.level_for(1e12).name == "DRAM"


def test_a_copy_takes_what_reading_and_writing_take() -> None:
    for level in LEVELS:
        assert level.seconds(100, 100) == pytest.approx(200 / level.copy_rate)


def test_a_copy_measured_faster_than_reading_allows_still_has_a_writing_rate() -> None:
    level = MemoryLevel("L1", 1000, 100.0, 500.0)
    assert 0 < level.write_rate <= 1000


def test_constants_come_from_farther_away_than_activations() -> None:
    assert LIMITS.memory_bound(400, 0, 0, 0)[0] == pytest.approx(1.0)
    assert LIMITS.memory_bound(0, 0, 400, 0)[0] == pytest.approx(1.0)
    assert LIMITS.memory_bound(0, 0, 400, 1e9)[0] == pytest.approx(10.0)
    assert LIMITS.arithmetic_seconds(500) == pytest.approx(5.0)
