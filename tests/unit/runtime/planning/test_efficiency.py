"""Plans by the times that kernels were measured to take."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from glow_nb.backends.backend import Timings
from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import OptionError
from glow_nb.base.machine_limits import MachineLimits, MemoryLevel
from glow_nb.hlir.graph import Function
from glow_nb.network.compilation import build_program, lower_for
from glow_nb.network.profile import Profile, kernel_times
from glow_nb.runtime import DeviceDescription, Partitioning, partition
from glow_nb.runtime.planning.timing import busy_seconds
from tests.unit.runtime.networks import chain, devices

LIMITS = MachineLimits(1, 2e9, (MemoryLevel("DRAM", 0, 1e9, 1e9),))
HERE = {"multiply_adds_per_second": 1e9, "memory_bytes_per_second": 1e9}
"""The rates of a device that is as fast as the limits."""


def profile_of(function: Function, *microseconds: int) -> Profile:
    """Return a profile in which the kernels of *function* take so long, one after the other."""
    backend = Interpreter()
    program = build_program(lower_for(function, backend), backend)
    reports = backend.compile(program, threads=1).kernels
    ends = 1000 * np.cumsum([*microseconds])
    stamps = np.stack([np.array([0, *ends[:-1]]), ends], axis=-1)[None, None]
    timings = Timings(stamps, (0.0,))
    return Profile("chain", 1, kernel_times(reports, timings, LIMITS), timings, LIMITS)


def plan_of(function: Function, profile: Profile | None, count: int = 2) -> Partitioning:
    made: list[DeviceDescription] = devices(count, backend="interpreter", **HERE)
    return partition(function, made, objective="throughput", profile=profile)


def test_parts_take_as_long_as_their_kernels_were_measured_to_take() -> None:
    function = chain([64] * 5, rows=64)
    plan = plan_of(function, profile_of(function, *range(1000, 9000, 1000)), 1)
    assert plan.parts[0].seconds == pytest.approx(36e-3)


def test_devices_of_other_rates_take_as_much_longer() -> None:
    function = chain([64] * 5, rows=64)
    profile = profile_of(function, *range(1000, 9000, 1000))
    (device,) = devices(1, backend="interpreter", **HERE)
    slow = dataclasses.replace(
        device, multiply_adds_per_second=1e9 / 3, memory_bytes_per_second=1e9 / 3
    )
    (part,) = partition(function, [slow], profile=profile).parts
    assert part.seconds == pytest.approx(3 * 36e-3, rel=1e-3)


def test_a_cut_comes_where_the_times_are_even() -> None:
    function = chain([64] * 5, rows=64)
    plan = plan_of(function, None)
    assert [len(part.program.work) for part in plan.parts] == [4, 4]
    slow_start = profile_of(function, 30_000, 10_000, *[5000] * 6)
    plan = plan_of(function, slow_start)
    assert [len(part.program.work) for part in plan.parts] == [2, 6]
    assert list(busy_seconds(plan).values()) == pytest.approx([40e-3, 30e-3], rel=0.01)
    assert plan.gap == 0


def test_profiles_that_say_nothing_are_refused() -> None:
    function = chain([64] * 5, rows=64)
    profile = profile_of(function, *[1000] * 8)
    with pytest.raises(OptionError, match="it has none of the kernels to be planned"):
        plan_of(chain([32] * 5), profile)
    with pytest.raises(OptionError, match=r"profile='x': give what net.profile"):
        plan_of(function, "x")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="made with limits=False"):
        plan_of(function, dataclasses.replace(profile, limits=None))
