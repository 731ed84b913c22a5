"""A device of a host, the copies of parts that are on it, and the runs that it has been given."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

import numpy as np
from typing_extensions import override

from glow_nb.base.arguments import described
from glow_nb.base.errors import DeviceError, GlowError, OptionError
from glow_nb.base.foreign import foreign
from glow_nb.base.misfits import fits
from glow_nb.base.types import Array, SymbolicType, symbolic
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Device, Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.statistics import DeviceStatistics

DEPTH = 2
"""Runs that a device is given at a time: the next one waits there while one is done, so that the
device need not wait for the host. What more there is waits in the host, where priorities count."""


class HostedDevice:
    """A device, with the runs and the parts that it has been given.

    The host's lock guards all attributes but ``copies``, which is the provisioner's, and
    ``away_since`` and ``next_attempt``, which are the recovery's while the device is not up.

    Attributes:
        device: The device, which may be of a class of the user.
        border: Its methods are called in this ``with`` statement: what they raise is an error of
            ours that names it.
        name: Its name.
        running: The runs (:class:`glow_nb.runtime.hosting.executor.Run`) that it has been given and
            has not ended, in order.
        is_up: Whether it takes runs; while it is being restarted it does not.
        losses: The number of times that it was lost.
        lost: Why it does not come back for now; empty while requests wait for it.
        away_since: When it was lost, by ``time.time``; None while it is up.
        next_attempt: When an attempt to restart it begins, by ``time.time``; None if there is none.
        freed: When a run on it ended last.
        used: The number of the last run that it was given, among those of all devices.
        copies: The copies of parts that are to be on it.
    """

    def __init__(self, device: Device) -> None:
        """Know nothing of *device* but that it is there."""
        self.device = device
        self.name = device.description.name
        self.border = foreign(DeviceError, self.name)
        self.running: dict[Hashable, None] = {}
        self.is_up = True
        self.losses = 0
        self.lost = ""
        self.away_since: float | None = None
        self.next_attempt: float | None = None
        self.freed = 0.0
        self.used = 0
        self.copies: list[Copy] = []

    @property
    def is_free(self) -> bool:
        """Return whether it may be given a run."""
        return self.is_up and self.load < DEPTH

    @property
    def load(self) -> int:
        """The number of its runs."""
        return len(self.running)

    @property
    def free_bytes(self) -> int:
        """Memory that is free on it; a GlowError if it cannot say that."""
        with self.border:
            return self.device.memory_free_bytes

    def health(self) -> Health:
        """Return how the device is; one that cannot say that is dead."""
        try:
            with self.border:
                health = self.device.health()
        except GlowError as error:
            health = Health(alive=False, reason=str(error))
        if self.is_up:
            return health
        return replace(
            health,
            alive=False,
            reason=self.lost or health.reason or "it is being restarted",
            away_since=self.away_since,
            next_attempt=self.next_attempt,
        )

    def kill(self, reason: str) -> None:
        """Give the device up, for *reason*; it is lost, whatever that raises."""
        with suppress(GlowError), self.border:
            self.device.kill(reason)

    def statistics(self) -> DeviceStatistics:
        """Return what the device does and holds."""
        health = self.health()
        return DeviceStatistics(
            running=self.load,
            memory_used_bytes=health.memory_used_bytes,
            memory_bytes=self.device.description.memory_bytes,
            restarts=health.restarts,
            alive=health.alive,
        )

    @override
    def __repr__(self) -> str:
        return f"<HostedDevice {self.name}, {'up' if self.is_up else self.lost or 'restarting'}>"


@dataclass(frozen=True, eq=False)
class Copy:
    """A part that is loaded on a device.

    Attributes:
        part: The part.
        device: The device.
        key: The name on the device.
        network: The name of the network.
        has_state: Whether runs change the network, so that it is lost with the device.
    """

    part: HostedPart
    device: HostedDevice
    key: str
    network: str
    has_state: bool

    def checked(self, outputs: object) -> list[Array]:
        """Return the *outputs* of a run; a device of a user may give what these cannot be.

        Raises:
            GlowError: They are no list of arrays as the part makes them.
        """
        if isinstance(outputs, list) and self.part.makes(outputs):
            return outputs
        wanted = ", ".join(f"{name!r} {type}" for name, type in self.part.deployable.outputs)
        raise GlowError(
            f"{self.device.name}: a run of network {self.network!r} gave {described(outputs)}, "
            f"but must give a list of arrays: {wanted}"
        )


@dataclass(eq=False)
class HostedPart:
    """A compiled part of a network, with its copies.

    Attributes:
        deployable: The compiled part.
        seconds: The time of a run: the plan's estimate, corrected by each run.
        copies: Where it is loaded; each run is done by one of them.
        inputs: The names of the values that it reads, in order.
        outputs: The names of the values that it makes, in order.
    """

    deployable: Deployable
    seconds: float
    copies: tuple[Copy, ...] = ()
    inputs: tuple[str, ...] = field(init=False)
    outputs: tuple[str, ...] = field(init=False)
    _made: list[SymbolicType] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = tuple(name for name, _ in self.deployable.inputs)
        self.outputs = tuple(name for name, _ in self.deployable.outputs)
        self._made = [symbolic(type) for _, type in self.deployable.outputs]

    def makes(self, values: Sequence[object]) -> bool:
        """Return whether *values* are arrays of the shapes and dtypes that a run gives."""
        return len(values) == len(self._made) and all(map(_is_of, values, self._made))

    def free_copy(self, avoided: frozenset[str] = frozenset()) -> Copy | None:
        """Return the copy on the least busy device that takes runs, or None.

        Of devices that are as busy, it is the one that was used least recently.
        """
        best: Copy | None = None
        for copy in self.copies:
            device = copy.device
            if not device.is_free or device.name in avoided:
                continue
            if best is None or (device.load, device.used) < (best.device.load, best.device.used):
                best = copy
        return best


def _is_of(value: object, type: SymbolicType) -> bool:
    """Return whether *value* is an array of *type*, which may leave sizes open."""
    assert type.kind is not None  # a type of a compiled network
    if not isinstance(value, np.ndarray) or value.dtype != type.kind.dtype:
        return False
    return fits(value.shape, type.shape or ())


def open_all(devices: Sequence[Device | DeviceDescription]) -> tuple[list[Device], list[Device]]:
    """Return the devices that were opened for descriptions, and all *devices* in order.

    Raises:
        OptionError: There is none, two have the same name, or one is no device.
        DeviceError: One does not open; those that did are closed again.
    """
    if isinstance(devices, DeviceDescription | str) or not isinstance(devices, Sequence):
        raise OptionError(
            f"devices={described(devices)}: give a list of devices or their descriptions"
        )
    for device in devices:
        if not isinstance(device, DeviceDescription) and not hasattr(device, "description"):
            raise OptionError(
                f"devices: {described(device)} is no device; give a DeviceDescription"
            )
    names = [d.name if isinstance(d, DeviceDescription) else d.description.name for d in devices]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated or not names:
        problem = f"several are called {repeated}" if names else "there is none"
        raise OptionError(f"devices: {problem}; give one or more, each with a name of its own")
    with ExitStack() as stack:
        opened: dict[str, Device] = {}
        for description in [d for d in devices if isinstance(d, DeviceDescription)]:
            from glow_nb.runtime.devices.open_device import open_device

            opened[description.name] = open_device(description)
            stack.callback(opened[description.name].close)
        stack.pop_all()
    used = [opened[d.name] if isinstance(d, DeviceDescription) else d for d in devices]
    return list(opened.values()), used
