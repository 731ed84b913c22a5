"""Devices that are away for long: attempts go on, and what was on them is loaded again."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice, repeat

import pytest

from glow_nb.base.errors import DeviceError, MemoryLimitError
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.hosting import recovery
from glow_nb.runtime.hosting.host import HostManager
from tests.unit.runtime.scripted_device import ScriptedDevice, wait_until
from tests.unit.runtime.small_networks import DEVICE, pipeline, row, running_sum, scaled

LOST = "a: it could not be restarted.*on no other device"


class Clock:
    """Pauses that take no time: those of the first attempts at once, a later one when told to."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        self._later = threading.Semaphore(0)

    def pauses(self) -> Iterator[float]:
        yield from repeat(0.0, len(recovery.PAUSES))
        while True:
            self._later.acquire()
            yield self.pause

    def advance(self, attempts: int = 1) -> None:
        self._later.release(attempts)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(recovery, "pauses", clock.pauses)
    monkeypatch.setattr("glow_nb.runtime.hosting.dispatcher.LOOK_SECONDS", 0.005)
    yield clock
    clock.advance(1000)  # threads that wait for it look whether their host is closed


def lose(host: HostManager, device: ScriptedDevice, attempts: int = 1_000_000) -> None:
    """Kill *device* and let so many restarts fail; wait until the host has given it up."""
    device.refused_restarts = attempts
    device.kill("power cut")
    name = device.description.name
    wait_until(lambda: "could not be restarted" in host.health()[name].reason)


def watchers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("glow_nb recovery")]


def has_come_back(host: HostManager, restarts: int) -> bool:
    health = host.health()["a"]
    return health.alive and health.restarts == restarts


def test_pauses_grow_up_to_a_bound() -> None:
    first = list(islice(recovery.pauses(), 11))
    assert first == [0.0, 0.1, 0.5, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0]


def test_a_device_that_comes_back_after_many_attempts_gets_its_networks_back(clock: Clock) -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        host.add_network("net", pipeline("a", "a"))
        lose(host, device, attempts=30)
        with pytest.raises(DeviceError, match=LOST):
            host.run("double", row(1))
        clock.advance(24)
        wait_until(lambda: device.refused_restarts == 1)
        with pytest.raises(DeviceError, match=LOST):
            host.run("net", row(1))
        clock.advance(2)
        wait_until(lambda: all(info.ready for info in host.networks().values()))
        assert host.run("double", row(1))["y"][0, 0] == 2.0
        assert host.run("net", row(1))["y"][0, 0] == 4.0
        health = host.health()["a"]
        assert (health.alive, health.restarts, health.away_since) == (True, 1, None)
        hosted = host._devices[0]
        assert (hosted.away_since, hosted.next_attempt) == (None, None)
        wait_until(lambda: not watchers())


def test_health_tells_since_when_a_device_is_away_and_when_it_is_tried_next(clock: Clock) -> None:
    clock.pause = 3600.0
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        before = time.time()
        lose(host, device)
        after = time.time()
        clock.advance()
        wait_until(lambda: (host.health()["a"].next_attempt or 0) > after)
        health = host.health()["a"]
        assert not health.alive
        assert health.away_since is not None
        assert health.next_attempt is not None
        assert before <= health.away_since <= after
        assert after + 3600 <= health.next_attempt <= time.time() + 3600
        assert not host.statistics().devices["a"].alive
        assert watchers()
    wait_until(lambda: not watchers())


def test_copies_that_found_no_room_come_back_with_their_device(clock: Clock) -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        host.add_network("net", pipeline("a", "b"))
        lose(host, devices[0], attempts=len(recovery.PAUSES))
        assert host.run("double", row(1))["y"][0, 0] == 2.0
        assert host.networks()["net"].places == {"scaled_v1": ("b",), "scaled_y": ("b",)}
        assert host.networks()["double"].duplicates == 1
        clock.advance()
        wait_until(lambda: host.networks()["double"].duplicates == 2)
        assert len(devices[0].keys) == 1, "what has moved stays where it is"


