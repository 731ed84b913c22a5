"""Profiles: what is made of time stamps. Nothing here depends on how long anything takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import glow_nb
from glow_nb.backends.backend import Timings, kernel_ns
from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.base.errors import FeedError, OptionError, UnsupportedError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.commands.profile import totals
from glow_nb.network.profile import Profile, kernel_times
from glow_nb.network.profiling import profile_executable
from tests.unit.commands.samples import call, fails, write_dense

LIMITS = MachineLimits(2, 100e9, (MemoryLevel("DRAM", 0, 10e9, 10e9),))
REPORTS = (
    KernelReport(
        "product", "fc", "matmul", cost=InstructionCost(Cost(1000), Cost(500), 100, 20, 30)
    ),
    KernelReport("copy", "out", "copy", cost=InstructionCost(Cost(), Cost(), 0, 1000, 0)),
)
STAMPS = np.array(
    [
        [[[0, 100], [100, 400]], [[0, 50], [2000, 2300]]],  # a run: two threads, two kernels
        [[[9000, 9300], [9300, 9400]], [[9000, 9200], [9300, 9350]]],
        [[[20000, 20200], [20200, 20400]], [[20000, 20200], [20200, 20400]]],
    ],
    np.int64,
)


@pytest.fixture
def profile() -> Profile:
    timings = Timings(STAMPS, (1e-6, 2e-6, 3e-6))
    return Profile("net", 2, kernel_times(REPORTS, timings, LIMITS), timings, LIMITS)


def test_a_kernel_takes_as_long_as_a_share_is_under_way(profile: Profile) -> None:
    product, copy = profile.kernels
    assert product.min_seconds == pytest.approx(100e-9)
    assert product.median_seconds == pytest.approx(200e-9)
    assert copy.min_seconds == pytest.approx(100e-9)
    assert copy.median_seconds == pytest.approx(200e-9)
    assert product.share == copy.share == pytest.approx(0.5)
    assert profile.kernel_seconds == pytest.approx(400e-9)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([[10, 20], [20, 30]], 20),  # one thread did both in turn
        ([[20, 30], [10, 20]], 20),
        ([[10, 20], [12, 25]], 15),
        ([[10, 40], [20, 30], [35, 50]], 40),
        ([[10, 20], [50, 60]], 20),
        ([[0, 0], [10, 20]], 10),  # one has no part in the kernel
        ([[10, 20]], 10),
    ],
)
def test_shares_of_one_thread_add_up(shares: list[list[int]], expected: int) -> None:
    stamps = np.array(shares, np.int64)[:, np.newaxis]  # of one kernel
    assert kernel_ns(stamps).tolist() == [expected]
    assert kernel_ns(np.stack([stamps, stamps])).tolist() == [[expected], [expected]]


def test_rates_and_bounds(profile: Profile) -> None:
    product, copy = profile.kernels
    assert product.flop_rate == pytest.approx(2000 / 100e-9)
    assert product.executed_flop_rate == pytest.approx(1000 / 100e-9)
    assert product.bound == "memory"  # 150 bytes at 10 GB/s take longer than 1000 operations
    assert product.bound_seconds == pytest.approx(15e-9)
    assert copy.bound_seconds == pytest.approx(100e-9)
    assert copy.fraction == pytest.approx(1.0)


def test_the_peak_is_that_of_the_dot_instruction(profile: Profile) -> None:
    """One operation a nanosecond by multiply-adds; a tile does ten."""
    dots = (DotRate("tile_dot_tdpbusd", 10e9),)
    limits = MachineLimits(2, 1e9, (MemoryLevel("DRAM", 0, 1e12, 1e12),), dots)
    for dot, seconds, limit in (
        ("tile_dot", 1000e-9, "arithmetic"),
        ("tile_dot_tdpbusd", 100e-9, "arithmetic of tdpbusd"),
        ("tile_dot_tdpbuud", 100e-9, "arithmetic of tdpbusd"),  # which is as fast
    ):
        reports = (replace(REPORTS[0], dot=dot), REPORTS[1])
        product, copy = kernel_times(reports, profile.timings, limits)
        assert product.limit_seconds == pytest.approx(seconds)
        assert (product.limit, copy.limit) == (limit, "memory, DRAM")


def test_runs_last_from_the_first_begin_to_the_last_end(profile: Profile) -> None:
    assert profile.runs == 3
    assert profile.run_seconds == pytest.approx([2300e-9, 400e-9, 400e-9])
    title, head, first, second = str(profile).splitlines()
    assert title == "net: 2 kernels, threads 2, runs 3, min 0.4 us, median 0.4 us"
    assert head.split()[:3] == ["kernel", "made", "from"]
    assert [first.split()[0], second.split()[0]] == [k.report.family for k in profile.kernels]
    assert repr(profile) == f"<Profile {title}>"


def test_json_holds_every_kernel(profile: Profile) -> None:
    stored = json.loads(json.dumps(profile.as_json()))
    assert stored["plain_run_median_seconds"] == 2e-6
    assert stored["limits"]["flop_rate"] == 100e9
    assert [kernel["origin"] for kernel in stored["kernels"]] == ["fc", "out"]
    assert stored["kernels"][0]["flops"] == 2000
    assert stored["kernels"][0]["executed_flops"] == 1000


def test_trace_has_a_row_for_each_thread(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profile.save_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert rows == {0: "thread 0", 1: "thread 1"}
    bars = [event for event in events if event["ph"] == "X"]
    assert all(bar["ts"] >= 0 and bar["dur"] >= 0 for bar in bars)
    for thread in (0, 1):
        row = [bar for bar in bars if bar["tid"] == thread]
        assert [bar["name"] for bar in row] == ["fc", "out"]
        ends = [bar["ts"] + bar["dur"] for bar in row]
        assert all(bar["ts"] >= end for bar, end in zip(row[1:], ends, strict=False))


def test_trace_shows_long_waits() -> None:
    stamps = np.array([[[[0, 100], [100, 3000]], [[0, 50], [2000, 2300]]]], np.int64)
    timings = Timings(stamps, (1.0,))
    profile = Profile("net", 2, kernel_times(REPORTS, timings), timings)
    waits = [event for event in profile.chrome_trace()["traceEvents"] if event["name"] == "wait"]
    assert [(wait["tid"], wait["ts"], wait["dur"]) for wait in waits] == [(1, 0.05, 1.95)]


def test_a_thread_without_a_part_in_a_kernel_has_no_bar() -> None:
    stamps = np.array([[[[1000, 1100], [1100, 4000]], [[0, 0], [2100, 2300]]]], np.int64)
    timings = Timings(stamps, (1.0,))
    profile = Profile("net", 2, kernel_times(REPORTS, timings), timings)
    assert profile.run_seconds == [pytest.approx(3000e-9)]
    bars = [event for event in profile.chrome_trace()["traceEvents"] if event["ph"] == "X"]
    second = [(bar["name"], bar["ts"], bar["dur"]) for bar in bars if bar["tid"] == 1]
    assert second == [("wait", 0.0, 1.1), ("out", 1.1, 0.2)]


def test_without_limits_there_is_no_bound() -> None:
    kernel = kernel_times(REPORTS, Timings(STAMPS, ()))[0]
    assert (kernel.bound, kernel.bound_seconds, kernel.fraction) == ("", 0.0, 0.0)


def test_times_beside_other_limits(profile: Profile) -> None:
    assert not profile.beats_limits
    slow = MachineLimits(2, 1e9, LIMITS.levels)
    beaten = profile.with_limits(slow)
    assert beaten.beats_limits
    assert beaten.limits == slow
    assert beaten.kernels[0].bound == "arithmetic"
    assert beaten.kernels[0].limit_seconds == pytest.approx(1000e-9)
    assert beaten.kernels[0].bound_seconds == beaten.kernels[0].min_seconds
    assert [k.is_raised for k in beaten.kernels] == [True, False]
    assert all(k.fraction <= 1 for k in beaten.kernels)
    assert any(
        line.startswith("raised      1 limit to the observed rates") for line in totals(beaten)
    )
    assert not any(line.startswith("raised") for line in totals(profile))
    assert [k.min_seconds for k in beaten.kernels] == [k.min_seconds for k in profile.kernels]


def test_an_empty_network_has_an_empty_profile() -> None:
    timings = Timings(np.zeros((2, 1, 0, 2), np.int64), (0.0, 0.0))
    profile = Profile("empty", 1, kernel_times((), timings), timings)
    assert profile.run_seconds == [0.0, 0.0]
    assert [e["ph"] for e in profile.chrome_trace()["traceEvents"]] == ["M", "M"]


def dense(folder: Path, batch: int | str = 2, **options: object) -> glow_nb.Network:
    return glow_nb.compile(str(write_dense(folder, batch)), threads=2, **options)  # type: ignore[arg-type]


@pytest.mark.jit
@pytest.mark.usefixtures("sharing_is_free")
def test_kernels_of_a_compiled_network(tmp_path: Path) -> None:
    network = dense(tmp_path)
    x = np.ones((2, 3), np.float32)
    before = network.run(x)["y"]
    profile = network.profile(x, runs=3, limits=False)
    assert profile.timings.stamps.shape == (3, 2, len(network.kernels), 2)
    assert [kernel.threads for kernel in network.kernels] == [2] * len(network.kernels)
    assert [kernel.report for kernel in profile.kernels] == list(network.kernels)
    assert all(k.instruction.startswith(f"{k.opcode} ") for k in network.kernels)
    stamps = profile.timings.stamps
    assert (stamps > 0).all()
    assert (stamps[..., 1] >= stamps[..., 0]).all()
    assert (stamps[:, :, 1:, 0] >= stamps[:, :, :-1, 1]).all()
    assert profile.cost.nominal.multiply_adds == 72
    np.testing.assert_array_equal(network.run(x)["y"], before)


def test_the_interpreter_has_a_profile_too(tmp_path: Path) -> None:
    network = dense(tmp_path, backend="interpreter")
    profile = network.profile(np.ones((2, 3), np.float32), runs=2, limits=False)
    assert profile.timings.stamps.shape == (2, 1, len(network.kernels), 2)
    assert (profile.timings.stamps[..., 1] >= profile.timings.stamps[..., 0]).all()


def test_a_network_of_open_shapes(tmp_path: Path) -> None:
    network = dense(tmp_path, "n", backend="interpreter")
    profile = network.profile(np.ones((5, 3), np.float32), runs=1, limits=False)
    assert profile.cost.nominal.multiply_adds == 5 * 36


def test_bad_arguments(tmp_path: Path) -> None:
    network = dense(tmp_path, backend="interpreter")
    with pytest.raises(OptionError, match="runs=0"):
        network.profile(np.ones((2, 3), np.float32), runs=0, limits=False)
    with pytest.raises(FeedError, match="shape"):
        network.profile(np.ones((3, 3), np.float32), limits=False)
    with pytest.raises(UnsupportedError, match="timings"):
        profile_executable("net", object(), [], runs=1, limits=None)


def test_command_prints_a_table_and_totals(tmp_path: Path) -> None:
    path = write_dense(tmp_path)
    trace, stored = tmp_path / "trace.json", tmp_path / "profile.json"
    result = call(
        "profile", path, "--backend", "interpreter", "--runs", 2, "--trace", trace, "--json",
        stored,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[1].split()[:5] == ["kernel", "made", "from", "threads", "min"]
    assert [line.split()[0] for line in lines[2:4]] == ["mat_mul", "relu"]
    assert any(line.startswith("plain run") for line in lines)
    assert not any(line.endswith(" ") for line in lines)
    assert json.loads(trace.read_text())["traceEvents"]
    assert len(json.loads(stored.read_text())["kernels"]) == 2


def test_command_sorts_and_cuts(tmp_path: Path) -> None:
    arguments = ("--backend", "interpreter", "--runs", 1, "--sort", "flops", "--top", 1)
    result = call("profile", write_dense(tmp_path), *arguments)
    assert "mat_mul" in result.stdout
    assert "... 1 more; those shown take " in result.stdout
    result = call("profile", write_dense(tmp_path), *arguments, "--json", "-")
    assert json.loads(result.stdout)["runs"] == 1


def test_command_refuses(tmp_path: Path) -> None:
    path = write_dense(tmp_path)
    interpreter = ("--backend", "interpreter", "--runs", 1)
    assert "unknown input" in fails("profile", path, "--input", "z=a.npy", *interpreter)
    assert "there is no folder" in fails(
        "profile", path, "--trace", tmp_path / "no" / "t.json", *interpreter
    )
    assert "without the machine's limits" in fails(
        "profile", path, "--roofline", tmp_path / "r.png", *interpreter
    )
    fails("profile", path, "--runs", 0, code=2)
