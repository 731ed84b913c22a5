"""Workers run on the cores of their caller, but not on the one that it is on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from glow_nb.system import worker_cores
from glow_nb.system.worker_cores import WorkerCores
from tests.unit.codegen.samples import SIZE, Chain

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="threads here cannot be kept off a core",
)


@contextmanager
def worker(cores: WorkerCores) -> Iterator[int]:
    """Yield the number of a thread that is a worker until the end of the statement."""
    numbers: list[int] = []
    may_end = threading.Event()

    def work() -> None:
        cores.add_worker()
        numbers.append(threading.get_native_id())
        may_end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    while not numbers:
        time.sleep(0.001)
    yield numbers[0]
    may_end.set()
    thread.join()


def test_workers_leave_the_core_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, allowed = WorkerCores(), os.sched_getaffinity(0)
    with worker(cores) as first, worker(cores) as second:
        for core in (min(allowed), max(allowed), min(allowed)):
            monkeypatch.setattr(worker_cores, "_core", lambda core=core: core)
            cores.leave_caller()
            for number in (first, second):
                assert os.sched_getaffinity(number) == allowed - {core}
    assert os.sched_getaffinity(0) == allowed
    monkeypatch.setattr(worker_cores, "_core", lambda: max(allowed))
    cores.leave_caller()  # the workers have ended


def test_a_worker_that_comes_later_leaves_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, allowed = WorkerCores(), os.sched_getaffinity(0)
    monkeypatch.setattr(worker_cores, "_core", lambda: min(allowed))
    cores.leave_caller()
    with worker(cores) as number:
        cores.leave_caller()
        assert os.sched_getaffinity(number) == allowed - {min(allowed)}


def test_workers_follow_the_cores_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, allowed = WorkerCores(), os.sched_getaffinity(0)
    monkeypatch.setattr(worker_cores, "_core", lambda: min(allowed))

    def call(on: set[int]) -> None:
        os.sched_setaffinity(0, on)
        cores.leave_caller()

    with worker(cores) as number:
        for on, expected in (
            (allowed, allowed - {min(allowed)}),
            ({min(allowed)}, allowed),  # there is no other one
            (allowed, allowed - {min(allowed)}),
        ):
            caller = threading.Thread(target=call, args=(on,))
            caller.start()
            caller.join()
            assert os.sched_getaffinity(number) == expected


def test_a_system_that_names_no_core_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cores, allowed = WorkerCores(), os.sched_getaffinity(0)
    monkeypatch.setattr(worker_cores, "_core", None)
    with worker(cores) as number:
        cores.leave_caller()
        assert os.sched_getaffinity(number) == allowed


@pytest.mark.jit
def test_a_team_that_sleeps_is_woken_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    before = set(map(int, os.listdir("/proc/self/task")))
    program = Chain(2).load(threads=2)
    arrays = [np.ones(SIZE, np.float32)], [np.zeros(SIZE, np.float32)]
    program.run_into(*arrays)
    (number,) = set(map(int, os.listdir("/proc/self/task"))) - before
    for core in (min(allowed), max(allowed)):
        monkeypatch.setattr(worker_cores, "_core", lambda core=core: core)
        deadline = time.monotonic() + 30
        while os.sched_getaffinity(number) != allowed - {core}:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # until it sleeps
            program.run_into(*arrays)
