"""Runs that do not end, as only a simulated device has them: they are cancelled, or killed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from glow_nb.base.errors import DeviceError, OptionError
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Health
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.conftest import Open

pytestmark = pytest.mark.jit


@pytest.fixture
def hanging(opened: Open, native: Deployable) -> Any:
    """Return a device that answers no run."""
    device = opened("simulated", options={"hang_rate": 1.0})
    device.add("net", native)
    yield device
    device.kill("the test is over")


def started(device: Any) -> Any:
    """Return the future of a run that has begun and does not end."""
    future = device.submit("net", [feed(0)])
    assert future.running()
    return future


def test_a_run_can_be_cancelled_until_it_begins(hanging: Any) -> None:
    first = started(hanging)
    second, third = (hanging.submit("net", [feed(0)]) for _ in range(2))
    assert not first.cancel()
    assert second.cancel()
    assert hanging.health().running == 3
    hanging.kill("enough")
    for future in (first, third):
        with pytest.raises(DeviceError, match="device 'd': enough; network 'net'"):
            future.result(30)
    with pytest.raises(CancelledError):
        second.result(30)


def test_a_run_gets_the_reason_of_its_end_even_if_the_device_is_back(hanging: Any) -> None:
    run, engine = started(hanging), hanging._engine
    kill = engine.kill

    def kill_and_restart() -> None:
        kill()
        hanging.restart()

    engine.kill = kill_and_restart
    hanging.kill("it was late")
    assert hanging.health().alive
    with pytest.raises(DeviceError, match="'d': it was late; network 'net'"):
        run.result(30)


def test_a_network_stays_if_its_eviction_is_interrupted(
    hanging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    started(hanging)
    with monkeypatch.context() as patched:
        patched.setattr(hanging._changed, "wait_for", interrupt)
        with pytest.raises(KeyboardInterrupt):
            hanging.evict("net")
    assert hanging.submit("net", [feed(0)]).cancel()


def test_a_killed_device_is_dead_until_it_is_restarted(hanging: Any, native: Deployable) -> None:
    run = started(hanging)
    hanging.kill("it was late")
    assert hanging.health() == Health(alive=False, reason="it was late")
    hanging.kill("once more")
    with pytest.raises(DeviceError, match="it was late; network 'net'"):
        run.result(30)
    asks: list[Callable[[], object]] = [
        lambda: hanging.add("net", native),
        lambda: hanging.evict("net"),
        lambda: hanging.submit("net", [feed(0)]),
        lambda: hanging.run("net", [feed(0)]),
    ]
    for ask in asks:
        with pytest.raises(DeviceError, match="device 'd': it was late"):
            ask()
    hanging.restart()
    assert hanging.health() == Health(alive=True, restarts=1)
    assert hanging.memory_free_bytes == hanging.description.memory_bytes
    with pytest.raises(OptionError, match="no network 'net'"):
        hanging.submit("net", [feed(0)])
    hanging.add("net", native)


def test_eviction_waits_for_runs_and_takes_no_more(hanging: Any, native: Deployable) -> None:
    started(hanging)
    errors: list[DeviceError] = []

    def evict() -> None:
        with pytest.raises(DeviceError, match="it was late; network 'net'") as raised:
            hanging.evict("net")
        errors.append(raised.value)

    thread = threading.Thread(target=evict)
    thread.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            hanging.submit("net", [feed(0)])
        except OptionError as error:
            assert "is being evicted; wait for that" in str(error)
            break
    with pytest.raises(OptionError, match="is there already, it is being evicted"):
        hanging.add("net", native)
    assert not errors
    hanging.kill("it was late")
    thread.join(30)
    assert len(errors) == 1
