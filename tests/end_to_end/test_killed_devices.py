"""A host over processes and actors that are killed, stopped and starved of memory at random.

Each request has one answer, which is right or an error, and all devices come back.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import DeadlineError, DeviceError, MemoryLimitError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.devices.waiting import wait_until
from tests.unit.runtime.small_networks import row, scaled

resource = pytest.importorskip("resource", reason="limits and signals of POSIX")
pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc"),
]

Fault = Callable[[Any], None]
"""Happens to a device that is alive."""


def process_of(device: Any) -> int:
    """Return the number of the process that works for *device*; raise LookupError if it is dead."""
    engine = device._engine
    if engine is None:
        raise LookupError
    if device.description.kind == "process":
        number: int = engine._child.process.pid
        return number
    import ray

    call = engine._actor.__ray_call__.remote(lambda _: os.getpid())
    try:
        return int(ray.get(call, timeout=0.5))
    except ray.exceptions.RayError as error:  # it is dead, or stopped
        raise LookupError from error


def fill_memory(process: int) -> None:
    """Let the system give *process* no more memory than it has."""
    statistics = Path(f"/proc/{process}/statm").read_text(encoding="ascii")
    used = int(statistics.split()[0]) * resource.getpagesize()
    resource.prlimit(process, resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))


def killed(device: Any) -> None:
    os.kill(process_of(device), signal.SIGKILL)


def stopped(device: Any) -> None:
    os.kill(process_of(device), signal.SIGSTOP)


def starved(device: Any) -> None:
    """Kill it, and let the process that comes in its place have no memory for networks."""
    before = process_of(device)
    os.kill(before, signal.SIGKILL)

    def has_changed() -> bool:
        with contextlib.suppress(LookupError):
            return process_of(device) != before
        return False

    wait_until(has_changed)
    fill_memory(process_of(device))


FAULTS: tuple[Fault, ...] = (killed, killed, stopped, starved)


def disturb(
    devices: Sequence[Any], stop: threading.Event, seed: int, pause: float
) -> Counter[Fault]:
    """Let faults happen at random until *stop*, each in its turn; return how often which did."""
    chance, happened = random.Random(seed), Counter[Fault]()
    to_come: list[Fault] = []
    while not stop.wait(chance.expovariate(1 / pause)):
        to_come = to_come or chance.sample(FAULTS, len(FAULTS))
        fault = to_come.pop()
        with contextlib.suppress(LookupError, ProcessLookupError, FileNotFoundError):
            fault(chance.choice(devices))
            happened[fault] += 1
    return happened


@contextlib.contextmanager
def opened(kind: str, count: int = 3) -> Iterator[list[Any]]:
    """Open *count* devices of a *kind* that are found to hang after two seconds."""
    options = {"heartbeat_timeout": 2.0}
    with contextlib.ExitStack() as stack:
        devices = []
        for name in "abc"[:count]:
            device = open_device(DeviceDescription(name, kind, options=options))
            stack.callback(device.close)
            stack.callback(device.kill, "the test is over")
            devices.append(device)
        yield devices


def load(
    kind: str, requests: int, *, seed: int, pause: float
) -> tuple[Counter[str], Counter[Fault]]:
    """Send *requests* from eight threads; return how they were answered, and what happened.

    Every second request has a deadline. When nothing happens any more, all devices come back.
    """
    stop = threading.Event()
    answered: list[int] = []

    def ask(number: int) -> str:
        request = host.submit("double", row(number), deadline=1.0 if number % 2 else None)
        request.add_done_callback(lambda _: answered.append(number))
        try:
            answer = request.result(120)
        except (DeviceError, DeadlineError) as error:
            return type(error).__name__
        assert np.array_equal(answer["y"], row(2 * number)["x"])
        return "right"

    with (
        opened(kind) as devices,
        HostManager(devices, grace=0.2) as host,
        ThreadPoolExecutor(9) as threads,
    ):
        host.add_network("double", scaled(2.0), duplicates=3)
        faults = threads.submit(disturb, devices, stop, seed, pause)
        try:
            outcomes = Counter(threads.map(ask, range(requests)))
        finally:
            stop.set()
        happened = faults.result()
        assert Counter(answered) == Counter(range(requests))
        wait_until(lambda: host.networks()["double"].duplicates == 3)
        assert all(health.alive for health in host.health().values())
        assert host.statistics().networks["double"].running == 0
        assert np.array_equal(host.run("double", row(1))["y"], row(2)["x"])
    return outcomes, happened


def test_each_request_has_one_answer_while_processes_have_faults() -> None:
    outcomes, happened = load("process", 400, seed=1, pause=0.2)
    assert outcomes["right"] > 200
    assert happened


@pytest.mark.slow
def test_ten_thousand_requests_have_one_answer_each() -> None:
    outcomes, happened = load("process", 10_000, seed=2, pause=0.1)
    assert outcomes["right"] > 9_000
    assert set(happened) == set(FAULTS)


@pytest.fixture
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.usefixtures("cluster")
def test_each_request_has_one_answer_while_actors_have_faults() -> None:
    outcomes, happened = load("ray", 400, seed=3, pause=0.5)
    assert outcomes["right"] > 200
    assert happened


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_ten_thousand_requests_to_actors_have_one_answer_each() -> None:
    outcomes, happened = load("ray", 10_000, seed=4, pause=0.1)
    assert outcomes["right"] > 9_000
    assert set(happened) == set(FAULTS)


def with_large_arena(size: int = 3000) -> Function:
    """Return ``y = ones * (x^T * x)``, whose inner product takes 36 MB."""
    builder = glow_nb.Builder("large")
    x = builder.input("x", f"float32<1 x {size}>")
    column = builder.constant("column", np.ones((size, 1), np.float32))
    ones = builder.constant("ones", np.ones((1, size), np.float32))
    outer = builder.emit(MatMul(column, x))
    builder.save(builder.emit(MatMul(ones, outer)), "y")
    return builder.function()


def test_a_run_without_memory_goes_to_a_copy_or_says_where_there_is_none() -> None:
    x = {"x": np.arange(3000, dtype=np.float32)[None]}
    with opened("process", 2) as devices, HostManager(devices) as host:
        host.add_network("large", with_large_arena(), duplicates=2)
        for device in devices:
            fill_memory(process_of(device))
        with pytest.raises(MemoryLimitError, match="^[ab]: run: it needs .* of it already"):
            host.run("large", x)
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(process_of(devices[1]), resource.RLIMIT_AS, unlimited)
        for _ in range(3):
            np.testing.assert_allclose(host.run("large", x)["y"], 3000 * x["x"], rtol=1e-5)
        assert [health.restarts for health in host.health().values()] == [0, 0]
