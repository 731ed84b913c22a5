"""A simulated device: its time is estimated, and it fails as often as its options say."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from typing_extensions import override

from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.costs import InstructionCost
from glow_nb.base.errors import OptionError
from glow_nb.base.size import hinted, symbols_of
from glow_nb.base.sizes_of_shapes import sizes_of_shapes
from glow_nb.base.types import Array
from glow_nb.codegen.load_native import load
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.llir.cost import instruction_cost
from glow_nb.llir.order_placement import program_at_hints
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.engine import Engine
from glow_nb.runtime.devices.options import DeviceOptions, read_options
from glow_nb.runtime.devices.thread_device import Runner, ThreadDevice
from glow_nb.runtime.planning.costs import KernelWork, kernel_seconds


@dataclass(frozen=True)
class SimulatedOptions(DeviceOptions):
    """The options of a simulated device.

    Attributes:
        computes: Whether results are computed; otherwise they are zeros.
        time_scale: Seconds that a run takes for each second of the estimate; 0 does not wait.
        failure_rate: The share of runs in which the device dies.
        hang_rate: The share of runs in which it stops to answer until it is killed.
        seed: Decides in which runs, the same ones each time.
    """

    computes: bool = True
    time_scale: float = 0.0
    failure_rate: float = 0.0
    hang_rate: float = 0.0
    seed: int = 0

    @override
    def __post_init__(self) -> None:
        """Raise OptionError for a value that means nothing."""
        super().__post_init__()
        if not self.time_scale >= 0:
            raise OptionError(f"time_scale={self.time_scale}: give 0 or more")
        for name in ("failure_rate", "hang_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"{name}={getattr(self, name)}: give a number from 0 to 1")


class SimulatedDevice(ThreadDevice):
    """A device with the speed, the memory and the link of its description, for tests and plans."""

    def __init__(self, description: DeviceDescription) -> None:
        """Start the device that *description* tells of.

        Raises:
            OptionError: An option has no meaning.
        """
        self._options = read_options(description, SimulatedOptions)
        self._chance = random.Random(self._options.seed)
        self._seconds = 0.0
        super().__init__(description)

    @property
    def busy_seconds(self) -> float:
        """The estimated time of all its runs, however long they took here."""
        return self._seconds

    @override
    def _start(self) -> Engine:
        self._is_killed = threading.Event()
        return super()._start()

    @override
    def kill(self, reason: str) -> None:
        is_killed = self._is_killed
        super().kill(reason)
        is_killed.set()

    @override
    def _load(self, network: Deployable) -> Runner:
        compute = _compute(network) if self._options.computes else partial(_zeros, network)
        seconds = self._estimate(network)
        is_killed = self._is_killed

        def run(inputs: Sequence[Array]) -> list[Array]:
            self._seconds += seconds
            chance = self._chance.random()
            if chance < self._options.failure_rate:
                self.kill(f"it failed, as it does in {self._options.failure_rate} of its runs")
            elif chance < self._options.failure_rate + self._options.hang_rate:
                is_killed.wait()
            if self._options.time_scale:
                time.sleep(seconds * self._options.time_scale)
            return compute(inputs)

        return run

    def _estimate(self, network: Deployable) -> float:
        """Return the seconds of one run: the kernels', and those of inputs and outputs.

        A run of open sizes takes as long as that of the example.
        """
        description = self.description
        tensors = (*network.inputs, *network.outputs)
        transfers = sum(description.link.seconds(hinted(type.size_bytes)) for _, type in tensors)
        return transfers + kernel_seconds(map(KernelWork, _costs(network)), description)


def _costs(network: Deployable) -> list[InstructionCost]:
    if isinstance(network.program, NativeProgram):
        return [kernel.cost for kernel in network.program.kernels]
    return [instruction_cost(instruction) for instruction in program_at_hints(network.program).work]


def _compute(network: Deployable) -> Runner:
    if isinstance(network.program, NativeProgram):
        return load(network.program).run_checked
    return Interpreter().compile(network.program).run


def _zeros(network: Deployable, inputs: Sequence[Array]) -> list[Array]:
    types = dict(network.inputs)
    symbols = symbols_of(*(size for type in types.values() for size in type.shape))
    shapes = {name: array.shape for name, array in zip(types, inputs, strict=True)}
    sizes = sizes_of_shapes(types, symbols, shapes)
    return [np.zeros(type.at(sizes).shape, type.kind.dtype) for _, type in network.outputs]
