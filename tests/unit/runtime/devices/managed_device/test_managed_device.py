"""What holds for every kind of device: networks by keys, memory, order, one answer for a run."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glow_nb.base.errors import CompileError, DeviceError, FeedError, MemoryLimitError, OptionError
from glow_nb.llir.program import Program
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.open_device import open_device
from tests.in_turn import marked
from tests.unit.runtime.deployables import compile_text, deploy, feed
from tests.unit.runtime.devices.conftest import Open
from tests.unit.runtime.devices.managed_device.squares import squares

pytestmark = pytest.mark.jit

COUNTER = """
state %count : int32<2> = dense [0, 10]
func @main(%x : int32<2>) -> (%y : int32<2>) {
  %next = add(%count, %x) : int32<2>
  %next_save = save(%next, %count)
  %y_save = save(%next, %y)
}
"""

ADDS_TO_ITS_INPUT = """
func @main(%x : float32<4>, %s : float32<4>) -> (%s : float32<4>) {
  %sum = add(%x, %s) : float32<4>
  %s_save = save(%sum, %s)
}
"""


def test_runs_have_the_results_of_the_network(opened: Open, kind: str, network: Deployable) -> None:
    device = opened(kind)
    device.add("net", network)
    squares(device, 20)
    (result,) = device.run("net", [feed(3)])
    np.testing.assert_array_equal(result, feed(3) ** 2)
    result[:] = 0  # it is the caller's


def test_runs_from_many_threads(opened: Open, kind: str, network: Deployable) -> None:
    device = opened(kind)
    device.add("net", network)
    wrong: list[int] = []

    def work(seed: int) -> None:
        for each in range(seed, seed + 10):
            inputs = [feed(each)]
            is_submitted = each % 2
            results = device.submit("net", inputs).result(30) if is_submitted else None
            (result,) = results or device.run("net", inputs)
            if not (result == feed(each) ** 2).all():
                wrong.append(each)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert device.health().running == 0


def test_memory_is_that_of_constants_and_one_run(
    opened: Open, kind: str, network: Deployable
) -> None:
    device = opened(kind, memory_bytes=2 * network.memory_bytes + 5)
    device.add("first", network)
    assert device.memory_free_bytes == network.memory_bytes + 5
    device.add("second", network)
    with pytest.raises(MemoryLimitError, match=f"'third' needs {network.memory_bytes} .* 5 of "):
        device.add("third", network)
    assert device.health().memory_used_bytes == 2 * network.memory_bytes
    squares(device, 3, "second")
    device.evict("first")
    device.add("third", network)
    squares(device, 3, "third")
    assert device.memory_free_bytes == 5


def test_keys_are_checked(opened: Open, kind: str, network: Deployable) -> None:
    device = opened(kind)
    device.add("net", network)
    with pytest.raises(OptionError, match="device 'd': network 'net' is there already"):
        device.add("net", network)
    for ask in (device.evict, lambda key: device.submit(key, [feed(0)])):
        with pytest.raises(OptionError, match="no network 'nett'; did you mean 'net'"):
            ask("nett")
    device.evict("net")
    with pytest.raises(OptionError, match=r"no network 'net'; it holds \[\]"):
        device.run("net", [feed(0)])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "0 arrays are fed; the network has 1 inputs"),
        ([np.zeros(3, np.float32)], r"input 'x': shape is \[3\]"),
        ([np.zeros(1000, np.int32)], "input 'x': dtype is int32"),
    ],
)
def test_feeds_are_checked(
    opened: Open, kind: str, network: Deployable, inputs: list[Any], message: str
) -> None:
    device = opened(kind)
    device.add("net", network)
    with pytest.raises(FeedError, match=message):
        device.submit("net", inputs).result()
    with pytest.raises(FeedError, match=message):
        device.run("net", inputs)
    squares(device, 2)


def test_feeds_that_do_not_lie_side_by_side(opened: Open, kind: str, network: Deployable) -> None:
    device = opened(kind)
    device.add("net", network)
    wide = np.repeat(feed(0), 2)[::2]
    (result,) = device.submit("net", [wide]).result(30)
    np.testing.assert_array_equal(result, wide**2)


def test_a_network_that_is_replaced_while_feeds_are_checked(
    opened: Open, kind: str, network: Deployable
) -> None:
    device = opened(kind)
    device.add("net", network)

    class Slow:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            device.evict("net")
            device.add("net", network)
            return feed(0)

    with pytest.raises(OptionError, match="device 'd': network 'net' was replaced; run it again"):
        device.submit("net", [Slow()])
    squares(device, 2)


def test_a_system_without_threads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = "interpreter" if kind == "interpreter" else "cpu"

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(DeviceError, match="device 'd': the system gives no thread .*can't"):
            open_device(DeviceDescription("d", kind=kind, backend=backend))


def test_a_device_that_cannot_be_restarted(
    opened: Open, kind: str, network: Deployable, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = opened(kind)

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(DeviceError, match="the system gives no thread"):
            device.restart()
    assert device.health() == Health(alive=False, reason="it could not be restarted")
    device.restart()
    device.add("net", network)
    squares(device, 2)


def test_who_does_a_run_itself_learns_why_the_device_was_given_up(
    opened: Open, native: Deployable
) -> None:
    device = opened("local")
    device.add("net", native)
    runners = device._engine._runners
    ((number, runner),) = runners.items()

    def late(inputs: object) -> object:
        device.kill("it was late")
        device.restart()
        return runner(inputs)

    runners[number] = late
    with pytest.raises(DeviceError, match="device 'd': it was late; network 'net'"):
        device.run("net", [feed(0)])
    assert device.health() == Health(alive=True, restarts=1)


def test_state_stays_with_its_network(opened: Open, tmp_path: Path, kind: str) -> None:
    if kind == "simulated":
        pytest.skip("a simulated device has no state")
    backend = "interpreter" if kind == "interpreter" else "cpu"
    counter = deploy(compile_text(COUNTER, tmp_path, backend=backend))
    device = opened(kind)
    for key in ("one", "other"):
        device.add(key, counter)
        step = np.array([1, 2], np.int32)
        futures = [device.submit(key, [step]) for _ in range(10)]
        for number, future in enumerate(futures, 1):
            assert future.result(30)[0].tolist() == [number, 10 + 2 * number]


def test_an_output_that_is_an_input(opened: Open, tmp_path: Path, kind: str) -> None:
    backend = "interpreter" if kind == "interpreter" else "cpu"
    adds = deploy(compile_text(ADDS_TO_ITS_INPUT, tmp_path, backend=backend))
    device = opened(kind)
    device.add("net", adds)
    for seed in range(5):
        x, s = feed(seed, 4), feed(seed + 1, 4)
        (result,) = device.submit("net", [x, s.copy()]).result(30)
        np.testing.assert_array_equal(result, x + s)


def test_a_program_that_is_not_allocated(opened: Open, interpreted: Deployable) -> None:
    assert isinstance(interpreted.program, Program)
    unplaced = replace(interpreted, program=replace(interpreted.program, arena=None))
    device = opened("interpreter")
    with pytest.raises(CompileError, match="device 'd': network 'net': .*not allocated"):
        device.add("net", unplaced)
    device.add("net", interpreted)


def test_what_cannot_be_loaded_is_not_there(
    opened: Open, kind: str, native: Deployable, interpreted: Deployable
) -> None:
    if kind == "simulated":
        pytest.skip("a simulated device takes both")
    device = opened(kind)
    wrong = native if kind == "interpreter" else interpreted
    with pytest.raises(CompileError, match="device 'd': network 'net': 'net' is .*; compile it"):
        device.add("net", replace(wrong, name="net"))
    assert device.health().memory_used_bytes == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # which is what we test
def test_a_device_stays_with_its_process(opened: Open, kind: str, network: Deployable) -> None:
    device = opened(kind)
    device.add("net", network)
    squares(device, 2)
    child = os.fork()
    if not child:  # in the child: tell by the status
        status = 1
        try:
            device.submit("net", [feed(0)])
        except DeviceError as error:
            status = (
                0 if "it belongs to the process that this one was forked from" in str(error) else 2
            )
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    squares(device, 2)


@pytest.mark.parametrize("kind", marked(["local", "process"], slow=["process"]))
def test_a_description_is_kept(opened: Open, kind: str) -> None:
    device = opened(kind, name="gpu 7")
    assert isinstance(device.description, DeviceDescription)
    assert repr(device) == "device 'gpu 7'"
