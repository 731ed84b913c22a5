"""The machine's limits: that they are measured at all, and kept."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from glow_nb.base.errors import GlowWarning
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.codegen import measure_limits
from glow_nb.codegen.compile import compile_assembly
from glow_nb.codegen.dot_loops import DOT_LOOPS
from glow_nb.codegen.measure_limits import (
    CHAINS,
    arithmetic_source,
    larger_rates,
    limits_that_were_beaten,
    machine_limits,
)
from glow_nb.kernels.target import Target
from glow_nb.system import cache_folder
from glow_nb.system.cache_folder import CACHE_VARIABLE
from tests.targets import SMALL_CORE


def limits(rate: float, threads: int = 1) -> MachineLimits:
    levels = (MemoryLevel("L1", 100, rate, 3.0), MemoryLevel("DRAM", 0, 1.0, rate))
    return MachineLimits(threads, rate, levels)


@pytest.fixture
def rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the rates that the next measurements will give, in a cache folder of their own."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    found: list[float] = []
    monkeypatch.setattr(
        measure_limits, "measure_limits", lambda threads, target: limits(found.pop(0), threads)
    )
    return found


def test_limits_are_measured_once(rates: list[float]) -> None:
    rates += [5.0]
    assert machine_limits(2) == machine_limits(2) == limits(5.0, 2)


def test_each_number_of_threads_and_processor_has_its_own(rates: list[float]) -> None:
    rates += [5.0, 7.0, 9.0]
    host = Target.host()
    other = Target(host.triple, "other", host.features, host.lanes)
    assert machine_limits(1) == limits(5.0)
    assert machine_limits(2) == limits(7.0, 2)
    assert machine_limits(1, other) == limits(9.0)


def test_measuring_again_keeps_the_larger_rates(rates: list[float]) -> None:
    rates += [5.0, 4.0, 6.0]
    machine_limits(1)
    assert machine_limits(1, measure_again=True) == limits(5.0)
    assert machine_limits(1, measure_again=True) == machine_limits(1) == limits(6.0)


def test_limits_that_are_beaten_are_measured_again_once(rates: list[float]) -> None:
    rates += [5.0, 6.0, 7.0, 8.0]
    machine_limits(1)
    assert limits_that_were_beaten(1) == limits_that_were_beaten(1) == limits(6.0)
    assert machine_limits(1) == limits(6.0)
    assert machine_limits(1, measure_again=True) == limits(7.0)  # asked for by hand
    assert limits_that_were_beaten(1) == limits(8.0)


def test_what_cannot_be_right_is_measured_again(rates: list[float]) -> None:
    rates += [0.5, 0.6, 4.0]  # of the first level; the last one has 1.0
    assert machine_limits(1).levels[0].read_rate == 4.0
    assert rates == []


def test_larger_rates_are_chosen_one_by_one() -> None:
    levels = (MemoryLevel("L1", 100, 5.0, 3.0), MemoryLevel("DRAM", 0, 1.0, 5.0))
    assert larger_rates(MachineLimits(1, 9.0, limits(2.0).levels), limits(5.0)) == MachineLimits(
        1, 9.0, levels
    )


def test_larger_rates_of_dots_are_kept_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    rates = [(5.0, 7.0), (6.0, 4.0)]

    def measured(threads: int, target: Target) -> MachineLimits:
        found = zip(("tile_dot_vpdpbusd", "tile_dot_tdpbusd"), rates.pop(0), strict=True)
        return replace(limits(5.0, threads), dots=tuple(DotRate(*one) for one in found))

    monkeypatch.setattr(measure_limits, "measure_limits", measured)
    machine_limits(1)
    machine_limits(1, measure_again=True)
    assert [rate.operation_rate for rate in machine_limits(1).dots] == [6.0, 7.0]


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"threads": 1, "flop_rate": -1, "levels": []}']
)
def test_a_spoilt_file_is_ignored(rates: list[float], tmp_path: Path, content: str) -> None:
    rates += [5.0, 6.0]
    machine_limits(1)
    (path,) = tmp_path.glob("limits-*.json")
    path.write_text(content)
    assert machine_limits(1) == limits(6.0)


def test_a_folder_that_cannot_be_written_keeps_nothing(
    rates: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv(CACHE_VARIABLE, str(file / "folder"))
    monkeypatch.setattr(cache_folder, "_TIMES_REFUSED", itertools.count())
    rates += [5.0, 6.0]
    with pytest.warns(GlowWarning, match="Not a directory"):
        assert machine_limits(1) == limits(5.0)
    assert machine_limits(1) == limits(6.0)


@pytest.mark.jit
def test_this_machine_has_limits() -> None:
    target = Target.host()
    found = measure_limits.measure_limits(2, target)
    assert found.threads == 2
    assert found.flop_rate > 0
    names = [level.name for level in found.levels]
    assert names in (["L1", "L2", "L3", "DRAM"], ["L1", "L2", "DRAM"])
    assert all(level.read_rate > 0 and level.copy_rate > 0 for level in found.levels)
    assert [level.streamed_rate > 0 for level in found.levels] == [n == "DRAM" for n in names]
    dots = [loop.dot for loop in DOT_LOOPS if loop.is_there(target)]
    assert [rate.dot for rate in found.dots] == dots
    assert all(rate.operation_rate > 0 for rate in found.dots)


def test_every_chain_of_the_peak_is_computed() -> None:
    """A chain that starts where it stays, as 1 does in ``x / 2 + 1 / 2``, would be a constant."""
    target = SMALL_CORE
    text = compile_assembly(arithmetic_source(target), target)
    assert sum("vfmadd" in line for line in text.splitlines()) == CHAINS
