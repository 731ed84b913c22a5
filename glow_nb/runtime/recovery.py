"""Devices that were lost: restarted and filled again, or replaced by others."""

from __future__ import annotations

import threading

from glow_nb.errors import GlowError
from glow_nb.runtime.dispatcher import Dispatcher
from glow_nb.runtime.hosted_device import HostedDevice
from glow_nb.runtime.provisioner import Provisioner

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
        name = f"glow_nb recovery of {device.name}"
        threading.Thread(target=self._recover, args=(device,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Begin nothing any more."""
        self._stopped.set()

    def _recover(self, device: HostedDevice) -> None:
        reason = ""
        for pause in PAUSES:
            if self._stopped.wait(pause):
                return
            try:
                device.device.restart()
                self._provisioner.refill(device)
            except GlowError as error:
                reason = str(error)
            else:
                self._dispatcher.revive(device)
                return
        self._provisioner.move(device)
        self._dispatcher.bury(device, f"{device.name}: it could not be restarted ({reason})")
