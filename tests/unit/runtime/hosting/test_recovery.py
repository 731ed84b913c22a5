"""Devices that die, hang or run out of memory: no request is lost, none is answered twice."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from glow_nb.base.errors import DeadlineError, DeviceError, GlowError, MemoryLimitError
from glow_nb.base.types import Array
from glow_nb.runtime.devices.device import Health
from glow_nb.runtime.hosting import recovery
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.schedule import MOST_LOSSES
from tests.in_turn import marked
from tests.unit.runtime.scripted_device import Killer, ScriptedDevice, wait_until
from tests.unit.runtime.small_networks import diamond, pipeline, row, running_sum, scaled


@pytest.fixture(autouse=True)
def restarts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "PAUSES", (0.0, 0.001, 0.001, 0.001, 0.001))


def value(answer: dict[str, Array]) -> float:
    return float(answer["y"][0, 0])


def test_what_a_dead_device_was_doing_is_done_by_a_copy() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        devices[0].may_run.clear()
        requests = [host.submit("double", row(n)) for n in range(8)]
        devices[0].refused_restarts = 1000
        devices[0].kill("power cut")
        assert [value(r.result(30)) for r in requests] == [2.0 * n for n in range(8)]
        assert host.statistics().networks["double"].counters.retried > 0
        devices[0].may_run.set()


def test_a_device_comes_back_with_its_networks() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        host.add_network("net", pipeline("a", "a"))
        for _ in range(3):
            device.kill("power cut")
            assert value(host.run("double", row(1))) == 2.0
            assert value(host.run("net", row(1))) == 4.0
        assert host.health()["a"].alive
        assert host.health()["a"].restarts == 3


def test_a_device_that_died_with_nothing_to_do_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glow_nb.runtime.hosting.dispatcher.LOOK_SECONDS", 0.005)
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        device.kill("power cut")
        wait_until(lambda: host.health()["a"].restarts == 1 and bool(device.keys))


def test_a_device_that_does_not_come_back_is_replaced() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("net", pipeline("a", "b"))
        devices[0].refused_restarts = 1000
        devices[0].kill("power cut")
        assert value(host.run("net", row(1))) == 4.0
        assert len(devices[1].keys) == 2
        wait_until(lambda: "could not be restarted" in host.health()["a"].reason)
        assert host.networks()["net"].ready


@pytest.mark.parametrize("method", ["restart", "add"])
def test_a_device_that_raises_anything_while_it_is_recovered_is_given_up(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("no such plug")

    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        monkeypatch.setattr(device, method, fail)
        device.kill("power cut")
        with pytest.raises(DeviceError, match="a: it could not be restarted.*KeyError"):
            host.submit("double", row(1)).result(30)


@pytest.mark.parametrize("method", ["run", "submit"])
def test_what_a_device_raises_in_a_run_names_it(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("no such plug")

    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        with monkeypatch.context() as patched:
            patched.setattr(device, "run", fail)
            patched.setattr(device, "submit", fail)
            with pytest.raises(DeviceError, match="^a: KeyError: 'no such plug'"):
                getattr(host, method)("double", row(1)).result(30)
        assert value(host.run("double", row(1))) == 2.0


def test_a_device_that_cannot_say_how_it_is_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glow_nb.runtime.hosting.dispatcher.LOOK_SECONDS", 0.005)
    device = ScriptedDevice("a")
    health = device.health

    def fail() -> Health:
        monkeypatch.setattr(device, "health", health)
        raise KeyError("no such plug")

    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        monkeypatch.setattr(device, "health", fail)
        wait_until(lambda: health().restarts == 1)
        assert value(host.run("double", row(1))) == 2.0
        with pytest.raises(DeadlineError):  # time is looked after as before
            device.may_run.clear()
            host.run("double", row(1), deadline=0.01)
        device.may_run.set()


def test_requests_are_answered_where_the_system_gives_no_thread_for_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str, work: Callable[[], None]) -> threading.Thread:
        raise DeviceError(f"{name}: the system gives no thread for it")

    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("double", scaled(2.0))
        monkeypatch.setattr(recovery, "start_thread", refuse)
        device.kill("power cut")
        with pytest.raises(DeviceError, match="a: it could not be restarted.*gives no thread"):
            host.submit("double", row(1)).result(30)


def test_a_network_whose_devices_are_gone_says_so_and_others_go_on() -> None:
    devices = [ScriptedDevice("a"), ScriptedDevice("b", cores=2)]  # no copy of a's fits on b
    with HostManager(devices) as host:
        host.add_network("net", pipeline("a"))
        host.add_network("other", pipeline("b"))
        devices[0].may_run.clear()
        requests = [host.submit("net", row(1)) for _ in range(5)]
        devices[0].refused_restarts = 1000
        devices[0].kill("power cut")
        for request in requests:
            with pytest.raises(DeviceError, match="^a: "):
                request.result(30)
        wait_until(lambda: not host.networks()["net"].ready)
        with pytest.raises(DeviceError, match="a: it could not be restarted.*on no other device"):
            host.run("net", row(1))
        assert value(host.run("other", row(1))) == 2.0
        devices[0].may_run.set()
        host.remove_network("net")


def test_what_kills_every_device_is_not_tried_for_ever() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        tried: list[str] = []

        def die(device: ScriptedDevice) -> Callable[[str], None]:
            def before_run(key: str) -> None:
                tried.append(key)
                device.kill("poisoned")
                raise DeviceError(f"{device.description.name}: poisoned")

            return before_run

        for device in devices:
            device.before_run = die(device)
        with pytest.raises(DeviceError, match="poisoned"):
            host.run("double", row(1))
        assert len(tried) == MOST_LOSSES
        for device in devices:
            device.before_run = lambda _: None
        assert value(host.run("double", row(1))) == 2.0


def test_a_device_that_hangs_is_killed_after_the_deadline_and_others_are_answered() -> None:
    device = ScriptedDevice("a")
    with HostManager([device], grace=0.1) as host:
        host.add_network("double", scaled(2.0))
        begun, hanging = threading.Event(), threading.Event()

        def hang(_: str) -> None:
            begun.set()
            wait_until(hanging.is_set)

        device.before_run = hang
        while not begun.is_set():  # on a busy machine it may be late before it begins
            stuck = host.submit("double", row(0), deadline=0.02)
            with pytest.raises(DeadlineError):
                stuck.result(30)
        behind = [host.submit("double", row(n)) for n in range(1, 4)]
        wait_until(lambda: host.health()["a"].restarts == 1)
        device.before_run = lambda _: None
        hanging.set()
        assert [value(request.result(30)) for request in behind] == [2.0, 4.0, 6.0]


def test_a_slow_run_within_the_grace_kills_nothing() -> None:
    device = ScriptedDevice("a")
    with HostManager([device], grace=30.0) as host:
        host.add_network("double", scaled(2.0))
        device.may_run.clear()
        with pytest.raises(DeadlineError):
            host.run("double", row(0), deadline=0.01)
        device.may_run.set()
        assert value(host.run("double", row(1))) == 2.0
        assert host.health()["a"].restarts == 0


def test_a_run_without_memory_goes_to_a_copy_or_its_error_names_the_device() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]

    def full(_: str) -> None:
        raise MemoryLimitError("no memory for the run")

    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        devices[0].before_run = full
        assert [value(host.run("double", row(n))) for n in range(4)] == [0, 2, 4, 6]
        devices[1].before_run = full
        with pytest.raises(MemoryLimitError, match="^[ab]: no memory for the run"):
            host.run("double", row(1))
        assert host.health()["a"].restarts == host.health()["b"].restarts == 0


def test_a_run_that_no_device_is_left_for_gets_an_error() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]

    def full(_: str) -> None:
        devices[1].refused_restarts = 1000
        devices[1].kill("power cut")
        wait_until(lambda: not host._devices[1].is_up)
        raise MemoryLimitError("no memory for the run")

    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        devices[0].before_run = full
        with pytest.raises(DeviceError, match="^b: it could not be restarted"):
            host.run("double", row(1))
        devices[0].before_run = lambda _: None
        assert value(host.run("double", row(1))) == 2.0


def test_a_run_that_was_lost_before_it_was_given_is_done_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread is put aside between the choice of a device and the submission to it."""
    devices = [ScriptedDevice(name) for name in "ab"]
    given, go_on = threading.Event(), threading.Event()
    submit = devices[0].submit

    def slow(key: str, inputs: Sequence[Array]) -> Future[list[Array]]:
        given.set()
        assert go_on.wait(30)
        return submit(key, inputs)

    with HostManager(devices) as host:
        host.add_network("net", pipeline("a", "b"), duplicates=2)
        monkeypatch.setattr(devices[0], "submit", slow)
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(host.submit, "net", row(1))
            assert given.wait(30)
            monkeypatch.setattr(devices[0], "submit", submit)
            devices[0].kill("power cut")
            assert value(host.run("net", row(2))) == 8.0
            go_on.set()
            assert value(asked.result(30).result(30)) == 4.0
        assert host.statistics().networks["net"].counters.answered == 2


