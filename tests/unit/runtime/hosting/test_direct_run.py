"""Requests that the thread which asks takes to an idle device itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from typing_extensions import override

from glow_nb.base.errors import DeviceError, MemoryLimitError, RefusedError
from glow_nb.base.types import Array
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.tracer import Tracer
from tests.unit.runtime.scripted_device import ScriptedDevice, wait_until
from tests.unit.runtime.small_networks import pipeline, row, running_sum, scaled


class AskedDevice(ScriptedDevice):
    """Knows which threads came to it with a run, and what these were called by."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.direct: list[int] = []

    @override
    def run(self, key: str, inputs: Sequence[Array]) -> list[Array]:
        self.direct.append(threading.get_ident())
        return super().run(key, inputs)


@pytest.fixture
def devices() -> list[AskedDevice]:
    return [AskedDevice(name) for name in "ab"]


@contextmanager
def hosting(devices: Sequence[AskedDevice], tracer: Tracer | None = None) -> Iterator[HostManager]:
    """Yield a host of *devices*, which end what a test that fails leaves behind."""
    with HostManager(devices, tracer=tracer) as host:
        try:
            yield host
        finally:
            for device in devices:
                device.may_run.set()


def value(answer: dict[str, Array]) -> float:
    return float(answer["y"][0, 0])


def test_the_thread_that_asks_goes_to_an_idle_device(devices: list[AskedDevice]) -> None:
    tracer = Tracer()
    with hosting(devices[:1], tracer) as host:
        host.add_network("double", scaled(2.0))
        assert value(host.run("double", row(3))) == 6.0
        assert devices[0].direct == [threading.get_ident()]
        statistics = host.statistics().networks["double"]
        assert (statistics.queued, statistics.running) == (0, 0)
        counters = statistics.counters
        assert (counters.answered, counters.failed, dict(counters.batches)) == (1, 0, {1: 1})
        assert (counters.latency.count, counters.waiting.count) == (1, 1)
    (run,), (request,) = tracer.runs, tracer.requests
    assert (run.device, run.execution, request.execution) == ("a", 1, 1)
    assert request.submitted == request.began == run.began <= run.ended == request.ended


def test_a_run_is_seen_until_it_ends(devices: list[AskedDevice]) -> None:
    with ThreadPoolExecutor(2) as threads, hosting(devices[:1]) as host:
        host.add_network("double", scaled(2.0))
        devices[0].may_run.clear()
        asked = threads.submit(host.run, "double", row(3))
        wait_until(lambda: bool(devices[0].direct))
        statistics = host.statistics()
        assert statistics.networks["double"].running == statistics.devices["a"].running == 1
        removed = threads.submit(host.remove_network, "double")
        wait_until(lambda: not host.networks()["double"].ready)
        with pytest.raises(RefusedError, match="it is being removed"):
            host.run("double", row(1))
        assert not removed.done()
        devices[0].may_run.set()
        assert value(asked.result(30)) == 6.0
        removed.result(30)


def test_each_idle_copy_takes_one_and_the_others_wait(devices: list[AskedDevice]) -> None:
    with ThreadPoolExecutor(5) as threads, hosting(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        for device in devices:
            device.may_run.clear()
        asked = [threads.submit(host.run, "double", row(n)) for n in range(5)]
        wait_until(lambda: host.statistics().networks["double"].queued == 1)
        assert [len(device.direct) for device in devices] == [1, 1]
        assert [device.running for device in host.statistics().devices.values()] == [2, 2]
        for device in devices:
            device.may_run.set()
        assert [value(each.result(30)) for each in asked] == [2.0 * n for n in range(5)]


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("double", lambda host: host.run("double", row(1), deadline=30.0)),
        ("double", lambda host: host.submit("double", row(1)).result(30)),
        ("chain", lambda host: host.run("chain", row(1))),
    ],
)
def test_what_may_have_to_be_left_takes_its_turn(
    devices: list[AskedDevice], name: str, ask: Callable[[HostManager], dict[str, Array]]
) -> None:
    with hosting(devices) as host:
        host.add_network("double", scaled(2.0))
        host.add_network("chain", pipeline("a", "b"))
        assert value(ask(host)) == {"double": 2.0, "chain": 4.0}[name]
    assert not devices[0].direct
    assert not devices[1].direct


