"""Recovery: lost devices are restarted and get their networks back, or others take these over."""

from __future__ import annotations

import threading

from glow_nb.errors import DeviceError, GlowError
from glow_nb.runtime.devices.device_thread import start_thread
from glow_nb.runtime.hosting.dispatcher import Dispatcher
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.hosting.provisioner import Provisioner

PAUSES = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Seconds before each attempt to restart a device."""


class Recovery:
    """Brings devices back, each on a thread of its own."""

    def __init__(self, provisioner: Provisioner, dispatcher: Dispatcher) -> None:
        """Load with *provisioner*, and tell *dispatcher*."""
        self._provisioner, self._dispatcher = provisioner, dispatcher
        self._stopped = threading.Event()

    def begin(self, device: HostedDevice) -> None:
        """Bring *device* back; return at once."""
        if self._stopped.is_set():
            return
        try:
            start_thread(f"glow_nb recovery of {device.name}", lambda: self._recover(device))
        except DeviceError as error:
            self._give_up(device, str(error))

    def stop(self) -> None:
        """Begin nothing any more."""
        self._stopped.set()

    def _recover(self, device: HostedDevice) -> None:
        reason = ""
        for pause in PAUSES:
            if self._stopped.wait(pause):
                return
            try:
                with device.border:
                    device.device.restart()
                self._provisioner.refill(device)
            except GlowError as error:
                reason = str(error)
            else:
                self._dispatcher.revive(device)
                return
        self._provisioner.move(device)
        self._give_up(device, reason)

    def _give_up(self, device: HostedDevice, reason: str) -> None:
        self._dispatcher.bury(device, f"{device.name}: it could not be restarted ({reason})")
