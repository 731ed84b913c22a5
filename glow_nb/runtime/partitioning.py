"""A network cut into parts, each with the device that it is to run on: what planning returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from glow_nb.hlir.graph import Function
from glow_nb.runtime.device_description import DeviceDescription
from glow_nb.types import TensorType


@dataclass(frozen=True, eq=False)
class Part:
    """A sub-network.

    Attributes:
        name: Unique in its partitioning.
        function: Its graph, optimized and lowered for the device's backend: it is compiled without
            graph passes. The names of its inputs and outputs are those of the values that go
            between parts; those of the whole network keep their names.
        device: The name of the device that it is planned for.
        constant_bytes: Memory of its weights.
        run_bytes: Memory of one run: arena, scratch, inputs and outputs.
        seconds: How long one run takes there, by the cost model.
    """

    name: str
    function: Function
    device: str
    constant_bytes: int
    run_bytes: int
    seconds: float

    @property
    def memory_bytes(self) -> int:
        """What its device needs for it."""
        return self.constant_bytes + self.run_bytes


@dataclass(frozen=True, eq=False)
class Partitioning:
    """A network as parts over devices.

    Attributes:
        name: That of the network.
        inputs: Name and type of what the whole takes, in order.
        outputs: Name and type of what the whole gives, in order.
        parts: Each behind those whose outputs it reads. A value that a part reads is an input of
            the whole or an output of exactly one part; an output of the whole is an output of one
            part, or an input that is handed through.
        devices: What was planned for, by name.
        objective: ``latency``, ``throughput`` or ``memory``.
        value: What the plan reaches by the cost model: seconds of one request, seconds between
            requests, or the bytes on the fullest device.
        lower_bound: No plan can reach less.
    """

    name: str
    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    parts: tuple[Part, ...]
    devices: Mapping[str, DeviceDescription] = field(repr=False)
    objective: str
    value: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """By how much the plan is above the bound: 0.1 is ten percent."""
        return self.value / self.lower_bound - 1 if self.lower_bound else 0.0