def test_requests_to_a_state_take_their_turn(devices: list[AskedDevice]) -> None:
    with ThreadPoolExecutor(2) as threads, hosting(devices[:1]) as host:
        host.add_network("sum", running_sum())
        devices[0].may_run.clear()
        first = threads.submit(host.run, "sum", row(1))
        wait_until(lambda: bool(devices[0].direct))
        second = threads.submit(host.run, "sum", row(1))
        wait_until(lambda: host.statistics().networks["sum"].queued == 1)
        devices[0].may_run.set()
        assert [value(each.result(30)) for each in (first, second)] == [1.0, 2.0]
    assert len(devices[0].direct) == 1


def test_what_is_lost_with_a_device_is_done_by_another_one(devices: list[AskedDevice]) -> None:
    first, second = devices
    with hosting(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)

        def die(_: str) -> None:
            first.refused_restarts = 1000
            first.kill("power cut")
            raise DeviceError("a: power cut")

        first.before_run = die
        assert value(host.run("double", row(3))) == 6.0
        counters = host.statistics().networks["double"].counters
        assert (counters.retried, counters.answered, counters.failed) == (1, 1, 0)
        assert (first.ran, len(second.ran)) == ([], 1)


def test_state_that_is_lost_in_a_run_is_not_made_up(devices: list[AskedDevice]) -> None:
    with hosting(devices[:1]) as host:
        host.add_network("sum", running_sum())
        devices[0].before_run = lambda _: devices[0].kill("power cut")
        with pytest.raises(DeviceError, match="power cut"):
            host.run("sum", row(1))
        with pytest.raises(DeviceError, match="remove the network and add it again"):
            host.run("sum", row(1))
        assert host.statistics().networks["sum"].counters.failed == 1


def test_a_state_without_memory_for_a_run_is_not_run_again(devices: list[AskedDevice]) -> None:
    def full(_: str) -> None:
        raise MemoryLimitError("no memory for the run")

    with hosting(devices[:1]) as host:
        host.add_network("sum", running_sum())
        devices[0].before_run = full
        with pytest.raises(MemoryLimitError, match="no memory for the run"):
            host.run("sum", row(1))
        assert len(devices[0].direct) == 1


def test_a_host_that_closes_in_time_does_not_wait_for_a_run(devices: list[AskedDevice]) -> None:
    host = HostManager(devices[:1])
    with ThreadPoolExecutor(1) as threads:
        host.add_network("double", scaled(2.0))
        devices[0].may_run.clear()
        asked = threads.submit(host.run, "double", row(1))
        wait_until(lambda: bool(devices[0].direct))
        host.close(timeout=0.01)
        with pytest.raises(RefusedError, match="the host"):
            asked.result(30)
    assert not devices[0].health().alive


