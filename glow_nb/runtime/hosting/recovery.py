"""Recovery: lost devices are restarted and get their networks back, or others take these over."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial

from glow_nb.base.errors import DeviceError, GlowError
from glow_nb.runtime.devices.device_thread import start_thread
from glow_nb.runtime.hosting.dispatcher import Dispatcher
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.hosting.provisioner import Provisioner

PAUSES = (0.0, 0.1, 0.5, 2.0, 5.0)
"""Seconds before the first attempts to restart a device; its requests wait for these."""
LONGEST_PAUSE = 60.0
"""Seconds before a later attempt at most: each of these pauses is twice as long as the last one."""


def pauses() -> Iterator[float]:
    """Return the seconds before each attempt, without end."""
    yield from PAUSES
    pause = PAUSES[-1]
    while True:
        pause = min(2 * pause, LONGEST_PAUSE)
        yield pause


class Recovery:
    """Brings devices back, each on a thread of its own, which sleeps between attempts.

    When the first attempts have failed, the device is away: what was on it goes to other devices
    that have room, and requests that no device can answer get an error. The attempts go on. What
    found no room is loaded when the device is back, or when there is room elsewhere.
    """

    def __init__(self, provisioner: Provisioner, dispatcher: Dispatcher) -> None:
        """Load with *provisioner*, and tell *dispatcher*."""
        self._provisioner, self._dispatcher = provisioner, dispatcher
        self._stopped = threading.Event()

    def begin(self, device: HostedDevice) -> None:
        """Bring *device* back; return at once."""
        if self._stopped.is_set():
            return
        device.away_since, device.next_attempt = time.time(), None
        work = partial(_attend, device, weakref.ref(self), self._stopped)
        try:
            start_thread(f"glow_nb recovery of {device.name}", work)
        except DeviceError as error:
            self._give_up(device, str(error))

    def stop(self) -> None:
        """Begin nothing any more."""
        self._stopped.set()

    def _bring_back(self, device: HostedDevice, attempt: int) -> bool:
        """Restart *device* and load what is to be on it; return whether that went well."""
        try:
            with device.border:
                device.device.restart()
            self._provisioner.refill(device)
        except GlowError as error:
            if attempt >= len(PAUSES):
                self._give_up(device, str(error))
            return False
        self._dispatcher.revive(device)
        return True

    def _place_rest(self) -> bool:
        """Load what is on no device where there is room; return whether nothing is left."""
        is_all = self._provisioner.place_rest()
        self._dispatcher.resume()
        return is_all

    def _give_up(self, device: HostedDevice, reason: str) -> None:
        """Let *device* be away until an attempt goes well."""
        self._provisioner.move(device)
        self._dispatcher.bury(device, f"{device.name}: it could not be restarted ({reason})")


def _attend(
    device: HostedDevice, recovery: weakref.ref[Recovery], stopped: threading.Event
) -> None:
    """Bring *device* back, and load what is on no device.

    It ends when the host is closed or no longer exists. If the device is lost again meanwhile,
    another thread attends to it.
    """
    losses, is_back = device.losses, False
    for attempt, pause in enumerate(pauses(), 1):
        if not is_back:
            device.next_attempt = time.time() + pause
        if stopped.wait(pause) or device.losses != losses or (owner := recovery()) is None:
            return
        is_back = is_back or owner._bring_back(device, attempt)
        if is_back and owner._place_rest():
            return
        del owner  # so that a host that is not closed can be freed
