"""Workers of all threads take turns at the cores."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from glow_nb.codegen import core_slots, workers
from glow_nb.codegen.core_slots import CoreSlots
from glow_nb.codegen.workers import compile_in_workers
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from tests.unit.codegen.samples import FLOAT32

HOST = Target.host()


def test_who_does_not_want_a_slot_any_more_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_slots, "available_cores", lambda: 1)
    slots, wanted = CoreSlots(), [1]
    assert slots.take(lambda: True)
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(slots.take, lambda: wanted)
        while not slots.is_waited_for():
            pass
        wanted.clear()
        slots.look_again()
        assert not waiting.result()
    assert not slots.is_waited_for()
    slots.give()
    assert slots.take(lambda: True), "the slot that nobody wanted is free"


class Workers:
    """Stands in for processes that compile; each kernel waits until the test lets all go on."""

    has_started = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
        self.started = 0
        self.begun: list[str] = []
        self.may_end = threading.Event()
        for module in (core_slots, workers):
            monkeypatch.setattr(module, "available_cores", lambda: cores)
        monkeypatch.setattr(workers, "_start_worker", self._start)
        monkeypatch.setattr(workers, "_IDLE", workers._IdleWorkers())

    def _start(self) -> Workers:
        self.started += 1
        return self

    def is_ready(self) -> bool:
        return True

    def is_alive(self) -> bool:
        return True

    def compile(self, kernel: KernelSource, _: Target) -> tuple[KernelSource, bytes]:
        self.begun.append(kernel.family)
        self.may_end.wait()
        return kernel, b"object"

    def kill(self) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to close."""


def compiled(family: str, kernels: int, count: int) -> int:
    text = "def kernel(x, scratch, thread, threads): ..."
    sources = [KernelSource(family, f"# {n}\n{text}", (FLOAT32,)) for n in range(kernels)]
    return len(dict(compile_in_workers(sources, HOST, count)))


def until_others_wait(count: int) -> None:
    while len(core_slots.CORE_SLOTS._line) < count:
        pass


def test_all_compilations_together_have_a_worker_for_each_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Workers(monkeypatch, cores=2)
    with ThreadPoolExecutor(3) as executor:
        results = [executor.submit(compiled, name, 5, count=4) for name in "abc"]
        until_others_wait(3 * 4 - 2)
        assert len(made.begun) == 2
        made.may_end.set()
        assert [result.result() for result in results] == [5, 5, 5]
    assert made.started == 2, "workers go from one compilation to the next"


def test_a_short_compilation_does_not_wait_for_all_of_a_long_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Workers(monkeypatch, cores=1)
    with ThreadPoolExecutor(2) as executor:
        long = executor.submit(compiled, "long", 10, count=1)
        while not made.begun:
            pass
        short = executor.submit(compiled, "short", 1, count=1)
        until_others_wait(1)
        made.may_end.set()
        assert (long.result(), short.result()) == (10, 1)
    assert made.begun.index("short") == 1