def test_state_that_was_lost_is_not_made_up() -> None:
    device = ScriptedDevice("a")
    with HostManager([device]) as host:
        host.add_network("sum", running_sum())
        host.add_network("double", scaled(2.0))
        assert value(host.run("sum", row(1))) == 1.0
        device.kill("power cut")
        with pytest.raises(DeviceError, match=r"the state of network 'sum' was lost|power cut"):
            host.run("sum", row(1))
        with pytest.raises(DeviceError, match="remove the network and add it again"):
            host.run("sum", row(1))
        assert value(host.run("double", row(1))) == 2.0
        host.remove_network("sum")
        host.add_network("sum", running_sum())
        assert value(host.run("sum", row(1))) == 1.0


def load(devices: list[ScriptedDevice], requests: int, *, pause: float, seed: int) -> Counter[str]:
    """Send *requests* to two networks while devices are killed; return how they were answered.

    Each request must be answered once: a callback counts, and right answers are compared.
    """
    answers: Counter[int] = Counter()
    lock = threading.Lock()
    rng = np.random.default_rng(seed)

    def count(number: int) -> Callable[[Future[dict[str, Array]]], None]:
        def answered(_: Future[dict[str, Array]]) -> None:
            with lock:
                answers[number] += 1

        return answered

    def submitted(number: int, name: str, deadline: float | None) -> Future[dict[str, Array]]:
        try:
            request = host.submit(name, row(number), deadline=deadline)
        except GlowError:
            answers[number] += 1
            raise
        request.add_done_callback(count(number))
        return request

    def ask(number: int) -> str:
        name, factor = (("net", 5.0), ("double", 2.0))[number % 2]
        deadline = None if number % 3 else 20.0
        try:
            if number % 5 == 1:  # this thread waits, and goes to an idle device itself
                answers[number] += 1
                answer = host.run(name, row(number))
            else:
                answer = submitted(number, name, deadline).result(60)
        except GlowError as error:
            return type(error).__name__
        assert np.array_equal(answer["y"], row(number * factor)["x"])
        return "right"

    for device in devices:
        device.before_run = lambda _: time.sleep(float(rng.random()) * 0.0005)
    with HostManager(devices) as host, ThreadPoolExecutor(8) as clients:
        host.add_network("net", diamond(*(device.description.name for device in devices[:4])))
        host.add_network("double", scaled(2.0), duplicates=2)
        with Killer(devices, seed, pause) as killer:
            outcomes = Counter(clients.map(ask, range(requests)))
    assert killer.kills > 0
    assert answers == Counter(range(requests))
    return outcomes


@pytest.mark.parametrize("seed", marked(range(3), only=[0]))
def test_each_request_is_answered_once_while_devices_are_killed(seed: int) -> None:
    outcomes = load([ScriptedDevice(n) for n in "abcde"], 400, pause=0.005, seed=seed)
    assert outcomes["right"] > 200
    assert set(outcomes) <= {"right", "DeviceError"}


@pytest.mark.slow
def test_ten_thousand_requests_are_answered_once_while_devices_are_killed() -> None:
    outcomes = load([ScriptedDevice(n) for n in "abcde"], 10_000, pause=0.02, seed=7)
    assert outcomes["right"] > 9_000
    assert set(outcomes) <= {"right", "DeviceError"}
