"""How long kernels take by a description, and the rates of this machine."""

from __future__ import annotations

import pytest

from glow_nb.base.costs import Cost, InstructionCost
from glow_nb.base.machine_limits import MachineLimits, MemoryLevel
from glow_nb.codegen import measure_limits
from glow_nb.runtime import DeviceDescription
from glow_nb.runtime.planning.costs import KERNEL_SECONDS, KernelWork, kernel_seconds, measured

DEVICE = DeviceDescription("d", multiply_adds_per_second=1e9, memory_bytes_per_second=1e9)


def limits(threads: int) -> MachineLimits:
    """Return limits of a machine whose cores share the memory."""
    return MachineLimits(threads, 2e9 * threads, (MemoryLevel("DRAM", 0, 8e9, 8e9),))


def test_a_kernel_takes_as_long_as_its_arithmetic_or_its_bytes() -> None:
    computing = InstructionCost(executed=Cost(multiply_adds=5000), read_bytes=1000)
    moving = InstructionCost(executed=Cost(multiply_adds=1000), read_bytes=7000)
    works = [KernelWork(computing), KernelWork(moving, efficiency=0.5)]
    assert works[0].seconds(DEVICE) == pytest.approx(5e-6 + KERNEL_SECONDS)
    assert kernel_seconds(works, DEVICE) == pytest.approx(19e-6 + 3 * KERNEL_SECONDS)


def test_a_device_has_the_rates_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_limits, "machine_limits", limits)
    rates = measured(DEVICE)
    assert rates.multiply_adds_per_second == 1e9
    assert rates.memory_bytes_per_second == 8e9
