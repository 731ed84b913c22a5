"""A Ray device: the same as the others, on an actor of a cluster that is this machine."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import CompileError, DeviceError, FeedError, MemoryLimitError, OptionError
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices import ray as ray_device
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.waiting import has_ended, wait_until

ray: Any = pytest.importorskip("ray", reason="Ray is not installed")

pytestmark = pytest.mark.jit

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def opened() -> Iterator[Open]:
    """Return what opens a device on a cluster of 4 CPUs; a test closes what it has opened."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, resources={"special": 1})

    def open_one(**fields: Any) -> Any:
        return open_device(DeviceDescription("far", kind="ray", **fields))

    yield open_one
    ray.shutdown()


@pytest.fixture(scope="module")
def shared(opened: Open, native: Deployable) -> Iterator[Any]:
    """Return a device for the tests that leave it as it is; starting an actor takes a second."""
    device = opened()
    device.add("net", native)
    yield device
    device.close()


def assert_right(device: Any, count: int = 10) -> None:
    futures = [device.submit("net", [feed(seed)]) for seed in range(count)]
    for seed, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(60)[0], feed(seed) ** 2)


def process_of(device: Any) -> int:
    """Return the number of the actor's process."""
    number: int = ray.get(device._engine._actor.__ray_call__.remote(lambda _: os.getpid()))
    return number


def test_runs_have_the_results_of_the_network(shared: Any) -> None:
    assert_right(shared)
    (result,) = shared.run("net", [feed(0)])
    result[:] = 0  # it is the caller's
    assert shared.health().running == 0


def test_arrays_that_go_through_the_store(shared: Any, big: Deployable) -> None:
    shared.add("big", big)
    x = feed(0, 300_000)
    (result,) = shared.run("big", [x])
    np.testing.assert_array_equal(result, x**2)
    result[:] = 0
    shared.evict("big")
    with pytest.raises(OptionError, match="it has no network 'big'"):
        shared.submit("big", [x])


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Deployable:
    from tests.unit.runtime.deployables import square

    return square(tmp_path_factory.mktemp("big"), size=300_000)


def test_errors_are_those_of_other_devices(shared: Any, native: Deployable) -> None:
    with pytest.raises(FeedError, match="input 'x': shape is"):
        shared.submit("net", [feed(0, 3)]).result(60)
    program = native.program
    assert isinstance(program, NativeProgram)
    elsewhere = replace(program, target=replace(program.target, triple="riscv64-unknown-linux"))
    with pytest.raises(CompileError, match="'far': network 'other': native program: .*riscv64"):
        shared.add("other", replace(native, program=elsewhere))
    with pytest.raises(MemoryLimitError, match="'huge' needs"):
        shared.add("huge", replace(native, run_bytes=1 << 40))
    assert_right(shared)


def test_the_actor_knows_neither_numba_nor_the_graph(shared: Any) -> None:
    def loaded(_: object) -> list[str]:
        import sys

        return [
            name
            for name in ("numba", "onnx", "glow_nb.hlir", "glow_nb.llir")
            if name in sys.modules
        ]

    assert ray.get(shared._engine._actor.__ray_call__.remote(loaded)) == []


def test_a_killed_actor_is_named_and_comes_back(opened: Open, native: Deployable) -> None:
    device = opened(cores=2)
    device.add("net", native)
    assert_right(device, 3)
    process = process_of(device)
    os.kill(process, signal.SIGSTOP)
    futures = [device.submit("net", [feed(seed)]) for seed in range(5)]
    os.kill(process, signal.SIGKILL)
    for future in futures:
        with pytest.raises(DeviceError, match="device 'far': its actor has ended: .*'net'"):
            future.result(60)
    assert not device.health().alive
    device.restart()
    device.add("net", native)
    assert_right(device, 3)
    os.kill(process_of(device), signal.SIGKILL)
    wait_until(lambda: not device.health().alive)  # though nobody asks it anything
    device.close()


def test_an_actor_that_gives_no_sign_of_life_is_killed(opened: Open, native: Deployable) -> None:
    device = opened(options={"heartbeat_timeout": 1.0})
    device.add("net", native)
    process = process_of(device)
    os.kill(process, signal.SIGSTOP)
    future = device.submit("net", [feed(0)])
    with pytest.raises(DeviceError, match="'far': its actor gave no sign of life for 1 seconds"):
        future.result(60)
    device.restart()
    device.add("net", native)
    assert_right(device, 3)
    device.close()
    wait_until(lambda: has_ended(process))


def test_a_device_that_is_given_up(opened: Open, native: Deployable) -> None:
    device = opened()
    device.add("net", native)
    process = process_of(device)
    os.kill(process, signal.SIGSTOP)
    future = device.submit("net", [feed(0)])
    device.kill("it did not answer")
    with pytest.raises(DeviceError, match="device 'far': it did not answer; network 'net'"):
        future.result(60)
    device.restart()
    device.add("net", native)
    assert_right(device, 3)
    device.close()
    wait_until(lambda: has_ended(process))  # Ray ends in 5 seconds what does not hear that it shall


def test_resources_and_placement_groups(opened: Open, native: Deployable) -> None:
    group = ray.util.placement_group([{"CPU": 1, "special": 1}], name="bundle")
    for options in (
        {"placement_group": "bundle", "resources": {"special": 1}},
        {"placement_group": group, "placement_group_bundle_index": 0, "num_cpus": 1},
    ):
        device = opened(options=options)
        device.add("net", native)
        assert_right(device, 3)
        device.close()
    ray.util.remove_placement_group(group)


def test_an_actor_without_a_place(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_device, "START_SECONDS", 0.5)
    with pytest.raises(DeviceError, match="'far': Ray has not started its actor within 0.5 sec"):
        opened(options={"resources": {"special": 100}})


def test_closing_does_not_wait_for_an_actor_without_a_place(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    special = {"resources": {"special": 1}}
    device = opened(options=special)
    device.kill("it is not needed")
    other = opened(options=special)
    is_starting, new_actor = threading.Event(), ray_device._new_actor

    def new_actor_and_tell(*arguments: Any) -> Any:
        actor = new_actor(*arguments)
        is_starting.set()
        return actor

    monkeypatch.setattr(ray_device, "_new_actor", new_actor_and_tell)
    with ThreadPoolExecutor(1) as threads:
        restart = threads.submit(device.restart)
        assert is_starting.wait(30)
        device.close()
        with pytest.raises(DeviceError, match="'far': it was closed while its actor was to start"):
            restart.result(30)
    other.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resource": {"special": 1}}, "unknown option 'resource'; did you mean 'resources'"),
        ({"heartbeat_timeout": 0}, "heartbeat_timeout=0: give 0.1 to 1e\\+06 seconds"),
        ({"num_cpus": -1}, "Ray: ValueError: "),
        ({"placement_group": "nobody"}, "Ray: ValueError: .*nobody"),
    ],
)
def test_wrong_options(opened: Open, options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=f"device 'far': .*{message}"):
        opened(options=options)
