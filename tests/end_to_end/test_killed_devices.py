"""A host over processes that are killed and stopped at random: each request has one answer."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from glow_nb.errors import DeadlineError, DeviceError
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.process import ProcessDevice
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.small_networks import row, scaled

pytestmark = [pytest.mark.jit, pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")]


def disturb(
    devices: Sequence[ProcessDevice], stop: threading.Event, seed: int, pause: float
) -> Counter[int]:
    """Send SIGKILL or SIGSTOP to a process now and then, until *stop*; return how often which."""
    rng, sent = random.Random(seed), Counter[int]()
    while not stop.wait(rng.expovariate(1 / pause)):
        number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        engine = rng.choice(devices)._engine
        if engine is None:  # it is dead just now
            continue
        try:
            os.kill(engine._child.process.pid, number)  # type: ignore[attr-defined]
        except ProcessLookupError:
            continue
        sent[number] += 1
    return sent


def load(requests: int, *, seed: int, pause: float) -> tuple[Counter[str], Counter[int]]:
    """Send *requests* from four threads; return how they were answered, and the signals sent."""
    descriptions = [DeviceDescription(name, "process", memory_bytes=1 << 22) for name in "abc"]
    devices = [ProcessDevice(description) for description in descriptions]
    stop = threading.Event()

    def ask(number: int) -> str:
        try:
            answer = host.run("double", row(number), deadline=1.0)
        except (DeviceError, DeadlineError) as error:
            return type(error).__name__
        assert np.array_equal(answer["y"], row(2 * number)["x"])
        return "right"

    try:
        with HostManager(devices, grace=0.2) as host, ThreadPoolExecutor(5) as threads:
            host.add_network("double", scaled(2.0), duplicates=3)
            signals = threads.submit(disturb, devices, stop, seed, pause)
            outcomes = Counter(threads.map(ask, range(requests)))
            stop.set()
            assert host.statistics().networks["double"].running == 0
        return outcomes, signals.result()
    finally:
        for device in devices:
            device.kill("the test is over")
            device.close()


def test_each_request_has_one_answer_while_processes_are_killed() -> None:
    outcomes, signals = load(400, seed=1, pause=0.2)
    assert sum(outcomes.values()) == 400
    assert outcomes["right"] > 200
    assert signals


@pytest.mark.slow
def test_ten_thousand_requests_have_one_answer_each() -> None:
    outcomes, signals = load(10_000, seed=2, pause=0.3)
    assert sum(outcomes.values()) == 10_000
    assert outcomes["right"] > 9_000
    assert signals[signal.SIGKILL] and signals[signal.SIGSTOP]
