"""Processors."""

from dataclasses import replace

import pytest

from glow_nb.errors import OptionError
from glow_nb.kernels.target import LANE_COUNTS, Target


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
