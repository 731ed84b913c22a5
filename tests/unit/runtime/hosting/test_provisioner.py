"""Where parts are loaded: all of a network or nothing of it, and never more than fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import glow_nb
from glow_nb.base.errors import CompileError, DeviceError, MemoryLimitError, PartitionError
from glow_nb.hlir.graph import Function
from glow_nb.hlir.ops import MatMul
from glow_nb.runtime.deploy import compile_part
from glow_nb.runtime.hosting import provisioner
from glow_nb.runtime.hosting.executor import run_once
from glow_nb.runtime.hosting.hosted_device import HostedDevice
from glow_nb.runtime.hosting.provisioner import Provisioner
from tests.unit.runtime.scripted_device import ScriptedDevice
from tests.unit.runtime.small_networks import DEVICE, pipeline, planned, running_sum, scaled

ONE = compile_part(scaled(2.0), DEVICE).memory_bytes
"""The memory of one small network."""


class Host:
    """Devices with a provisioner over them."""

    def __init__(self, **memory: int) -> None:
        self.devices = [ScriptedDevice(name, memory_bytes=size) for name, size in memory.items()]
        self.hosted = [HostedDevice(device) for device in self.devices]
        self.provisioner = Provisioner(self.hosted)

    def held(self) -> list[int]:
        """Return how many networks are on each device."""
        return [len(device.keys) for device in self.devices]


def test_the_emptiest_device_is_taken() -> None:
    host = Host(a=5 * ONE, b=9 * ONE)
    for expected in ([0, 1], [1, 1], [1, 2]):
        host.provisioner.load("net", {1: scaled(2.0)}, 1)
        assert host.held() == expected


def test_a_plan_is_followed_and_its_copies_are_elsewhere() -> None:
    host = Host(a=2 * ONE, b=2 * ONE, c=2 * ONE, d=2 * ONE)
    (flow,) = host.provisioner.load("net", {1: pipeline("d", "b")}, 2)
    for part, first in zip(flow.parts, "db", strict=True):
        assert part.copies[0].device.name == first
        assert len({copy.device.name for copy in part.copies}) == 2
    assert sum(host.held()) == 4
    host.provisioner.unload([flow])
    assert host.held() == [0, 0, 0, 0]


def test_what_is_left_over_gets_copies() -> None:
    host = Host(a=ONE, b=ONE, c=ONE, d=ONE, e=ONE)
    host.provisioner.load("other", {1: pipeline("e")}, 1)
    (flow,) = host.provisioner.load("net", {1: pipeline("a", "b")}, None)
    assert host.held() == [1, 1, 1, 1, 1]
    assert flow.copies == 2


def keep_from(device: ScriptedDevice, *operators: str) -> None:
    device.description = replace(device.description, options={"unsupported": list(operators)})


def test_a_device_gets_no_operator_that_it_is_kept_from() -> None:
    host = Host(a=9 * ONE, b=3 * ONE, c=9 * ONE)
    keep_from(host.devices[0], "mul")
    keep_from(host.devices[2], "softmax")
    host.provisioner.load("net", {1: scaled(2.0)}, 1)
    assert host.held()[0] == 0
    host.provisioner.load("two", {1: scaled(2.0)}, None)
    assert host.held()[0] == 0
    with pytest.raises(PartitionError, match=r"'a' is not to run mul \(unsupported\)"):
        host.provisioner.load("three", {1: scaled(2.0)}, 3)


def test_what_no_device_is_to_run_is_refused_by_operator() -> None:
    host = Host(a=9 * ONE, b=9 * ONE)
    for device in host.devices:
        keep_from(device, "mul")
    with pytest.raises(PartitionError, match="mul"):
        host.provisioner.load("net", {1: scaled(2.0)}, 1)
    assert host.held() == [0, 0]


def test_each_part_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def counting(part: Any, device: Any) -> Any:
        compiled.append(part.name)
        return compile_part(part, device)

    monkeypatch.setattr(provisioner, "compile_part", counting)
    Host(a=ONE, b=ONE, c=ONE).provisioner.load("net", {1: scaled(2.0)}, 3)
    assert compiled == ["scaled_y"]


def test_what_is_missing_is_said_for_each_device() -> None:
    host = Host(a=ONE - 1, b=ONE)
    host.provisioner.load("other", {1: pipeline("b")}, 1)
    with pytest.raises(PartitionError) as caught:
        host.provisioner.load("net", {1: scaled(2.0)}, 1)
    message = str(caught.value)
    assert f"network 'net': 'scaled_y' needs {ONE} bytes" in message
    assert f"'a' has {ONE - 1} of {ONE - 1} bytes free, 1 are missing" in message
    assert f"'b' has 0 of {ONE} bytes free, {ONE} are missing" in message
    assert host.held() == [0, 1]


def test_a_copy_that_does_not_fit_is_an_error_and_nothing_is_loaded() -> None:
    host = Host(a=ONE, b=ONE - 1)
    with pytest.raises(PartitionError, match=r"copy 2, needs.*'a' has 0 of"):
        host.provisioner.load("net", {1: scaled(2.0)}, 2)
    assert host.held() == [0, 0]


def test_only_devices_of_the_same_backend_and_cores_get_copies() -> None:
    host = Host(a=ONE)
    host.hosted.append(HostedDevice(ScriptedDevice("b", cores=2)))
    with pytest.raises(PartitionError, match="copy 2"):
        host.provisioner.load("net", {1: pipeline("a")}, 2)


@pytest.mark.parametrize("error", [MemoryLimitError("full"), CompileError("damaged")])
def test_what_was_loaded_is_evicted_when_a_step_fails(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(a=4 * ONE, b=4 * ONE)

    def refuse(key: str, network: object) -> None:
        raise error

    monkeypatch.setattr(host.devices[1], "add", refuse)
    with pytest.raises(type(error), match=str(error)):
        host.provisioner.load("net", {1: pipeline("a", "a", "b")}, 1)
    assert host.held() == [0, 0]
    assert not host.hosted[0].copies


def test_a_device_that_dies_meanwhile_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(a=4 * ONE, b=4 * ONE)
    first = host.devices[0]

    def die(key: str, network: object) -> None:
        first.kill("power cut")
        raise DeviceError("b: it has died")

    monkeypatch.setattr(host.devices[1], "add", die)
    with pytest.raises(DeviceError, match="b: it has died"):
        host.provisioner.load("net", {1: pipeline("a", "b")}, 1)


def names(copies: Sequence[Any]) -> list[str]:
    return [copy.device.name for copy in copies]


def test_what_was_on_a_lost_device_is_moved_as_far_as_there_is_room() -> None:
    host = Host(a=2 * ONE, b=ONE, c=ONE - 1)
    (flow,) = host.provisioner.load("net", {1: pipeline("a", "a")}, 1)
    host.hosted[0].is_up = False
    host.provisioner.move(host.hosted[0])
    assert sorted(names(part.copies) for part in flow.parts) == [[], ["b"]]
    assert not host.hosted[0].copies


def test_no_part_of_a_network_that_has_state_is_moved() -> None:
    host = Host(a=9 * ONE, b=9 * ONE)
    parts = [running_sum(), scaled(2.0, made="double")]
    host.provisioner.load("sum", {1: planned(parts, "ab")}, 1)
    host.hosted[1].is_up = False
    host.provisioner.move(host.hosted[1])
    assert host.held()[0] == 1
    assert host.provisioner.place_rest()


def test_a_device_that_cannot_say_what_is_free_has_no_room() -> None:
    host = Host(a=9 * ONE, b=ONE)
    host.devices[0].tells_memory = False
    host.provisioner.load("net", {1: scaled(2.0)}, 1)
    assert host.held() == [0, 1]
    with pytest.raises(PartitionError, match=r"'a' cannot say how much.*a: KeyError: 'no such g"):
        host.provisioner.load("other", {1: scaled(2.0)}, 1)


def test_a_backend_that_cannot_compile_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(a=ONE)
    host.hosted.insert(0, HostedDevice(ScriptedDevice("b", cores=2)))

    def picky(part: Any, device: Any) -> Any:
        if device.cores == 2:
            raise CompileError("not for two cores")
        return compile_part(part, device)

    monkeypatch.setattr(provisioner, "compile_part", picky)
    host.provisioner.load("net", {1: scaled(2.0)}, 1)
    assert host.held() == [1]
    host.hosted[1].is_up = False
    with pytest.raises(CompileError, match="not for two cores"):
        host.provisioner.load("net", {1: scaled(2.0)}, 1)
    host.hosted[0].is_up = False
    with pytest.raises(DeviceError, match="no device of the host is up"):
        host.provisioner.load("net", {1: scaled(2.0)}, 1)


def chain(rows: int = 1) -> Function:
    """Return a graph of matrix products, whose weights are most of its memory."""
    builder = glow_nb.Builder("chain")
    value: glow_nb.Value = builder.input("x", f"float32<{rows} x 16>")
    for number in range(4):
        weight = np.full((16, 16), 0.1 * number, np.float32)
        value = builder.emit(MatMul(value, builder.constant("weight", weight)))
    builder.save(value, "y")
    return builder.function()


def test_a_network_that_no_device_can_take_whole_is_cut() -> None:
    needed = compile_part(chain(), DEVICE).memory_bytes
    host = Host(a=needed * 2 // 3, b=needed * 2 // 3)
    (flow,) = host.provisioner.load("net", {1: chain()}, 1)
    assert len(flow.parts) > 1
    assert all(host.held())
    feed = np.ones((1, 16), np.float32)
    whole = glow_nb.compile(chain(), backend="interpreter").run({"x": feed})
    assert np.array_equal(run_once(flow, [feed])[0], whole["y"])
    with pytest.raises(PartitionError, match="network 'more'.* are missing"):
        host.provisioner.load("more", {1: chain()}, 1)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([scaled(2.0, read="v"), scaled(2.0, made="v")], r"part 'scaled_y': \['v'\] come from no"),
        ([scaled(2.0, made="z")], r"its outputs: \['y'\] come from no input"),
        ([], "the plan has no parts"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(functions: list[Function], message: str) -> None:
    host = Host(a=9 * ONE)
    plan = planned(functions, ["a"] * len(functions))
    if not functions:
        plan = replace(plan, outputs=())
    with pytest.raises(PartitionError, match=message):
        host.provisioner.load("net", {1: plan}, 1)
    assert host.held() == [0]
