"""The devices of a plan: which are alike, what they may hold, and which units they cannot run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.costs import kernel_seconds
from glow_nb.runtime.planning.stretches import Floats
from glow_nb.runtime.planning.units import Units


@dataclass(frozen=True)
class Kind:
    """Devices that are alike for a plan: the same rates, links, limits and operators.

    Attributes:
        devices: All of them.
        memory_bytes: What one may hold.
        barred: For each unit, whether it cannot run there.
    """

    devices: tuple[DeviceDescription, ...]
    memory_bytes: int
    barred: tuple[bool, ...] = field(repr=False)

    @property
    def device(self) -> DeviceDescription:
        """One of them."""
        return self.devices[0]


@dataclass(frozen=True, eq=False)
class Fleet:
    """All devices of a plan.

    Attributes:
        units: What they are to run.
        kinds: The devices by kind.
    """

    units: Units
    kinds: tuple[Kind, ...]

    @property
    def devices(self) -> list[DeviceDescription]:
        """All devices, kind by kind."""
        return [device for kind in self.kinds for device in kind.devices]

    @property
    def kind_of_device(self) -> list[int]:
        """The number of the kind of each device."""
        return [number for number, kind in enumerate(self.kinds) for _ in kind.devices]

    @cached_property
    def seconds(self) -> Floats:
        """How long each unit takes on a device of each kind, ``[kind, unit]``.

        It is infinite where the unit cannot run.
        """
        times = np.array(
            [
                [kernel_seconds(unit.kernels, kind.device) for unit in self.units.units]
                for kind in self.kinds
            ]
        ).reshape(len(self.kinds), len(self.units.units))
        times[np.array([kind.barred for kind in self.kinds]).reshape(times.shape)] = np.inf
        return times

    @cached_property
    def host_seconds(self) -> Floats:
        """How long the host's tensors take from and to each unit, ``[kind, unit]``.

        What several units read counts for the first of them: they may be one part.
        """
        times = np.zeros((len(self.kinds), len(self.units.units)))
        for number, kind in enumerate(self.kinds):
            for value in self.units.values:
                seconds = kind.device.link.seconds(value.size_bytes)
                if value.producer is None:
                    times[number, value.readers[0]] += seconds
                elif value.is_output:
                    times[number, value.producer] += seconds
        return times


def fleet_of(
    units: Units,
    devices: Sequence[DeviceDescription],
    limits: Mapping[str, int],
    barred: Mapping[str, Sequence[bool]],
) -> Fleet:
    """Return *devices* by kind.

    Args:
        units: What they are to run.
        devices: The devices.
        limits: What some devices may hold at most, by name.
        barred: For each device by name, whether it cannot run each unit.
    """
    named = {name for device in devices for name in device.links}
    kinds: dict[object, list[DeviceDescription]] = {}
    for device in devices:
        own_links = device.name if device.links or device.name in named else ""
        alike = dataclasses.replace(device, name="", links={}, options={}, kind="")
        key = (str(alike), own_links, _room(device, limits), tuple(barred[device.name]))
        kinds.setdefault(key, []).append(device)
    return Fleet(
        units,
        tuple(
            Kind(tuple(found), _room(found[0], limits), tuple(barred[found[0].name]))
            for found in kinds.values()
        ),
    )


def _room(device: DeviceDescription, limits: Mapping[str, int]) -> int:
    return min(device.memory_bytes, limits.get(device.name, device.memory_bytes))
