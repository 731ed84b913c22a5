"""A device for tests of the host: it computes with the interpreter, and fails as it is told to."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any

from glow_nb.backends.interpreter import Interpreter
from glow_nb.base.errors import DeviceError, GlowError, MemoryLimitError, OptionError
from glow_nb.base.types import Array
from glow_nb.llir.program import Program
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.system.state_store import StateStore


@dataclass(eq=False)
class _Task:
    key: str
    inputs: Sequence[Array]
    future: Future[list[Array]] = field(default_factory=Future)


class _Life:
    """What a device holds from one start to the next: a thread, its tasks, and networks."""

    def __init__(self, work: Callable[[_Life], None]) -> None:
        self.tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self.open: dict[_Task, None] = {}
        self.networks: dict[str, tuple[Deployable, Callable[[Sequence[Array]], list[Array]]]] = {}
        self.thread = threading.Thread(target=work, args=(self,), daemon=True)
        self.thread.start()


class ScriptedDevice:
    """Runs one after the other on a thread of its own.

    Attributes:
        before_run: Called on its thread with the key before each run; what it raises is the answer.
        may_run: While this is not set, no run begins to compute.
        tells_memory: Without it, asking for the free memory raises KeyError.
        gives: Returns what a run gives instead of the list of its outputs.
        refused_restarts: How many restarts fail from now on.
        ran: The keys of the runs that ended, in order.
    """

    def __init__(self, name: str, *, memory_bytes: int = 1 << 20, cores: int = 1) -> None:
        self.description = DeviceDescription(
            name, "simulated", "interpreter", cores=cores, memory_bytes=memory_bytes
        )
        self.before_run: Callable[[str], None] = lambda _: None
        self.may_run = threading.Event()
        self.may_run.set()
        self.tells_memory = True
        self.gives: Callable[[list[Array]], Any] = lambda outputs: outputs
        self.refused_restarts = 0
        self.ran: list[str] = []
        self._lock = threading.Lock()
        self._reason, self._restarts = "", 0
        self._life: _Life | None = _Life(self._work)

    @property
    def memory_free_bytes(self) -> int:
        if not self.tells_memory:
            raise KeyError("no such gauge")
        with self._lock:
            return self._free(self._alive())

    def _free(self, life: _Life) -> int:
        used = sum(network.memory_bytes for network, _ in life.networks.values())
        return self.description.memory_bytes - used

    def _alive(self) -> _Life:
        if self._life is None:
            raise DeviceError(f"{self.description.name}: {self._reason}")
        return self._life

    def add(self, key: str, network: Deployable) -> None:
        with self._lock:
            life = self._alive()
            if key in life.networks:
                raise OptionError(f"{self.description.name}: there is a network {key!r}")
            if self._free(life) < network.memory_bytes:
                raise MemoryLimitError(
                    f"{self.description.name}: {self._free(life)} bytes are free, {key!r} needs "
                    f"{network.memory_bytes}"
                )
            assert isinstance(network.program, Program)
            executable = Interpreter().compile(network.program, threads=1)
            state = StateStore(network.program.state)
            run = partial(executable.run_on, state) if state else executable.run
            life.networks[key] = network, run

    def evict(self, key: str) -> None:
        with self._lock:
            life = self._alive()
            if key not in life.networks:
                raise OptionError(f"{self.description.name}: there is no network {key!r}")
            del life.networks[key]

    @property
    def keys(self) -> list[str]:
        """The keys of the networks on it."""
        with self._lock:
            return list(self._life.networks) if self._life else []

    def submit(self, key: str, inputs: Sequence[Array]) -> Future[list[Array]]:
        with self._lock:
            life, task = self._alive(), _Task(key, inputs)
            life.open[task] = None
        life.tasks.put(task)
        return task.future

    def run(self, key: str, inputs: Sequence[Array]) -> list[Array]:
        return self.submit(key, inputs).result()

    def health(self) -> Health:
        with self._lock:
            life = self._life
            if life is None:
                return Health(False, self._reason, restarts=self._restarts)
            used = self.description.memory_bytes - self._free(life)
            return Health(True, "", len(life.open), used, self._restarts)

    def kill(self, reason: str) -> None:
        with self._lock:
            life, self._life, self._reason = self._life, None, reason
        if life is None:
            return
        life.tasks.put(None)
        for task in list(life.open):
            self._answer(life, task, DeviceError(f"{self.description.name}: {reason}"))

    def restart(self) -> None:
        self.kill("it is being restarted")
        with self._lock:
            if self.refused_restarts:
                self.refused_restarts -= 1
                raise DeviceError(f"{self.description.name}: it cannot be restarted")
            self._life = _Life(self._work)
            self._restarts += 1

    def close(self) -> None:
        self.kill("it is closed")

    def _work(self, life: _Life) -> None:
        while (task := life.tasks.get()) is not None:
            if not self._begins(life, task):
                continue
            self.may_run.wait()
            try:
                self.before_run(task.key)
                _, run = life.networks[task.key]
                answer: list[Array] | GlowError = self.gives(run(task.inputs))
            except GlowError as error:
                answer = error
            except AssertionError as error:  # the test fails, and does not hang
                answer = GlowError(f"{self.description.name}: {error}")
            self._answer(life, task, answer)

    def _begins(self, life: _Life, task: _Task) -> bool:
        """Return whether *task* is still wanted; then it cannot be cancelled any more."""
        with self._lock:
            if task in life.open and task.future.set_running_or_notify_cancel():
                return True
            life.open.pop(task, None)
            return False

    def _answer(self, life: _Life, task: _Task, answer: list[Array] | GlowError) -> None:
        with self._lock:
            if task not in life.open:
                return
            del life.open[task]
            if not task.future.running() and not task.future.set_running_or_notify_cancel():
                return
        if isinstance(answer, GlowError):
            task.future.set_exception(answer)
        else:
            self.ran.append(task.key)
            task.future.set_result(answer)


class Killer:
    """Kills devices at random times, until the end of a ``with`` statement."""

    def __init__(self, devices: Sequence[ScriptedDevice], seed: int, pause: float) -> None:
        self._devices, self._random, self._pause = devices, random.Random(seed), pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.kills = 0

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopped.wait(self._random.expovariate(1 / self._pause)):
            device = self._random.choice(self._devices)
            if device.health().alive:
                device.kill("killed at random")
                self.kills += 1


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait until *condition* holds; fail if it does not within *seconds*."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it has not come true in time"
        time.sleep(0.001)