def test_a_device_that_cannot_say_what_is_free_keeps_no_other_from_recovery(clock: Clock) -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=1)
        assert [len(device.keys) for device in devices] == [1, 0]
        devices[1].tells_memory = False
        devices[0].may_run.clear()
        requests = [host.submit("double", row(1)) for _ in range(3)]
        lose(host, devices[0], attempts=len(recovery.PAUSES))
        for request in requests:
            with pytest.raises(DeviceError, match="a: it could not be restarted"):
                request.result(30)
        devices[0].may_run.set()
        clock.advance()
        wait_until(lambda: host.networks()["double"].ready)
        assert host.run("double", row(1))["y"][0, 0] == 2.0


def test_what_found_no_room_goes_where_room_is_made(clock: Clock) -> None:
    memory_bytes = compile_part(scaled(2.0), DEVICE).memory_bytes
    devices = [ScriptedDevice(name, memory_bytes=memory_bytes) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0))
        host.add_network("triple", scaled(3.0))
        assert [len(device.keys) for device in devices] == [1, 1]
        lose(host, devices[0])
        with pytest.raises(DeviceError, match=LOST):
            host.run("double", row(1))
        host.remove_network("triple")
        clock.advance()
        wait_until(lambda: host.networks()["double"].ready)
        assert host.run("double", row(1))["y"][0, 0] == 2.0
        assert not host.health()["a"].alive


def test_a_network_that_cannot_be_loaded_on_a_device_that_is_back_is_tried_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = ScriptedDevice("a")
    refused = [10]
    add = device.add

    def add_later(key: str, network: Deployable) -> None:
        refused[0] -= 1
        if refused[0] >= 0:
            raise MemoryLimitError("the system gives no memory")
        add(key, network)

    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        monkeypatch.setattr(device, "add", add_later)
        lose(host, device, attempts=0)
        clock.advance(20)
        wait_until(lambda: host.networks()["double"].ready)
        assert host.run("double", row(1))["y"][0, 0] == 2.0
        assert host.health()["a"].restarts == len(recovery.PAUSES) + 1


def test_a_network_that_was_removed_meanwhile_is_not_loaded_again(clock: Clock) -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        lose(host, device, attempts=len(recovery.PAUSES))
        host.remove_network("double")
        clock.advance()
        wait_until(lambda: host.health()["a"].alive and not watchers())
        assert not device.keys
        host.add_network("double", scaled(2.0))
        assert host.run("double", row(1))["y"][0, 0] == 2.0


def test_one_thread_attends_to_a_device_that_is_lost_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = ScriptedDevice("a")

    def refuse(key: str, network: Deployable) -> None:
        raise MemoryLimitError("the system gives no memory")

    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        monkeypatch.setattr(device, "add", refuse)
        lose(host, device, attempts=0)
        clock.advance()
        for restarts in range(len(recovery.PAUSES) + 1, 10):
            wait_until(partial(has_come_back, host, restarts))
            device.kill("power cut")
        wait_until(partial(has_come_back, host, 10))

        def is_one() -> bool:
            clock.advance()  # another one than the last ends when it looks
            return len(watchers()) == 1

        wait_until(is_one)


def test_state_that_was_lost_stays_lost_when_the_device_is_back(clock: Clock) -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("sum", running_sum())
        lose(host, device, attempts=len(recovery.PAUSES))
        clock.advance()
        wait_until(lambda: host.health()["a"].alive)
        wait_until(lambda: not watchers())
        assert not device.keys, "what can answer nothing is not loaded again"
        with pytest.raises(DeviceError, match="remove the network and add it again"):
            host.run("sum", row(1))
        host.remove_network("sum")
        host.add_network("sum", running_sum())
        assert host.run("sum", row(1))["y"][0, 0] == 1.0


def test_attempts_end_with_a_host_that_nobody_closes(clock: Clock) -> None:
    def leave_a_host() -> None:
        device = ScriptedDevice("a")
        host = HostManager([device])
        host.add_network("double", scaled(2.0))
        lose(host, device)
        assert watchers()

    def have_ended() -> bool:
        gc.collect()
        clock.advance()
        return not watchers()

    leave_a_host()
    wait_until(have_ended)
