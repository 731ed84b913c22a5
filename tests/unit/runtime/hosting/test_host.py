"""The host manager: requests and their answers, networks that come and go."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import (
    DeadlineError,
    DeviceError,
    FeedError,
    GlowError,
    OptionError,
    PartitionError,
    RefusedError,
)
from glow_nb.base.types import Array
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.hosting.host import HostManager
from glow_nb.runtime.hosting.hosted_device import DEPTH
from tests.unit.runtime.scripted_device import ScriptedDevice, wait_until
from tests.unit.runtime.small_networks import diamond, pipeline, row, running_sum, scaled

INTERPRETER = DeviceDescription("a", kind="interpreter", backend="interpreter")


@pytest.fixture
def device() -> ScriptedDevice:
    return ScriptedDevice("a")


@pytest.fixture
def host(device: ScriptedDevice) -> Iterator[HostManager]:
    with HostManager([device], max_queued=4) as host:
        host.add_network("double", scaled(2.0))
        yield host
        device.may_run.set()  # what a test that failed has left behind must end


def test_a_network_runs_as_it_does_alone(host: HostManager) -> None:
    alone = glow_nb.compile(scaled(2.0), backend="interpreter").run(row(3.0))
    for answer in (host.run("double", row(3.0)), host.submit("double", row(3.0)).result(30)):
        assert answer.keys() == alone.keys()
        assert np.array_equal(answer["y"], alone["y"])


def test_a_request_can_be_awaited(host: HostManager) -> None:
    async def ask() -> list[float]:
        requests = [host.submit("double", row(n)) for n in range(4)]
        return [float((await request)["y"][0, 0]) for request in requests]

    assert asyncio.run(ask()) == [0.0, 2.0, 4.0, 6.0]


def test_an_awaited_request_that_takes_too_long_is_withdrawn(
    host: HostManager, device: ScriptedDevice
) -> None:
    device.may_run.clear()

    async def ask() -> None:
        async with asyncio.timeout(0.01):
            await host.submit("double", row(1))

    with pytest.raises(TimeoutError):
        asyncio.run(ask())
    assert host.statistics().networks["double"].counters.cancelled == 1
    device.may_run.set()


def test_numbers_of_numpy_count_as_those_of_python(
    host: HostManager, device: ScriptedDevice
) -> None:
    device.may_run.clear()
    seconds: Any = np.float32(20.0)
    priority: Any = np.uint8(1)
    first = host.submit("double", row(0), deadline=seconds)
    late = host.submit("double", row(1), priority=priority)
    device.may_run.set()
    assert (type(first.deadline), type(late.priority)) == (float, int)
    assert [float(r.result(30)["y"][0, 0]) for r in (first, late)] == [0.0, 2.0]


@pytest.mark.parametrize("devices", ["a", ["a"], None, DeviceDescription("a"), [1]])
def test_what_is_no_list_of_devices_is_refused(devices: Any) -> None:
    with pytest.raises(OptionError, match="^devices"):
        HostManager(devices)


def test_what_cannot_be_is_refused_and_the_host_goes_on(host: HostManager) -> None:
    with pytest.raises(OptionError, match=r"no network 'doubl'; did you mean 'double'\?"):
        host.run("doubl", row(1))
    wrong: Any = ["double"]
    with pytest.raises(OptionError, match=r"no network \['double'\]; did you mean"):
        host.run(wrong, row(1))
    with pytest.raises(FeedError, match="unknown input 'z'"):
        host.run("double", {"z": row(1)["x"]})
    with pytest.raises(DeadlineError, match="deadline=-1 s is in the past"):
        host.submit("double", row(1), deadline=-1)
    for wrong in ("soon", 10**400):
        with pytest.raises(OptionError, match=f"deadline={wrong!r:.4}.*: give a number of seconds"):
            host.submit("double", row(1), deadline=wrong)
    wrong = 1.5
    with pytest.raises(OptionError, match="priority=1.5: give a whole number"):
        host.submit("double", row(1), priority=wrong)
    with pytest.raises(OptionError, match="the host has one of this name"):
        host.add_network("double", scaled(3.0))
    with pytest.raises(OptionError, match="name=''"):
        host.add_network("", scaled(3.0))
    with pytest.raises(OptionError, match="duplicates=0"):
        host.add_network("triple", scaled(3.0), duplicates=0)
    with pytest.raises(OptionError, match="max_batch=2, but its sizes are fixed"):
        host.add_network("triple", scaled(3.0), max_batch=2)
    with pytest.raises(OptionError, match="is a program"):
        host.add_network("triple", glow_nb.compile(scaled(3.0), backend="interpreter").program)
    assert host.run("double", row(1))["y"][0, 0] == 2.0


def test_devices_need_names_of_their_own() -> None:
    with pytest.raises(OptionError, match=r"several are called \['a'\]"):
        HostManager([ScriptedDevice("a"), ScriptedDevice("a")])
    with pytest.raises(OptionError, match="there is none"):
        HostManager([])


def test_a_full_queue_refuses(host: HostManager, device: ScriptedDevice) -> None:
    device.may_run.clear()
    accepted = [host.submit("double", row(n)) for n in range(6)]  # two on the device, four wait
    with pytest.raises(RefusedError, match=r"'double': 4 requests wait.*max_queued"):
        host.submit("double", row(6))
    device.may_run.set()
    assert [float(request.result(30)["y"][0, 0]) for request in accepted] == [0, 2, 4, 6, 8, 10]
    assert host.statistics().networks["double"].counters.refused == 1


def test_the_higher_priority_goes_first(host: HostManager, device: ScriptedDevice) -> None:
    host.add_network("triple", scaled(3.0), priority=5)
    device.may_run.clear()
    requests = [host.submit("double", row(1)) for _ in range(2)]  # fill the device
    requests.append(host.submit("double", row(1), priority=1))
    requests.append(host.submit("double", row(1), priority=9))
    requests.append(host.submit("triple", row(1)))
    requests.append(host.submit("triple", row(1), priority=5))
    device.may_run.set()
    wait(requests, 30)
    order = [key.split(":")[0] for key in device.ran]
    assert order == ["double", "double", "triple", "double", "triple", "double"]


def test_a_cancelled_request_is_not_computed(host: HostManager, device: ScriptedDevice) -> None:
    device.may_run.clear()
    first, second, third = (host.submit("double", row(n)) for n in range(3))
    assert third.cancel()  # in the queue of the host
    assert second.cancel()  # on the device, not begun
    assert second.cancel()
    device.may_run.set()
    assert first.result(30)["y"][0, 0] == 0.0
    assert not first.cancel()
    with pytest.raises(CancelledError):
        third.result(30)
    wait_until(lambda: host.statistics().networks["double"].running == 0)
    assert len(device.ran) == 1


def test_a_late_request_gets_an_error_in_the_queue_and_on_the_device(
    host: HostManager, device: ScriptedDevice
) -> None:
    device.may_run.clear()
    with pytest.raises(DeadlineError, match=r"no answer within 0.02 s.*it was being computed"):
        host.submit("double", row(0), deadline=0.02).result(30)
    others = [host.submit("double", row(0)) for _ in range(DEPTH)]
    with pytest.raises(DeadlineError, match="it waited in the queue"):
        host.submit("double", row(0), deadline=0.02).result(30)
    device.may_run.set()
    assert [request.result(30)["y"][0, 0] for request in others] == [0.0, 0.0]
    assert host.statistics().networks["double"].counters.late == 2


def test_run_gets_its_error_at_the_deadline(host: HostManager, device: ScriptedDevice) -> None:
    device.may_run.clear()
    with pytest.raises(DeadlineError):
        host.run("double", row(0), deadline=0.01)
    device.may_run.set()


def test_an_error_in_a_callback_of_a_user_stops_nothing(
    host: HostManager, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: object) -> None:
        raise ValueError("mine")

    requests = [host.submit("double", row(n)) for n in range(4)]
    for request in requests:
        request.add_done_callback(broken)
    assert [float(request.result(30)["y"][0, 0]) for request in requests] == [0, 2, 4, 6]
    assert host.run("double", row(7))["y"][0, 0] == 14.0
    assert "mine" in caplog.text


def test_a_callback_may_ask_again(host: HostManager) -> None:
    again = threading.Event()
    answers: list[float] = []

    def keep(request: Future[dict[str, Array]]) -> None:
        answers.append(float(request.result()["y"][0, 0]))
        again.set()

    def ask(_: object) -> None:
        host.submit("double", row(5)).add_done_callback(keep)

    host.submit("double", row(1)).add_done_callback(ask)
    assert again.wait(30)
    assert answers == [10.0]


def test_parts_run_on_their_devices_and_overlap() -> None:
    devices = [ScriptedDevice(name) for name in "abcd"]
    with HostManager(devices) as host:
        host.add_network("net", diamond("a", "b", "c", "d"))
        devices[1].may_run.clear()
        request = host.submit("net", row(1.0))
        wait_until(lambda: len(devices[2].ran) == 1)  # beside the one that does not end
        assert not devices[3].ran
        behind = host.submit("net", row(2.0))
        wait_until(lambda: len(devices[2].ran) == 2)  # requests overlap
        devices[1].may_run.set()
        assert request.result(30)["y"][0, 0] == 5.0
        assert behind.result(30)["y"][0, 0] == 10.0
        assert [len(device.ran) for device in devices] == [2, 2, 2, 2]


def test_what_goes_between_parts_is_bounded() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("net", pipeline("a", "b"))
        devices[1].may_run.clear()
        requests = [host.submit("net", row(n)) for n in range(20)]
        wait_until(lambda: len(devices[0].ran) == 4)
        time.sleep(0.02)
        assert len(devices[0].ran) == 4  # two devices have two runs each
        devices[1].may_run.set()
        assert [float(r.result(30)["y"][0, 0]) for r in requests] == [4.0 * n for n in range(20)]


def test_the_least_busy_copy_is_taken() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        assert host.networks()["double"].duplicates == 2
        devices[0].may_run.clear()
        stuck = host.submit("double", row(0))
        wait_until(lambda: host.health()["a"].running + host.health()["b"].running > 0)
        for _ in range(6):
            host.run("double", row(1))
        assert len(devices[1].ran) in (6, 7)
        devices[0].may_run.set()
        stuck.result(30)


def test_copies_that_are_idle_take_turns() -> None:
    devices = [ScriptedDevice(name) for name in "ab"]
    with HostManager(devices) as host:
        host.add_network("double", scaled(2.0), duplicates=2)
        for _ in range(6):
            host.run("double", row(1))
        assert [len(device.ran) for device in devices] == [3, 3]


def test_removing_waits_for_what_came(host: HostManager, device: ScriptedDevice) -> None:
    device.may_run.clear()
    requests = [host.submit("double", row(n)) for n in range(4)]
    thread = threading.Thread(target=host.remove_network, args=("double",))
    thread.start()
    wait_until(lambda: not host.networks()["double"].ready)
    with pytest.raises(RefusedError, match="it is being removed"):
        host.submit("double", row(1))
    assert device.keys
    device.may_run.set()
    thread.join(30)
    assert [float(request.result(0)["y"][0, 0]) for request in requests] == [0, 2, 4, 6]
    assert not device.keys
    with pytest.raises(OptionError, match="no network 'double'"):
        host.submit("double", row(1))
    with pytest.raises(OptionError, match="no network 'double'"):
        host.remove_network("double")
    host.add_network("double", scaled(2.0))
    assert host.run("double", row(1))["y"][0, 0] == 2.0


def test_two_who_remove_a_network_do_it_once(host: HostManager, device: ScriptedDevice) -> None:
    device.may_run.clear()
    request = host.submit("double", row(1))
    threads = [threading.Thread(target=host.remove_network, args=("double",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: host._dispatcher._removals == 2)
    device.may_run.set()
    for thread in threads:
        thread.join(30)
    assert request.result(0)["y"][0, 0] == 2.0
    assert not device.keys


def test_a_network_that_does_not_fit_is_an_error_that_says_what_is_missing() -> None:
    device = ScriptedDevice("small", memory_bytes=10)
    with HostManager([device]) as host:
        with pytest.raises(PartitionError, match=r"'small' has 10 of 10 bytes free, \d+ are miss"):
            host.add_network("double", scaled(2.0))
        assert not host.networks()
        with pytest.raises(PartitionError, match="planned for the device 'b'; the host has"):
            host.add_network("plan", pipeline("small", "b"))


def test_networks_share_a_device_fairly(device: ScriptedDevice) -> None:
    with HostManager([device]) as host:
        for name in ("flood", "rare"):
            host.add_network(name, scaled(2.0))
        device.before_run = lambda _: time.sleep(0.001)
        flood = [host.submit("flood", row(1)) for _ in range(60)]
        rare = [host.submit("rare", row(1)) for _ in range(10)]
        wait(rare, 30)
        before = sum(key.startswith("flood") for key in device.ran)
        assert before < 30  # and not 60
        wait(flood, 30)


def test_a_network_with_state_has_one_copy_and_keeps_the_order() -> None:
    devices = [ScriptedDevice("a"), ScriptedDevice("b")]
    with HostManager(devices) as host:
        with pytest.raises(OptionError, match="it has state, so it has one copy"):
            host.add_network("sum", running_sum(), duplicates=2)
        host.add_network("sum", running_sum(), duplicates=None)
        requests = [host.submit("sum", row(n)) for n in range(1, 6)]
        assert [float(r.result(30)["y"][0, 0]) for r in requests] == [1, 3, 6, 10, 15]


def test_networks_tell_what_they_are(host: HostManager) -> None:
    info = host.networks()["double"]
    assert str(info.inputs["x"]) == "float32<1 x 2>"
    assert (info.duplicates, info.ready, info.batch_sizes) == (1, True, (1,))
    assert info.places == {"scaled_y": ("a",)}


def test_statistics_count_what_happened(host: HostManager) -> None:
    for _ in range(3):
        host.run("double", row(1))
    statistics = host.statistics()
    counters = statistics.networks["double"].counters
    assert (counters.answered, counters.failed, counters.batches) == (3, 0, {1: 3})
    assert counters.latency.count == counters.waiting.count == 3
    assert counters.latency.total > 0
    assert statistics.devices["a"].memory_used_bytes == host.health()["a"].memory_used_bytes > 0
    host.run("double", row(1))
    assert counters.answered == 3  # a copy


@pytest.mark.parametrize("error", [GlowError("of the run"), FeedError("too odd")])
def test_an_error_of_a_run_is_the_answer(
    host: HostManager, device: ScriptedDevice, error: GlowError
) -> None:
    def fail(_: str) -> None:
        raise error

    device.before_run = fail
    with pytest.raises(type(error), match=str(error)):
        host.run("double", row(1))
    device.before_run = lambda _: None
    assert host.run("double", row(1))["y"][0, 0] == 2.0
    assert host.statistics().networks["double"].counters.failed == 1


def test_devices_down_at_the_beginning_are_left_alone() -> None:
    dead, alive = ScriptedDevice("dead"), ScriptedDevice("alive")
    dead.refused_restarts = 10**6
    dead.kill("from the beginning")
    with HostManager([dead, alive]) as host:
        wait_until(lambda: not host._devices[0].is_up)
        host.add_network("double", scaled(2.0))
        assert alive.keys
        with pytest.raises((PartitionError, DeviceError)):
            host.add_network("plan", pipeline("dead", "alive"))
        assert host.run("double", row(1))["y"][0, 0] == 2.0


def test_public_names_come_when_they_are_asked_for() -> None:
    from glow_nb import runtime

    assert runtime.HostManager is HostManager
    assert {"HostManager", "Tracer", "partition"} <= set(dir(runtime))
    assert all(getattr(runtime, name) is not None for name in dir(runtime))
    with pytest.raises(AttributeError, match=r"'glow_nb.runtime' has no attribute 'hosts'"):
        _ = runtime.hosts