def test_an_interrupt_leaves_nothing_under_way(
    devices: list[AskedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> list[Array]:
        raise KeyboardInterrupt

    with hosting(devices[:1]) as host:
        host.add_network("double", scaled(2.0))
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(devices[0], "run", interrupt)
            host.run("double", row(1))
        statistics = host.statistics()
        assert statistics.devices["a"].running == statistics.networks["double"].running == 0
        assert statistics.networks["double"].counters.cancelled == 1
        assert value(host.run("double", row(1))) == 2.0


def test_an_interrupt_behind_a_run_of_a_request_leaves_nothing_under_way(
    devices: list[AskedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = devices[0].submit

    def at_once(key: str, inputs: Sequence[Array]) -> Future[list[Array]]:
        future = submit(key, inputs)
        future.result(30)
        return future

    def interrupt(*_: object) -> None:
        patched.undo()
        raise KeyboardInterrupt

    with hosting(devices[:1]) as host:
        host.add_network("double", scaled(2.0))
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(devices[0], "submit", at_once)
            patched.setattr(host._dispatcher, "_end", interrupt)
            host.submit("double", row(1))
        assert host.statistics().devices["a"].running == 0


def test_a_state_that_was_lost_on_the_way_to_its_device_is_not_made_up(
    devices: list[AskedDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_on_the_way, may_go_on, run = threading.Event(), threading.Event(), devices[0].run

    def late(key: str, inputs: Sequence[Array]) -> list[Array]:
        is_on_the_way.set()
        assert may_go_on.wait(30)
        return run(key, inputs)

    with ThreadPoolExecutor(1) as threads, hosting(devices[:1]) as host:
        host.add_network("sum", running_sum())
        host.add_network("double", scaled(2.0))
        assert value(host.run("sum", row(10))) == 10.0
        monkeypatch.setattr(devices[0], "run", late)
        asked = threads.submit(host.run, "sum", row(1))
        assert is_on_the_way.wait(30)
        devices[0].kill("power cut")
        assert value(host.submit("double", row(1)).result(30)) == 2.0  # it is up again, and filled
        may_go_on.set()
        with pytest.raises(DeviceError, match="power cut"):
            asked.result(30)


@pytest.mark.parametrize("leave", [HostManager.close, lambda h: h.remove_network("double")])
def test_what_came_before_an_end_is_answered_though_its_device_dies(
    devices: list[AskedDevice], leave: Callable[[HostManager], None]
) -> None:
    first, second = devices
    with ThreadPoolExecutor(2) as threads, hosting(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        first.may_run.clear()
        second.may_run.clear()
        asked = threads.submit(host.run, "double", row(3))
        wait_until(lambda: bool(first.direct or second.direct))
        left = threads.submit(leave, host)
        wait_until(lambda: not host.networks()["double"].ready)
        (first if first.direct else second).kill("power cut")
        first.may_run.set()
        second.may_run.set()
        assert value(asked.result(30)) == 6.0
        left.result(30)


def test_a_request_that_was_taken_keeps_its_place_when_its_device_dies(
    devices: list[AskedDevice],
) -> None:
    device, tracer = devices[0], Tracer()
    with (
        ThreadPoolExecutor(1) as threads,
        HostManager([device], max_queued=1, tracer=tracer) as host,
    ):
        host.add_network("double", scaled(2.0))
        device.may_run.clear()
        asked = threads.submit(host.run, "double", row(3))
        wait_until(lambda: bool(device.direct))
        others = [host.submit("double", row(n)) for n in (1, 2)]
        device.kill("power cut")
        device.may_run.set()
        assert value(asked.result(30)) == 6.0
        assert [value(other.result(30)) for other in others] == [2.0, 4.0]
        counters = host.statistics().networks["double"].counters
        assert (counters.answered, counters.refused, counters.retried) == (3, 0, 2)
        assert (counters.waiting.count, counters.latency.count) == (3, 3)
        assert dict(counters.batches) == {1: 3}
    # the second and the third may come to the device in either order: two threads give them
    as_submitted = sorted(tracer.requests, key=lambda request: request.submitted)
    assert [request.execution for request in as_submitted] == [1, 2, 3]


def test_a_run_without_memory_is_tried_once_on_each_device(devices: list[AskedDevice]) -> None:
    tried: list[str] = []

    def full(key: str) -> None:
        tried.append(key)
        raise MemoryLimitError("no memory for the run")

    tracer = Tracer()
    with hosting(devices[:1], tracer) as host:
        host.add_network("double", scaled(2.0))
        devices[0].before_run = full
        with pytest.raises(MemoryLimitError, match="^a: no memory for the run"):
            host.run("double", row(1))
        assert len(tried) == 1
        counters = host.statistics().networks["double"].counters
        assert (counters.failed, counters.retried) == (1, 0)
    (request,) = tracer.requests
    assert request.execution == 1
