"""Processors."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from glow_nb.base.errors import OptionError
from glow_nb.kernels import target
from glow_nb.kernels.machine.rows import ROWS
from glow_nb.kernels.target import CACHES_VARIABLE, LANE_COUNTS, Target


def test_host_has_sane_sizes() -> None:
    host = Target.host()
    assert host.lanes == host.native_lanes
    assert host.lanes in LANE_COUNTS
    assert 8 << 10 <= host.l1_bytes <= host.l2_bytes <= host.l3_bytes


@pytest.mark.parametrize("lanes", LANE_COUNTS)
def test_width_can_be_forced(lanes: int) -> None:
    assert Target.host(lanes) == replace(Target.host(), lanes=lanes)


def test_other_widths_are_refused() -> None:
    with pytest.raises(OptionError, match="32 lanes"):
        Target.host(32)


@pytest.mark.parametrize(
    ("triple", "features", "registers", "lanes"),
    [
        ("x86_64-unknown-linux-gnu", "+sse4.2,-avx,-avx512f,-avx512vl", 16, 4),
        ("x86_64-unknown-linux-gnu", "+avx,+avx2,+fma,-avx512f,-avx512vl", 16, 8),
        ("x86_64-unknown-linux-gnu", "+avx,+avx2,+avx512f,+avx512vl", 32, 16),
        ("aarch64-unknown-linux-gnu", "+neon", 32, 4),
        ("arm64-apple-darwin", "+neon", 32, 4),
    ],
)
def test_registers_follow_the_features(
    triple: str, features: str, registers: int, lanes: int
) -> None:
    target = Target(triple, "generic", features, lanes)
    assert (target.vector_registers, target.native_lanes) == (registers, lanes)


@pytest.mark.parametrize(
    ("cpu", "features", "lanes", "passes"),
    [
        ("znver4", "+avx,+avx2,+avx512f,+avx512vl", 16, 2),
        ("znver4", "+avx,+avx2,+avx512f,+avx512vl", 8, 1),
        ("znver4", "+avx,+avx2", 8, 1),
        ("znver5", "+avx,+avx2,+avx512f,+avx512vl", 16, 1),
        ("znver3", "+avx,+avx2", 8, 1),
        ("znver3", "+avx,+avx2", 16, 2),
        ("znver3", "+avx,+avx2", 4, 1),
    ],
)
def test_long_vectors_take_as_many_passes_as_the_units_need(
    cpu: str, features: str, lanes: int, passes: int
) -> None:
    assert Target("x86_64-unknown-linux-gnu", cpu, features, lanes).passes == passes


CHILD = """
from glow_nb.kernels.target import Target
host = Target.host()
print(host.l1_bytes, host.l2_bytes, host.l3_bytes)
"""


def test_processes_plan_for_the_caches_that_the_environment_names() -> None:
    row = ROWS["sapphire_rapids"]
    root = str(Path(__file__).parents[3])
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        env=os.environ | {CACHES_VARIABLE: row.name, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout.split() == [str(n) for n in (row.l1_bytes, row.l2_bytes, row.l3_bytes)]


def test_a_machine_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    target._host_caches.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv(CACHES_VARIABLE, "abacus")
        with pytest.raises(OptionError, match="_OF='abacus': no machine; give one of .*'zen3'"):
            Target.host()
