"""Peaks that a kernel exceeds: they are raised for all kernels, and a profile says so."""

from __future__ import annotations

import numpy as np
import pytest

from glow_nb.backends.backend import Timings
from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.base.errors import MemoryLimitError
from glow_nb.base.kernel_report import KernelReport
from glow_nb.base.machine_limits import DotRate, MachineLimits, MemoryLevel
from glow_nb.commands.profile import totals
from glow_nb.network.profile import Profile, kernel_times
from glow_nb.network.profiling import beside_limits

LEVELS = (MemoryLevel("L2", 10_000, 1e12, 1e12), MemoryLevel("DRAM", 0, 10e9, 10e9))
DOTS = (DotRate("tile_dot_vpdpbusd", 2e9),)
LIMITS = MachineLimits(1, 1e9, LEVELS, DOTS)


def report(name: str, multiply_adds: int, moved: int = 8, dot: str = "") -> KernelReport:
    cost = InstructionCost(Cost(multiply_adds), Cost(multiply_adds), 0, moved, 0)
    return KernelReport(name, name, "mat_mul", cost=cost, dot=dot)


def profile_of(*kernels: tuple[KernelReport, int]) -> Profile:
    """Return a profile of kernels with their nanoseconds, in one run."""
    ends = np.cumsum([time for _, time in kernels])
    stamps = np.array([[[[end - time, end] for end, (_, time) in zip(ends, kernels, strict=True)]]])
    timings = Timings(stamps, (1e-6,))
    return Profile("net", 1, kernel_times([one for one, _ in kernels], timings), timings)


class Limited:
    """What runs on a machine that was busy while its limits were measured, each time."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def limits(self, *, were_beaten: bool = False) -> MachineLimits:
        self.asked.append(were_beaten)
        return LIMITS


def test_a_peak_that_a_kernel_exceeds_twice_is_raised_for_all_kernels() -> None:
    machine = Limited()
    fast, slow, bytes = (
        report("fast", 1000),
        report("slow", 1000),
        report("b", 1000, dot=DOTS[0].dot),
    )
    profile = beside_limits(profile_of((fast, 1000), (slow, 1600), (bytes, 4000)), machine)
    assert machine.asked == [False, True]
    assert profile.limits is not None
    assert profile.limits.flop_rate == pytest.approx(2e9)
    assert profile.limits.dots == LIMITS.dots
    assert profile.raised == ("",)
    assert [kernel.fraction for kernel in profile.kernels] == [
        pytest.approx(1.0),
        pytest.approx(1000 / 1600),
        pytest.approx(1000 / 4000),
    ]
    assert [kernel.is_raised for kernel in profile.kernels] == [True, False, False]
    assert "raised      the peak of float32, to the 2.00 GFLOP/s that a kernel reached" in totals(
        profile
    )


def test_the_peak_of_a_dot_instruction_is_raised_by_itself() -> None:
    bytes = report("bytes", 4000, dot=DOTS[0].dot)
    profile = beside_limits(profile_of((bytes, 1000)), Limited())
    assert profile.limits is not None
    assert profile.limits.flop_rate == LIMITS.flop_rate
    assert profile.limits.dots[0].operation_rate == pytest.approx(8e9)
    assert profile.raised == (DOTS[0].dot,)


def test_limits_that_get_no_memory_end_in_one_error() -> None:
    class Full:
        def limits(self, *, were_beaten: bool = False) -> MachineLimits:
            raise MemoryError

    with pytest.raises(MemoryLimitError, match="network 'net'"):
        beside_limits(profile_of((report("any", 100), 1)), Full())


def test_short_kernels_raise_no_peak() -> None:
    profile = beside_limits(
        profile_of((report("short", 100), 1), (report("long", 100), 900)), Limited()
    )
    assert profile.limits == LIMITS
    assert profile.raised == ()
    assert profile.kernels[0].is_raised


def test_memory_limits_say_of_which_level() -> None:
    copy, large = report("copy", 0, 9_000), report("large", 0, 90_000)
    near, far = beside_limits(profile_of((copy, 100_000), (large, 100_000)), Limited()).kernels
    assert (near.level, far.level) == ("L2", "DRAM")
    assert (near.limit, far.limit) == ("memory, L2", "memory, DRAM")
