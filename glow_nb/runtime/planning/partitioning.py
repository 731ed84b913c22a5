"""The result of planning: a network cut into parts, each with its device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from glow_nb.base.counted import Counted
from glow_nb.base.types import TensorType
from glow_nb.llir.program import Program
from glow_nb.runtime.devices.device_description import DeviceDescription


@dataclass(frozen=True, eq=False)
class Part:
    """A sub-network.

    Attributes:
        name: Unique in its partitioning.
        program: Its instructions, optimized and with their memory placed: a backend compiles it as
            it is. It has the kernels that the whole network has, so that results are the same bit
            by bit. The names of its inputs and outputs are those of the values that go between
            parts; those of the whole network keep their names.
        device: The name of the device that it is planned for.
        constant_bytes: Memory of its weights and states.
        run_bytes: Memory of one run: arena, scratch, inputs and outputs.
        seconds: The estimated time of a run there, by the cost model.
    """

    name: str
    program: Program
    device: str
    constant_bytes: int
    run_bytes: int
    seconds: float

    @property
    def inputs(self) -> tuple[tuple[str, TensorType], ...]:
        """Name and type of what a run takes, in order."""
        return tuple((buffer.name, buffer.type) for buffer in self.program.inputs)

    @property
    def outputs(self) -> tuple[tuple[str, TensorType], ...]:
        """Name and type of what a run gives, in order."""
        return tuple((buffer.name, buffer.type) for buffer in self.program.outputs)

    @property
    def memory_bytes(self) -> int:
        """The memory that its device needs for it."""
        return self.constant_bytes + self.run_bytes


@dataclass(frozen=True, eq=False)
class Partitioning:
    """A network as parts over devices.

    Attributes:
        name: The name of the network.
        inputs: Names and types of the inputs of the network, in order.
        outputs: Names and types of its outputs, in order.
        parts: Each after those whose outputs it reads. A value that a part reads is an input of
            the whole or an output of exactly one part; an output of the whole is an output of one
            part, or an input that is handed through.
        devices: The descriptions of all devices, by name.
        objective: ``latency``, ``throughput`` or ``memory``.
        value: The objective of the plan by the cost model: seconds of one request, seconds between
            requests, or the bytes on the fullest device.
        lower_bound: No plan has a lower value by the cost model; if each device has one part, no
            plan of this kind has.
        counted: For outputs with a data-dependent size, by name, which part of them is valid
            (:func:`glow_nb.base.counted.cut`).
    """

    name: str
    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    parts: tuple[Part, ...]
    devices: Mapping[str, DeviceDescription] = field(repr=False)
    objective: str
    value: float
    lower_bound: float
    counted: Mapping[str, Counted] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """By how much the plan exceeds the bound: 0.1 is ten percent."""
        return self.value / self.lower_bound - 1 if self.lower_bound else 0.0

    @override
    def __str__(self) -> str:
        """Return its value and the distance from its bound, as a sentence."""
        reached = {
            "latency": f"a request takes {self.value * 1e3:.4g} ms",
            "throughput": f"a request every {self.value * 1e3:.4g} ms",
            "memory": f"the fullest device holds {self.value / 2**20:.4g} MiB",
        }[self.objective]
        above = f"{100 * self.gap:.2f} % above the lower bound"
        parts = "1 part" if len(self.parts) == 1 else f"{len(self.parts)} parts"
        return f"for {self.objective}: {reached}, {above}; {parts}"
