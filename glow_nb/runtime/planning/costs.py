"""How long kernels and transfers take, by the numbers of a device's description (a roofline).

A kernel takes as long as its arithmetic or its bytes, whichever is longer, and a little time of its
own. Arithmetic that is no multiply-add takes more of a vector's time, in the ratio that
:mod:`glow_nb.codegen.sharing` has measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from glow_nb.codegen.sharing import CALL_NS, MULTIPLY_ADD_NS, OTHER_NS
from glow_nb.costs import InstructionCost
from glow_nb.runtime.devices.device_description import DeviceDescription

KERNEL_SECONDS = CALL_NS * 1e-9
"""Of any kernel, whatever it does."""

OTHER = OTHER_NS / MULTIPLY_ADD_NS
"""Multiply-adds that take as long as another operation."""


def kernel_seconds(costs: Iterable[InstructionCost], device: DeviceDescription) -> float:
    """Return how long kernels of these costs take on *device*, one after the other."""
    total = 0.0
    for cost in costs:
        work = cost.executed.multiply_adds + OTHER * cost.executed.others
        computing = work / device.multiply_adds_per_second
        total += KERNEL_SECONDS + max(computing, cost.bytes / device.memory_bytes_per_second)
    return total


def measured(device: DeviceDescription) -> DeviceDescription:
    """Return *device* with the rates of this machine for as many cores, which are measured once.

    What is read comes from the level of memory that holds most: weights seldom stay in a cache.
    """
    from glow_nb.codegen.measure_limits import machine_limits  # loads the code generator

    limits = machine_limits(device.cores)
    return dataclasses.replace(
        device,
        multiply_adds_per_second=limits.flop_rate / 2,
        memory_bytes_per_second=limits.levels[-1].read_rate,
    )
