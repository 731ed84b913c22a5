"""Devices that are closed when a test ends, and a network for each kind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from tests.unit.runtime.deployables import square

Open = Callable[..., Any]


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return what opens a device called ``d`` of a kind, with further fields of its description."""
    with contextlib.ExitStack() as stack:

        def open_one(kind: str, *, name: str = "d", **fields: Any) -> Any:
            backend = "interpreter" if kind == "interpreter" else "cpu"
            device = open_device(DeviceDescription(name, kind=kind, backend=backend, **fields))
            stack.callback(device.close)
            return device

        yield open_one


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Deployable:
    """Return ``y = x * x`` as machine code."""
    return square(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="session")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> Deployable:
    """Return ``y = x * x`` as a program for the interpreter."""
    return square(tmp_path_factory.mktemp("interpreted"), backend="interpreter")


@pytest.fixture
def device(opened: Open, native: Deployable) -> Any:
    """Return a process device with the network ``net``, which is ``y = x * x``."""
    device = opened("process")
    device.add("net", native)
    return device


@pytest.fixture(params=["local", "process", "interpreter", "simulated"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return each kind of device that needs nothing but this package."""
    return str(request.param)


@pytest.fixture
def network(kind: str, native: Deployable, interpreted: Deployable) -> Deployable:
    """Return ``y = x * x`` for the kind of device."""
    return interpreted if kind == "interpreter" else native
