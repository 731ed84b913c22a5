"""A host that is closed, or interrupted: all requests are answered, all devices stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from glow_nb.base.errors import DeviceError, RefusedError
from glow_nb.runtime.devices.device import Device
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting import host as host_module
from glow_nb.runtime.hosting import timer
from glow_nb.runtime.hosting.effects import Effects
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.hosted_device import open_all
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.small_networks import row, scaled

INTERPRETER = DeviceDescription("a", kind="interpreter", backend="interpreter")


def test_closing_goes_on_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    host = HostManager([INTERPRETER])
    with monkeypatch.context() as patched:
        patched.setattr(host._dispatcher, "drain", interrupt)
        with pytest.raises(KeyboardInterrupt):
            host.close()
    assert host.health()["a"].alive
    host.close()
    assert not host.health()["a"].alive


def test_devices_are_closed_where_the_system_gives_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Device] = []

    def open_and_tell(devices: Sequence[DeviceDescription]) -> tuple[list[Device], list[Device]]:
        own, used = open_all(devices)
        opened.extend(own)
        return own, used

    def refuse(name: str, work: Callable[[], None]) -> threading.Thread:
        raise DeviceError(f"{name}: the system gives no thread for it")

    monkeypatch.setattr(host_module, "open_all", open_and_tell)
    monkeypatch.setattr(timer, "start_thread", refuse)
    with pytest.raises(DeviceError, match="glow_nb host: the system gives no thread"):
        HostManager([INTERPRETER])
    assert [device.health().alive for device in opened] == [False]


def test_an_interrupt_keeps_no_answer_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Effects) -> None:
        patched.undo()
        raise KeyboardInterrupt

    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        device.may_run.clear()
        request = host.submit("double", row(1))
        effects = Effects()
        with host._dispatcher._lock:
            network = host._schedule.networks["double"]
            host._schedule.fail_network(network, RefusedError("enough"), effects)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(host._dispatcher, "_begin_runs", interrupt)
            host._dispatcher._carry_out(effects)
        with pytest.raises(RefusedError, match="enough"):
            request.result(30)
        device.may_run.set()


def test_closing_answers_what_came_and_leaves_devices_of_others_open() -> None:
    device = ScriptedDevice("a")
    host = HostManager([device])
    host.add_network("double", scaled(2.0))
    requests = [host.submit("double", row(n)) for n in range(10)]
    host.close()
    host.close()
    assert [float(request.result(0)["y"][0, 0]) for request in requests] == [
        2 * n for n in range(10)
    ]
    assert device.health().alive
    assert not device.keys
    for refused in (
        lambda: host.run("double", row(1)),
        lambda: host.add_network("triple", scaled(3.0)),
    ):
        with pytest.raises(RefusedError, match="the host is closed"):
            refused()


def test_closing_does_not_wait_longer_than_it_is_told_to() -> None:
    device = ScriptedDevice("a")
    host = HostManager([device])
    host.add_network("double", scaled(2.0))
    device.may_run.clear()
    requests = [host.submit("double", row(n)) for n in range(5)]
    host.close(timeout=0.01)
    for request in requests:
        with pytest.raises(RefusedError, match="the host was closed"):
            request.result(0)
    assert not device.health().alive
    device.may_run.set()


def test_an_interrupt_ends_a_host_that_has_work() -> None:
    """Who presses Ctrl-C does not wait for requests that may take as long as they like."""
    device = ScriptedDevice("a")
    requests = []
    with pytest.raises(KeyboardInterrupt), HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        device.may_run.clear()
        requests.append(host.submit("double", row(1)))
        raise KeyboardInterrupt
    with pytest.raises(RefusedError, match="the host was closed"):
        requests[0].result(0)
    device.may_run.set()


def test_an_interrupt_while_a_host_begins_leaves_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    def interrupt(_: timer.Timer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(timer.Timer, "start", interrupt)
    monkeypatch.setattr(
        "glow_nb.runtime.devices.managed_device.ManagedDevice.close",
        lambda self: closed.append(self.description.name),
    )
    with pytest.raises(KeyboardInterrupt):
        HostManager([INTERPRETER])
    assert closed == ["a"]
