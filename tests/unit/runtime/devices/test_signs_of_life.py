"""A process device that is silent is killed, and one that takes long is not."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import DeviceError, OptionError
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices import process
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.conftest import Open
from tests.unit.runtime.devices.waiting import has_ended, wait_until, worker_of

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc"),
]


def test_a_process_that_gives_no_sign_of_life_is_killed(opened: Open, native: Deployable) -> None:
    device = opened("process", options={"heartbeat_timeout": 0.5})
    device.add("net", native)
    worker = worker_of(device)
    os.kill(worker, signal.SIGSTOP)
    futures = [device.submit("net", [feed(0)]) for _ in range(3)]
    for future in futures:
        with pytest.raises(
            DeviceError, match="gave no sign of life for 0.5 seconds and was killed"
        ):
            future.result(30)
    assert "no sign of life" in device.health().reason
    wait_until(lambda: has_ended(worker))


SLOW_WORKER = """
import ctypes
from glow_nb.runtime.devices import process_worker

class Slow(process_worker._Network):
    def run(self, slot, sizes):
        ctypes.CDLL(None).usleep(1_500_000)  # on this thread, as machine code
        super().run(slot, sizes)

process_worker._Network = Slow
process_worker.main()
"""


def test_a_run_takes_as_long_as_it_likes(
    opened: Open, native: Deployable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process is killed for its silence, not for its work."""
    (tmp_path / "slow_worker.py").write_text(SLOW_WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process, "WORKER_MODULE", "slow_worker")
    device = opened("process", options={"heartbeat_timeout": 0.5})
    device.add("net", native)
    np.testing.assert_array_equal(device.run("net", [feed(0)])[0], feed(0) ** 2)
    assert device.health().restarts == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_wrong_heartbeat_timeouts(opened: Open, seconds: float) -> None:
    with pytest.raises(OptionError, match="'d': heartbeat_timeout=.*: give 0.1 to 1e\\+06 seconds"):
        opened("process", options={"heartbeat_timeout": seconds})


def test_a_process_that_hangs_is_killed_by_who_waits(device: Any) -> None:
    worker = worker_of(device)
    os.kill(worker, signal.SIGSTOP)
    future = device.submit("net", [feed(0)])
    with pytest.raises(TimeoutError):
        future.result(0.05)
    assert device.health().alive, "that it hangs, only its user knows so soon"
    device.kill("it did not answer within 0.05 seconds")
    with pytest.raises(DeviceError, match="'d': it did not answer within 0.05 seconds; network"):
        future.result(30)
    wait_until(lambda: has_ended(worker))


def test_a_process_that_dies_while_it_loads(opened: Open, native: Deployable) -> None:
    device = opened("process")
    os.kill(worker_of(device), signal.SIGSTOP)
    errors: list[str] = []

    def add() -> None:
        with pytest.raises(DeviceError) as raised:
            device.add("net", native)
        errors.append(str(raised.value))

    thread = threading.Thread(target=add)
    thread.start()
    wait_until(lambda: device.health().memory_used_bytes)
    os.kill(worker_of(device), signal.SIGKILL)
    thread.join(30)
    assert "device 'd': its process was ended by signal 9" in errors[0]


def test_a_process_that_hangs_while_it_loads_is_killed(opened: Open, native: Deployable) -> None:
    device = opened("process", options={"heartbeat_timeout": 0.5})
    worker = worker_of(device)
    os.kill(worker, signal.SIGSTOP)
    with pytest.raises(DeviceError, match="'d': its process gave no sign of life for 0.5 seconds"):
        device.add("more", native)
    wait_until(lambda: has_ended(worker))
    wait_until(lambda: not device.health().alive)


def test_loading_waits_for_a_long_run(device: Any, native: Deployable) -> None:
    worker = worker_of(device)
    os.kill(worker, signal.SIGSTOP)
    future = device.submit("net", [feed(3)])
    threading.Timer(0.4, os.kill, (worker, signal.SIGCONT)).start()
    device.add("more", native)
    np.testing.assert_array_equal(future.result(30)[0], feed(3) ** 2)
    np.testing.assert_array_equal(device.run("more", [feed(2)])[0], feed(2) ** 2)


def test_a_process_that_hangs_keeps_nobody_from_evicting_and_closing(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "END_SECONDS", 0.05)
    worker = worker_of(device)
    os.kill(worker, signal.SIGSTOP)
    device.evict("net")
    device.close()
    assert has_ended(worker)
