"""Processes that several tests use, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from glow_nb.runtime.devices.device import Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from tests.unit.runtime.devices.conftest import Open


@pytest.fixture(scope="module")
def used() -> Iterator[list[Any]]:
    """Yield the process devices that tests have left in good order."""
    devices: list[Any] = []
    yield devices
    for device in devices:
        device.close()


@pytest.fixture
def opened(opened: Open, used: list[Any]) -> Iterator[Open]:
    """Return what opens a device; a process may be one that another test has left."""
    mine: list[Any] = []

    def open_one(kind: str, **fields: Any) -> Any:
        if kind != "process" or fields:
            return opened(kind, **fields)
        mine.append(used.pop() if used else open_device(DeviceDescription("d", kind=kind)))
        return mine[-1]

    yield open_one
    for device in mine:
        if device.health().alive:
            for key in list(device._networks._held):
                device.evict(key)
        is_as_new = device.health() == Health(alive=True)
        used.append(device) if is_as_new else device.close()
