"""How long kernels take, by the numbers of a device's description (a roofline).

A kernel takes as long as its arithmetic or its bytes, whichever is longer, and a little time of its
own. Arithmetic that is no multiply-add takes more of a vector's time, in the ratio that
is known of usual processors. Where it is known which part of that speed a kernel
reaches, it takes as much longer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from glow_nb.base.costs import InstructionCost
from glow_nb.kernels.machine.rows import AVX2
from glow_nb.runtime.devices.device_description import DeviceDescription

USUAL = AVX2
"""Typical rates, for processors without a description."""

KERNEL_SECONDS = USUAL.call_ns * 1e-9
"""The seconds that a call of a kernel takes, whatever it computes."""

OTHER = USUAL.other_ns / USUAL.multiply_add_ns
"""How many multiply-adds take as long as one operation of another kind."""


@dataclass(frozen=True)
class KernelWork:
    """What a kernel does, as far as its time depends on it.

    Attributes:
        cost: Its arithmetic and the bytes that it moves.
        efficiency: The part of the roofline's speed that it reaches.
    """

    cost: InstructionCost
    efficiency: float = 1.0

    def seconds(self, device: DeviceDescription) -> float:
        """Return how long it takes on *device*."""
        arithmetic = self.cost.executed.multiply_adds + OTHER * self.cost.executed.others
        computing = arithmetic / device.multiply_adds_per_second
        moving = self.cost.bytes / device.memory_bytes_per_second
        return (KERNEL_SECONDS + max(computing, moving)) / self.efficiency


def kernel_seconds(kernels: Iterable[KernelWork], device: DeviceDescription) -> float:
    """Return how long *kernels* take on *device*, one after the other."""
    return sum((kernel.seconds(device) for kernel in kernels), 0.0)


def measured(device: DeviceDescription) -> DeviceDescription:
    """Return *device* with the rates that its cores have on this machine, which are measured once.

    What is read comes from the level of memory that holds most: weights seldom stay in a cache.
    """
    from glow_nb.codegen.measure_limits import machine_limits  # loads the code generator

    limits = machine_limits(device.cores)
    return dataclasses.replace(
        device,
        multiply_adds_per_second=limits.flop_rate / 2,
        memory_bytes_per_second=limits.levels[-1].read_rate,
    )
