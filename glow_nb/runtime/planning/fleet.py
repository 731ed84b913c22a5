"""The devices of a plan: which are alike, what they may hold, and which units they cannot run."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from glow_nb.backends import Backend
from glow_nb.llir.form import Form, form_of
from glow_nb.llir.program import Program
from glow_nb.runtime.deploy import backend_of, memory_beside
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.planning.candidate_parts import Floats
from glow_nb.runtime.planning.costs import kernel_seconds
from glow_nb.runtime.planning.moves import is_copy
from glow_nb.runtime.planning.split import Splitter
from glow_nb.runtime.planning.units import Units

MOST_ASKED = 1000
"""Programs with more kernels are planned without asking kernels for their working memory."""


@dataclass(frozen=True)
class Kind:
    """Devices that are alike for a plan: the same rates, links, limits and operators.

    Attributes:
        devices: All of them.
        memory_bytes: The memory of one device.
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
        units: The units to run.
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

    def backend_for(self, device: DeviceDescription) -> Backend:
        """Return the backend of *device*, the same one for devices that are alike to it."""
        key = device.backend, device.cores, device.without, device.precision, device.keep
        if key not in self._backends:
            self._backends[key] = backend_of(device)
        return self._backends[key]

    @cached_property
    def _backends(self) -> dict[Hashable, Backend]:
        return {}

    @cached_property
    def seconds(self) -> Floats:
        """The time of each unit on a device of each kind, ``[kind, unit]``.

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
        """The time of the host's tensors from and to each unit, ``[kind, unit]``.

        What several units read counts for the first of them: they may be one part.
        """
        times = np.zeros((len(self.kinds), len(self.units.units)))
        for number, kind in enumerate(self.kinds):
            for edge in self.units.edges:
                seconds = kind.device.link.seconds(edge.size_bytes)
                if edge.producer is None:
                    times[number, edge.readers[0]] += seconds
                elif edge.is_output:
                    times[number, edge.producer] += seconds
        return times

    @cached_property
    def least(self) -> Floats:
        """The time of each unit on its fastest device, with the host's tensors."""
        least: Floats = (self.seconds + self.host_seconds).min(axis=0)
        return least

    @cached_property
    def scratch(self) -> list[list[int]]:
        """The working memory that each unit needs at least, ``[kind][unit]``.

        Kernels of one form need the same. Of a program with thousands of kernels, whose plans are
        no longer the best, it is not asked.
        """
        splitter = Splitter(self.units.program)
        return [self._scratch_on(kind.device, splitter) for kind in self.kinds]

    def _scratch_on(self, device: DeviceDescription, splitter: Splitter) -> list[int]:
        if len(self.units.program.work) > MOST_ASKED:
            return [0] * len(self.units.units)
        work = self.units.program.work
        forms = {n: form_of(one) for n, one in enumerate(work) if not is_copy(one)}  # those vanish
        asked: dict[Form, int] = {}
        for number, form in forms.items():
            if form not in asked:
                asked[form] = self._scratch_of(splitter.part([number], ""), device)
        return [
            max((asked[forms[n]] for n in unit.instructions if n in forms), default=0)
            for unit in self.units.units
        ]

    def _scratch_of(self, program: Program, device: DeviceDescription) -> int:
        """Return the working memory of the one kernel of *program*."""
        if program.activations:  # which have no place yet
            return 0
        return memory_beside(program, self.backend_for(device), device.cores).scratch_bytes

    @cached_property
    def least_scratch(self) -> list[float]:
        """The working memory that each unit needs at least, wherever it runs."""
        least: list[float] = np.min(self.scratch, axis=0).tolist()
        return least

    def merged(self, groups: Sequence[int]) -> Fleet:
        """Return the fleet with larger units: *groups* has the number of that of each unit."""
        kinds = []
        for kind in self.kinds:
            barred = [False] * (max(groups, default=-1) + 1)
            for group, is_barred in zip(groups, kind.barred, strict=True):
                barred[group] |= is_barred
            kinds.append(dataclasses.replace(kind, barred=tuple(barred)))
        return Fleet(self.units.merged(groups), tuple(kinds))

    def least_transfer_seconds(self, size_bytes: int) -> float:
        """Return the time of *size_bytes* on the fastest link."""
        devices = [kind.device for kind in self.kinds]
        links = [link for device in devices for link in (device.link, *device.links.values())]
        return min(link.seconds(size_bytes) for link in links)


def fleet_of(
    units: Units,
    devices: Sequence[DeviceDescription],
    limits: Mapping[str, int],
    barred: Mapping[str, Sequence[bool]],
) -> Fleet:
    """Return *devices* by kind.

    Args:
        units: The units to run.
        devices: The devices.
        limits: The memory limits of some devices, by name.
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
