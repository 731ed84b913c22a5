"""A process device: what it shares, how it dies, and what it says of that."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from glow_nb.base.errors import CompileError, DeviceError, MemoryLimitError, OptionError
from glow_nb.codegen.native_program import NativeProgram
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices import process
from glow_nb.system.cores import available_cores
from glow_nb.system.host_caches import available_processors
from tests.unit.runtime.deployables import feed
from tests.unit.runtime.devices.conftest import Open
from tests.unit.runtime.devices.waiting import wait_until, worker_of

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc"),
]
ROOT = Path(__file__).parents[4]


def test_the_process_knows_neither_numba_nor_the_graph() -> None:
    script = "import sys, glow_nb.runtime.devices.process_worker; print(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(printed.stdout.split())
    assert "glow_nb.codegen.loaded_program" in modules
    assert not modules & {
        "numba",
        "onnx",
        "glow_nb.hlir",
        "glow_nb.llir",
        "glow_nb.formats.onnx.importer",
    }


def test_the_actor_of_ray_knows_as_little() -> None:
    script = "import sys, glow_nb.runtime.devices.ray_worker; print(*sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    modules = set(printed.stdout.split())
    assert not modules & {"numba", "onnx", "ray", "glow_nb.hlir", "glow_nb.llir"}


def test_it_is_a_session_of_its_own(device: Any) -> None:
    worker = worker_of(device)
    assert os.getsid(worker) == os.getpgid(worker) == worker


def test_a_killed_process_is_named_with_its_signal_and_the_network(device: Any) -> None:
    os.kill(worker_of(device), signal.SIGSTOP)
    futures = [device.submit("net", [feed(seed)]) for seed in range(5)]
    assert device.health().running == 5
    os.kill(worker_of(device), signal.SIGKILL)
    for future in futures:
        with pytest.raises(
            DeviceError,
            match=r"device 'd': its process was ended by signal 9 \(SIGKILL\); network 'net'",
        ):
            future.result(30)
    health = device.health()
    assert not health.alive
    assert "SIGKILL" in health.reason
    assert health.memory_used_bytes == health.running == 0
    with pytest.raises(DeviceError, match="SIGKILL"):
        device.submit("net", [feed(0)])


def test_an_idle_process_that_dies_is_noticed(device: Any) -> None:
    os.kill(worker_of(device), signal.SIGTERM)
    wait_until(lambda: not device.health().alive)
    assert "SIGTERM" in device.health().reason


def test_a_restarted_device_is_empty_and_works(device: Any, native: Deployable) -> None:
    for restarts in (1, 2):
        os.kill(worker_of(device), signal.SIGKILL)
        wait_until(lambda: not device.health().alive)
        device.restart()
        assert device.health().restarts == restarts
        with pytest.raises(OptionError, match="it has no network 'net'"):
            device.submit("net", [feed(0)])
        device.add("net", native)
        np.testing.assert_array_equal(device.run("net", [feed(1)])[0], feed(1) ** 2)


def test_a_process_that_ends_by_itself(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ends_at_once.py").write_text("import sys\nsys.exit('there is no memory')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process, "WORKER_MODULE", "ends_at_once")
    with pytest.raises(DeviceError, match="ended with status 1; the last it said: there is no mem"):
        opened("process")


def test_a_process_that_does_not_start(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "says_nothing.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(process, "WORKER_MODULE", "says_nothing")
    monkeypatch.setattr(process, "START_SECONDS", 0.1)
    with pytest.raises(DeviceError, match="has not started within 0.1 seconds"):
        opened("process")
    monkeypatch.setattr(sys, "executable", "/usr/bin/application")
    with pytest.raises(DeviceError, match="this program cannot start Python again"):
        opened("process")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(DeviceError, match="its process does not start: .*No such file"):
        opened("process")


def test_a_process_that_has_ended_is_stopped(device: Any) -> None:
    engine = device._engine
    os.kill(worker_of(device), signal.SIGKILL)
    engine._thread.join(30)
    engine.stop()


def test_a_system_without_descriptors_is_an_error_of_the_device(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("socket.socketpair", refuse)
    with pytest.raises(DeviceError, match="its process does not start: .*Too many open files"):
        opened("process")


def test_errors_come_back_as_they_are(device: Any, native: Deployable) -> None:
    program = native.program
    assert isinstance(program, NativeProgram)
    elsewhere = replace(program, target=replace(program.target, triple="riscv64-unknown-linux"))
    with pytest.raises(CompileError, match="'d': network 'far': native program: .*riscv64"):
        device.add("far", replace(native, program=elsewhere))
    np.testing.assert_array_equal(device.run("net", [feed(0)])[0], feed(0) ** 2)


def test_a_system_without_memory_to_share(
    opened: Open, native: Deployable, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = opened("process")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(MemoryLimitError, match="'net': the system gave no memory to share .*No sp"):
        device.add("net", native)
    assert device.health().memory_used_bytes == 0


def test_a_program_is_shared_by_the_processes_that_have_it(
    opened: Open, native: Deployable
) -> None:
    devices = [opened("process", name=name) for name in ("a", "b")]
    for device in devices:
        device.add("net", native)
        device.add("again", native)

    def mapped(device: Any) -> set[str]:
        """Return the inodes of programs: they are mapped to be read alone."""
        maps = Path(f"/proc/{worker_of(device)}/maps").read_text(encoding="ascii")
        return {line.split()[4] for line in maps.splitlines() if "memfd" in line and "r--s" in line}

    first, second = map(mapped, devices)
    assert first == second
    assert len(first) == 1


def test_a_device_outlives_the_thread_that_opened_it(opened: Open, native: Deployable) -> None:
    devices: list[Any] = []
    thread = threading.Thread(target=lambda: devices.append(opened("process")))
    thread.start()
    thread.join()
    time.sleep(0.05)
    devices[0].add("net", native)
    np.testing.assert_array_equal(devices[0].run("net", [feed(0)])[0], feed(0) ** 2)


def test_processors_are_those_that_are_named(opened: Open, native: Deployable) -> None:
    last = available_processors()[-1]
    device = opened("process", options={"processors": [last]})
    assert os.sched_getaffinity(worker_of(device)) == {last}
    device.add("net", native)
    np.testing.assert_array_equal(device.run("net", [feed(0)])[0], feed(0) ** 2)


@pytest.mark.parametrize(
    ("processors", "message"),
    [
        ([4096], r"processors=\[4096\]: this process may not use \[4096\]"),
        ("0", "attribute 'processors' must be .*, got '0'"),
        (list(available_processors())[:1] * 2, "give one for each of its 2 cores"),
    ],
)
def test_wrong_processors(opened: Open, processors: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"device 'd': .*{message}"):
        opened("process", cores=2, options={"processors": processors})


class Asker(threading.Thread):
    """Asks a device for three runs at a time, and looks whether each has one right answer."""

    inputs = tuple(map(feed, range(7)))

    def __init__(self, device: Any, first: int) -> None:
        super().__init__()
        self.device, self.first = device, first
        self.is_over = threading.Event()
        self.answers, self.wrong = 0, 0
        self.errors: list[str] = []

    @override
    def run(self) -> None:
        number = self.first
        while not self.is_over.is_set():
            calls: list[int] = []
            inputs = [self.inputs[(number + n) % 7] for n in range(3)]
            try:
                futures = [self.device.submit("net", [x]) for x in inputs]
            except (DeviceError, OptionError) as error:  # dead, or alive and still empty
                self.errors.append(str(error))
                time.sleep(0.001)
                continue
            for n, (x, future) in enumerate(zip(inputs, futures, strict=True)):
                future.add_done_callback(lambda _, n=n, calls=calls: calls.append(n))
                self.look_at(x, future)
            self.wrong += sorted(calls) != [0, 1, 2]
            number += 3

    def look_at(self, x: Any, future: Any) -> None:
        try:
            (result,) = future.result(30)
            self.wrong += not (result == x**2).all()
            self.answers += 1
        except DeviceError as error:
            self.errors.append(str(error))


def have_answers(askers: Sequence[Asker], least: int) -> bool:
    return sum(asker.answers for asker in askers) > least


def test_each_run_has_one_answer_whoever_dies(device: Any, native: Deployable) -> None:
    """Kill the process at random while four threads ask: right results or errors, all of them."""
    chance = random.Random(0)
    askers = [Asker(device, first) for first in range(4)]
    for asker in askers:
        asker.start()
    answers = 0
    for _ in range(3):
        answers += 200
        wait_until(partial(have_answers, askers, answers))
        time.sleep(chance.random() * 0.01)
        os.kill(worker_of(device), signal.SIGKILL)
        wait_until(lambda: not device.health().alive)
        device.restart()
        device.add("net", native)
    for asker in askers:
        asker.is_over.set()
    for asker in askers:
        asker.join(30)
        assert not asker.is_alive()
        assert not asker.wrong
    errors = [error for asker in askers for error in asker.errors]
    died, *others = "its process was ended by signal 9", "it is being restarted", "it has no"
    others += ["network 'net' is being loaded", "network 'net' was replaced"]
    expected = tuple(f"device 'd': {reason}" for reason in (died, *others))
    assert any(died in error for error in errors)
    assert [error for error in errors if not error.startswith(expected)] == []
    assert device.health().running == 0


def test_no_more_threads_than_processors(opened: Open, tmp_path: Path) -> None:
    from tests.unit.runtime.deployables import square

    device = opened("process", cores=available_cores())
    device.add("net", square(tmp_path, size=1 << 18, threads=available_cores()))
    x = feed(0, 1 << 18)
    for _ in range(3):
        np.testing.assert_array_equal(device.run("net", [x])[0], x**2)
