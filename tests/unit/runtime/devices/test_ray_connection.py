"""When a Ray device connects to a cluster; what stands for Ray here starts none."""

from __future__ import annotations

from typing import Any

import pytest

from glow_nb.base.errors import DeviceError
from glow_nb.runtime.devices import ray as ray_device
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from glow_nb.runtime.hosting.host import HostManager


class Cluster:
    """Stands for the module ``ray``.

    Attributes:
        begun: How often it was connected to a cluster.
    """

    def __init__(self) -> None:
        self.begun, self._is_connected = 0, False

    def is_initialized(self) -> bool:
        return self._is_connected

    def init(self, **_: object) -> None:
        self.begun += 1
        self._is_connected = True

    def shutdown(self) -> None:
        self._is_connected = False


class Actor:
    """Stands for the engine of a device."""

    slots = 1

    def serve(self) -> None:
        pass

    stop = kill = serve


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(ray_device, "_import_ray", lambda _: made)
    monkeypatch.setattr(ray_device, "_new_actor", lambda *_: None)
    monkeypatch.setattr(ray_device, "_wait_until_ready", lambda *_: None)
    monkeypatch.setattr(ray_device, "_RayEngine", lambda *_: Actor())
    return made


def open_one() -> Any:
    return open_device(DeviceDescription("far", kind="ray"))


def test_the_first_device_connects(cluster: Cluster) -> None:
    devices = [open_one(), open_one()]
    assert cluster.begun == 1
    for device in devices:
        device.restart()
    assert cluster.begun == 1


def test_a_device_starts_no_cluster_in_the_place_of_one_that_was_shut_down(
    cluster: Cluster,
) -> None:
    device = open_one()
    cluster.shutdown()
    with pytest.raises(DeviceError, match="device 'far': Ray was shut down; connect to a cluster"):
        device.restart()
    assert not device.health().alive
    assert cluster.begun == 1
    cluster.init()  # by the user
    device.restart()
    assert device.health().alive
    assert cluster.begun == 2


def test_a_host_starts_no_cluster_in_the_place_of_one_that_was_shut_down(
    cluster: Cluster,
) -> None:
    with HostManager([DeviceDescription("far", kind="ray")]) as host:
        (device,) = host._devices
        cluster.shutdown()
        assert not host._recovery._bring_back(device, 1)
        assert cluster.begun == 1
