"""How the times of a report are taken: networks that are compared run in turn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.backend import Timings
from glow_nb.base.feeds import Feeds
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.network.network import CompiledNetwork, Network
from glow_nb.network.profile import Profile, kernel_times
from glow_nb.network.profiling import beside_limits
from glow_nb.network.reporting.machine import roof_of
from glow_nb.network.reporting.measuring import ROUND, Subject, joined, measured, rounds_of
from glow_nb.network.reporting.programs import programs_of
from glow_nb.report.data import Report
from glow_nb.report.page import read_page

GRAPH = """\
func @main(%x : float32<3 x 2>) -> (%y : float32<3 x 2>) {
  %positive = relu(%x) : float32<3 x 2>
  %y_save = save(%positive, %y)
}
"""


def compiled() -> Network:
    return glow_nb.compile(GRAPH, backend="interpreter", threads=1)


def written(network: Network, path: Path, **options: object) -> Report:
    network.report(path, **options)  # type: ignore[arg-type]
    return read_page(path)


def noted(network: Network, name: str, turns: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let *turns* get the *name* of *network* for each run whose time is taken."""
    profile = network.profile

    def note(inputs: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        turns.extend(name * runs)
        return profile(inputs, runs=runs, limits=False)

    monkeypatch.setattr(network, "profile", note)


def test_compared_networks_run_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, turns = compiled(), compiled(), list[str]()
    noted(one, "B", turns, monkeypatch)
    noted(other, "A", turns, monkeypatch)
    report = written(one, tmp_path / "both.html", against=other, runs=2 * ROUND + 1)
    assert "".join(turns) == "B" * ROUND + "A" * ROUND + "B" * ROUND + "A" * ROUND + "BA"
    for compilation in report.compilations:
        measurement = compilation.parts[0].measurement
        assert measurement is not None
        assert measurement.in_turn
        assert measurement.runs == 2 * ROUND + 1
        assert 0 < measurement.plain <= measurement.plain_median


def test_a_page_was_measured_at_another_time(tmp_path: Path) -> None:
    before, net = tmp_path / "before.html", compiled()
    net.report(before, runs=2)
    report = written(net, tmp_path / "both.html", against=before, runs=2)
    found = [one.parts[0].measurement for one in report.compilations]
    assert [each is not None and each.in_turn for each in found] == [False, False]


def test_rounds_are_all_runs() -> None:
    assert rounds_of(12) == [5, 5, 2]
    assert rounds_of(5) == [5]
    assert rounds_of(3) == [3]


def test_runs_of_several_rounds_are_one_profile() -> None:
    net = compiled()
    profiles = [net.profile(np.ones((3, 2), np.float32), runs=n, limits=False) for n in (2, 3)]
    whole = joined(profiles)
    assert whole.runs == 5
    assert len(whole.timings.plain_seconds) == 5
    shortest = min(one.kernels[0].min_seconds for one in profiles)
    assert whole.kernels[0].min_seconds == shortest


def test_limits_are_measured_again_if_a_kernel_exceeds_them_in_any_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net, asked = compiled(), list[bool]()
    assert isinstance(net, CompiledNetwork)
    fast = net.profile(np.ones((3, 2), np.float32), runs=ROUND, limits=False)
    stamps = 1000 * (fast.timings.stamps - fast.timings.stamps.min())
    timings = Timings(stamps, fast.timings.plain_seconds)
    slow = Profile("slow", 1, kernel_times([fast.kernels[0].report], timings), timings)
    rate = fast.cost.bytes / (10 * fast.kernels[0].min_seconds)

    def limits(*, were_beaten: bool = False) -> MachineLimits:
        asked.append(were_beaten)
        return MachineLimits(1, 1e12, (MemoryLevel("DRAM", 0, rate, rate),))

    rounds = iter((fast, slow))

    def profile(_: Feeds, *, runs: int = 20, limits: bool = True) -> Profile:
        assert runs == ROUND
        found = next(rounds)
        return beside_limits(found, net.executable) if limits else found

    monkeypatch.setattr(net.executable, "limits", limits, raising=False)
    monkeypatch.setattr(net, "profile", profile)
    subjects = [Subject(each, programs_of(each)) for each in (net, compiled())]
    (found,), _ = measured(subjects, None, 2 * ROUND)
    assert asked == [False, True]
    assert found.run is not None
    assert found.run.roof is not None
    assert found.times[0].limit > found.times[0].minimum


def test_each_function_of_a_module_is_measured() -> None:
    module = glow_nb.compile(
        GRAPH + GRAPH.replace("@main", "@other"), backend="interpreter", threads=1
    )
    (found,) = measured([Subject(module, programs_of(module))], None, 2)
    assert [one.run is not None for one in found] == [True, True]


def test_the_machine_is_told_with_its_raised_peaks() -> None:
    levels = (MemoryLevel("L1", 32768, 2e11, 1e11, caches=2), MemoryLevel("DRAM", 0, 1e10, 8e9))
    limits = MachineLimits(2, 1e11, levels, (DotRate("tile_dot_vpdpbusd", 4e11),))
    roof = roof_of(limits, ("tile_dot_vpdpbusd",))
    assert roof.peaks == (("multiply-adds of float32", 1e11), ("vpdpbusd", 4e11))
    assert roof.raised == ("vpdpbusd",)
    assert dict(roof.machine)["threads"] == "2"
    assert dict(roof.machine)["L1, 32.00 KiB x 2"].startswith("read 200.00 GB/s, write ")
    assert "processor" in dict(roof.machine)
