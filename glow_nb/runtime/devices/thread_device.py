"""Devices whose runs are done in this process: by a thread of their own, or by who waits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from typing_extensions import override

from glow_nb.base.errors import DeviceError, GlowError
from glow_nb.base.foreign import foreign
from glow_nb.base.memory_limit import within_memory
from glow_nb.base.types import Array
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device_thread import start_thread
from glow_nb.runtime.devices.engine import Ended, Engine, HeldNetwork, Outcome, Run
from glow_nb.runtime.devices.managed_device import ManagedDevice

Runner = Callable[[Sequence[Array]], list[Array]]
"""Runs a network on arrays that fit it; returns new ones."""


class ThreadDevice(ManagedDevice):
    """A device in this process.

    A killed run ends at once for its request, but its thread continues to the end of the run: a
    thread cannot be stopped.
    """

    @abstractmethod
    def _load(self, network: Deployable) -> Runner:
        """Return what runs *network*; raise CompileError or MemoryLimitError."""

    @override
    def _start(self) -> Engine:
        return _ThreadEngine(str(self), self._load, self._ended)

    @override
    def run(self, key: str, inputs: Sequence[Array]) -> list[Array]:
        """Do what ``submit(key, inputs).result()`` does, on this thread if the device is idle."""
        run = self._accept(key, inputs, None)
        with self._killed_if_interrupted(run):
            outcome = self._outcome_here(run)
        if outcome is None:
            self._dispatch()
            assert run.future is not None
            return run.future.result()
        if isinstance(outcome, GlowError):
            raise outcome
        return outcome

    def _outcome_here(self, run: Run) -> Outcome | None:
        """Do *run* on this thread; return None if it has to wait."""
        outcome: Outcome = []  # of an interrupted run, whose result is dropped
        try:
            with self._killed_if_interrupted(), self._lock:
                engine = self._admit(run)
                if self._waiting or not self._free_slots:
                    run.future = Future()
                    self._waiting.append(run)
                    return None
                self._begin(run)
            assert isinstance(engine, _ThreadEngine)
            outcome = engine.outcome_of(run)
        finally:  # an interrupt from the keyboard must not keep the slot
            is_in_time = run.future is not None or self._ended(run, outcome)
        if not is_in_time:  # the device was given up meanwhile
            raise run.death or self._death(run.held.key)
        return outcome


class _ThreadEngine:
    """One thread, which does one run after another."""

    slots = 1

    def __init__(self, name: str, load: Callable[[Deployable], Runner], ended: Ended) -> None:
        """Be the engine of the device called *name*.

        Raises:
            DeviceError: The system gives no thread.
        """
        self._load, self._ended = load, ended
        self._runners: dict[int, Runner] = {}
        self._borders: dict[int, tuple[foreign, within_memory]] = {}
        self._runs: SimpleQueue[Run | None] = SimpleQueue()
        self._name = name
        start_thread(name, self._work)

    def serve(self) -> None:
        """Do nothing: the thread waits for runs."""

    def load(self, held: HeldNetwork) -> None:
        """Load a network on the calling thread."""
        subject = f"{self._name}: network {held.key!r}"
        with within_memory("loading"), foreign(DeviceError, subject):
            self._runners[held.number] = self._load(held.network)
        self._borders[held.number] = foreign(DeviceError, subject), within_memory(subject)

    def unload(self, held: HeldNetwork) -> None:
        """Forget a network."""
        del self._runners[held.number], self._borders[held.number]

    def begin(self, run: Run) -> None:
        """Let the thread do *run*."""
        self._runs.put(run)

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            self._ended(run, self.outcome_of(run))
            del run  # what it holds must not outlive it in this frame

    def outcome_of(self, run: Run) -> Outcome:
        """Do *run* on the calling thread."""
        number = run.held.number
        border, memory = self._borders[number]
        try:
            with border, memory:
                return self._runners[number](run.inputs)
        except GlowError as error:
            return error

    def stop(self) -> None:
        """Let the thread end."""
        self._runs.put(None)

    def kill(self) -> None:
        """Let the thread end when it has done what it is at, if it ever has."""
        self._runs.put(None)
