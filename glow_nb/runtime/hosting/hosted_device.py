"""A device of a host, with the runs that it has been given and the parts that are on it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from glow_nb.errors import DeviceError, GlowError, OptionError
from glow_nb.foreign import foreign
from glow_nb.runtime.devices.device import Device, Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.statistics import DeviceStatistics

if TYPE_CHECKING:
    from glow_nb.runtime.hosting.dataflow import Copy
    from glow_nb.runtime.hosting.direct_run import DirectRun
    from glow_nb.runtime.hosting.executor import Run

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
        running: The runs that it has been given and has not ended, in order.
        direct: The run that a user's thread has taken there itself, until that ends.
        is_up: Whether it takes runs; while it is being restarted it does not.
        losses: How often it has been lost.
        lost: Why it does not come back for now; empty while requests wait for it.
        away_since: When it was lost, by ``time.time``; None while it is up.
        next_attempt: When an attempt to restart it begins, by ``time.time``; None if nobody tries.
        freed: When a run on it ended last.
        used: The number of the last run that it was given, among those of all devices.
        copies: The copies of parts that are to be on it.
    """

    def __init__(self, device: Device) -> None:
        """Know nothing of *device* but that it is there."""
        self.device = device
        self.name = device.description.name
        self.border = foreign(DeviceError, self.name)
        self.running: dict[Run, None] = {}
        self.direct: DirectRun | None = None
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
        """Whether it may be given a run."""
        return self.is_up and self.load < DEPTH

    @property
    def load(self) -> int:
        """How many runs it has."""
        return len(self.running) + (self.direct is not None)

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


def open_all(devices: Sequence[Device | DeviceDescription]) -> tuple[list[Device], list[Device]]:
    """Return the devices that were opened for descriptions, and all *devices* in order.

    Raises:
        OptionError: There is none, two have the same name, or one is no device.
        DeviceError: One does not open; those that did are closed again.
    """
    if isinstance(devices, DeviceDescription | str) or not isinstance(devices, Sequence):
        raise OptionError(f"devices={devices!r:.80}: give a list of devices or their descriptions")
    for device in devices:
        if not isinstance(device, DeviceDescription) and not hasattr(device, "description"):
            raise OptionError(f"devices: {device!r:.80} is no device; give a DeviceDescription")
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
