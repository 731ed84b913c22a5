"""Runs of devices that are interrupted, closed meanwhile, or end while they are begun."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.backends.interpreter import InterpretedProgram
from glow_nb.base.errors import DeviceError
from glow_nb.codegen.loaded_program import LoadedProgram
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.engine import Engine
from glow_nb.runtime.devices.managed_device import ManagedDevice
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.conftest import Open
from tests.unit.runtime.devices.managed_device.squares import squares

pytestmark = pytest.mark.jit


@pytest.mark.parametrize("kind", ["interpreter", "simulated"])
def test_an_interrupted_run_leaves_the_device_as_it_was(
    opened: Open, kind: str, network: Deployable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(InterpretedProgram, "run", interrupt)
        patched.setattr(LoadedProgram, "run_checked", interrupt)
        device = opened(kind)
        device.add("net", network)
        with pytest.raises(KeyboardInterrupt):
            device.run("net", [feed(0)])
    assert device.health().running == 0
    device.add("other", network)
    squares(device, 3, "other")


def test_a_submission_that_is_interrupted_gives_the_device_up(
    opened: Open, kind: str, network: Deployable, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = opened(kind)
    device.add("net", network)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(device._engine, "begin", interrupt)
    with pytest.raises(KeyboardInterrupt):
        device.submit("net", [feed(0)])
    assert device.health() == Health(
        alive=False, reason="it was interrupted while a run was sent to it"
    )
    device.restart()
    device.add("net", network)
    squares(device, 2)


class AtOnce:
    """An engine that ends runs while they are begun."""

    slots = 1

    def __init__(self, ended: Any) -> None:
        self.ended = ended

    def begin(self, run: Any) -> None:
        self.ended(run, [run.inputs[0] + 1])

    def load(self, held: Any) -> None: ...

    unload = load

    def serve(self) -> None: ...

    stop = kill = serve


class DeviceOfAtOnce(ManagedDevice):
    @override
    def _start(self) -> Engine:
        return AtOnce(self._ended)


def test_runs_may_end_while_they_are_begun(native: Deployable) -> None:
    device = DeviceOfAtOnce(DeviceDescription("d"))
    device.add("net", native)
    results: list[float] = []

    def go_on(future: Any) -> None:
        results.append(future.result()[0][0])
        if len(results) < 100:
            device.submit("net", future.result()).add_done_callback(go_on)

    threads = []
    for _ in range(3):
        threads.append(threading.Thread(target=lambda: [device.run("net", [feed(0)])] * 100))
        threads[-1].start()
    device.submit("net", [np.zeros(1000, np.float32)]).add_done_callback(go_on)
    for thread in threads:
        thread.join(30)
    assert results[:3] == [1, 2, 3]
    device.close()


def test_closing_waits_for_runs_and_takes_no_more(
    opened: Open, kind: str, network: Deployable
) -> None:
    device = opened(kind)
    device.add("net", network)
    futures = [device.submit("net", [feed(seed)]) for seed in range(10)]
    device.close()
    device.close()
    for seed, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(30)[0], feed(seed) ** 2)
    assert device.health() == Health(alive=False, reason="it is closed")
    with pytest.raises(DeviceError, match="device 'd': it is closed"):
        device.submit("net", [feed(0)])
    with pytest.raises(DeviceError, match="device 'd': it is closed"):
        device.restart()


def test_a_callback_may_submit(opened: Open, kind: str, network: Deployable) -> None:
    device = opened(kind)
    device.add("net", network)
    results: list[Any] = []
    done = threading.Event()

    def go_on(future: Any) -> None:
        results.append(future.result()[0])
        if len(results) < 5:
            device.submit("net", [results[-1]]).add_done_callback(go_on)
        else:
            done.set()

    x = np.full(1000, 0.5, np.float32)
    device.submit("net", [x]).add_done_callback(go_on)
    assert done.wait(30)
    assert [result[0] for result in results] == [0.5**2, 0.5**4, 0.5**8, 0.5**16, 0.5**32]
