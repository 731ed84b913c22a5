"""What all kinds of devices share: networks, the order of runs, one answer for each, death."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from typing_extensions import override

from glow_nb.base.errors import (
    CompileError,
    DeviceError,
    FeedError,
    GlowError,
    MemoryLimitError,
    OptionError,
)
from glow_nb.base.types import Array
from glow_nb.base.uncopied import Uncopied
from glow_nb.runtime.deployable import Deployable
from glow_nb.runtime.devices.device import Health
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.engine import Engine, HeldNetwork, LoadStatus, Outcome, Run
from glow_nb.runtime.devices.held_networks import HeldNetworks


class ManagedDevice(Uncopied, ABC):
    """A device whose runs are done by an :class:`~glow_nb.runtime.devices.engine.Engine`.

    One run works at a time, on all cores of the device. Arrays of runs that wait, or are being
    sent to or from the device, are memory of the host.

    A run is in ``_waiting`` or in ``_begun`` until it ends. The thread that takes it out, under the
    lock, answers it. So each run is answered once, even if its device dies as it ends.
    """

    UNCOPIED = (
        "a device cannot be copied or pickled, its threads and processes belong to this process; "
        "open another one of its description (device.description)"
    )

    def __init__(self, description: DeviceDescription) -> None:
        """Start the device that *description* tells of.

        Raises:
            OptionError: The description has an option that its kind does not know.
            DeviceError: It cannot be started.
        """
        self.description = description
        self._forget_everything()
        self._restarts = 0
        self._engine: Engine | None = None
        self._begin_with(self._start())
        _DEVICES.add(self)

    def _forget_everything(self) -> None:
        """Hold no network and no run, with new locks that no thread holds."""
        self._lifecycle = threading.RLock()  # held to restart or close
        self._dispatching = threading.Lock()  # held to begin runs
        self._lock = threading.Lock()  # held to look at what follows
        self._changed = threading.Condition(self._lock)  # a run has ended, or the device
        self._networks = HeldNetworks(str(self), self.description.memory_bytes)
        self._waiting: deque[Run] = deque()
        self._begun: set[Run] = set()
        self._free_slots: list[int] = []
        self._is_closed = False
        self._reason = ""

    @abstractmethod
    def _start(self) -> Engine:
        """Return a new engine that tells :meth:`_ended` and :meth:`_died`; or raise DeviceError."""

    def _begin_with(self, engine: Engine) -> None:
        with self._lock:
            self._engine, self._reason = engine, ""
            self._free_slots = list(range(engine.slots))
            self._dispatching = threading.Lock()  # an interrupt may have kept the last one locked
        engine.serve()

    @property
    def memory_free_bytes(self) -> int:
        """The memory that is free for networks."""
        with self._lock:
            return self._networks.free_bytes

    # networks

    def add(self, key: str, network: Deployable) -> None:
        """Load *network* and call it *key*; see :class:`~glow_nb.runtime.devices.device.Device`."""
        with self._lock:
            engine = self._alive()
            held = self._networks.claim(key, network)
        try:
            self._load_on(engine, held)
        except BaseException:
            self._remove(held)
            raise
        with self._lock:
            self._require_same(engine, key)
            held.status = LoadStatus.READY

    def _load_on(self, engine: Engine, held: HeldNetwork) -> None:
        """Load a network; an error says of which device it is, and which network."""
        try:
            engine.load(held)
        except DeviceError:
            raise
        except GlowError as error:
            kind = MemoryLimitError if isinstance(error, MemoryLimitError) else CompileError
            raise kind(f"{self}: network {held.key!r}: {error}") from error

    def _remove(self, held: HeldNetwork) -> None:
        with self._lock:
            self._networks.remove(held)

    def evict(self, key: str) -> None:
        """Forget the network *key*, when its runs have ended; an unknown one is an OptionError."""
        with self._lock:
            engine, held = self._alive(), self._networks.ready(key)
            held.status = LoadStatus.LEAVING
            try:
                self._changed.wait_for(lambda: self._engine is not engine or not held.unfinished)
            except BaseException:  # an interrupt from the keyboard: it stays
                held.status = LoadStatus.READY
                raise
            self._require_same(engine, key)
        engine.unload(held)
        self._remove(held)

    def _alive(self) -> Engine:
        """Return the engine; raise DeviceError if there is none, or if the device is closed."""
        if self._engine is None or self._is_closed:
            raise self._death()
        return self._engine

    def _require_same(self, engine: Engine, key: str) -> None:
        """Raise DeviceError if the device has died, or was restarted, since it had *engine*."""
        if self._engine is not engine:
            raise self._error("it was restarted", key) if self._engine else self._death(key)

    def _death(self, key: str = "") -> DeviceError:
        """Return the error that says why the device does nothing, for *key* if one is given."""
        return self._error(self._reason or "it is closed", key)

    def _error(self, reason: str, key: str = "") -> DeviceError:
        network = f"; network {key!r}" if key else ""
        return DeviceError(f"{self}: {reason}{network}")

    # runs

    def submit(self, key: str, inputs: Sequence[Array]) -> Future[list[Array]]:
        """Begin a run of *key* on *inputs*; see :class:`~glow_nb.runtime.devices.device.Device`."""
        future: Future[list[Array]] = Future()
        try:
            run = self._accept(key, inputs, future)
        except FeedError as error:
            future.set_exception(error)
            return future
        with self._killed_if_interrupted(), self._lock:
            self._admit(run)
            self._waiting.append(run)
        self._dispatch()
        return future

    def run(self, key: str, inputs: Sequence[Array]) -> list[Array]:
        """Do what ``submit(key, inputs).result()`` does."""
        return self.submit(key, inputs).result()

    def _accept(self, key: str, inputs: Sequence[Array], future: Future[list[Array]] | None) -> Run:
        """Return the requested run; raise DeviceError, OptionError or FeedError."""
        with self._lock:
            self._alive()
            held = self._networks.ready(key)
        return Run(held, held.feeds.in_order(inputs), future)

    def _admit(self, run: Run) -> Engine:
        """Count a new *run*; raise DeviceError or OptionError if its network has gone meanwhile."""
        engine = self._alive()
        if self._networks.ready(run.held.key) is not run.held:
            raise OptionError(f"{self}: network {run.held.key!r} was replaced; run it again")
        run.held.unfinished += 1
        return engine

    def _dispatch(self) -> None:
        """Let runs begin that wait, as long as there is a slot.

        One thread at a time does that, so that they begin in their order; it looks again when it
        has let go, for what another one has left to it.
        """
        turn = self._dispatching
        try:
            while self._waiting and self._free_slots and turn.acquire(blocking=False):
                try:
                    while found := self._next():
                        engine, run = found
                        engine.begin(run)
                finally:
                    turn.release()
        except BaseException:  # an interrupt from the keyboard: it is unknown where the run is
            self.kill("it was interrupted while a run was sent to it")
            raise

    def _next(self) -> tuple[Engine, Run] | None:
        """Take a slot for the first run that waits and was not cancelled."""
        with self._lock:
            while self._engine is not None and self._waiting and self._free_slots:
                run = self._waiting.popleft()
                assert run.future is not None  # another thread waits for it
                if run.future.set_running_or_notify_cancel():
                    self._begin(run)
                    return self._engine, run
                self._count_out(run)
        return None

    def _begin(self, run: Run) -> None:
        run.slot = self._free_slots.pop()
        self._begun.add(run)

    @contextmanager
    def _killed_if_interrupted(self, run: Run | None = None) -> Iterator[None]:
        """Give the device up if an interrupt from the keyboard ends the statement.

        What runs there might be counted forever, or not at all. With a *run*, this is so only if
        that has not ended by then.
        """
        try:
            yield
        except Exception:
            raise
        except BaseException:
            if run is None or run in self._begun:
                self.kill("it was interrupted as a run began or ended")
            raise

    def _count_out(self, run: Run) -> None:
        """Let a *run* be one that has ended."""
        run.held.unfinished -= 1
        if self._is_closed or run.held.status is LoadStatus.LEAVING:  # a thread waits for it
            self._changed.notify_all()

    def _ended(self, run: Run, outcome: Outcome) -> bool:
        """Answer *run*; return False if it had ended before, as the device was given up."""
        with self._killed_if_interrupted(), self._lock:
            if run not in self._begun:
                return False
            self._begun.remove(run)
            self._free_slots.append(run.slot)
            self._count_out(run)
            is_waiting = bool(self._waiting)
        if is_waiting:  # the device does not wait for the callbacks of this run
            self._dispatch()
        if run.future is not None:
            _answer(run.future, outcome)
        return True

    # life and death

    def health(self) -> Health:
        """Return how it is, at once."""
        with self._lock:
            is_alive = self._engine is not None and not self._is_closed
            return Health(
                alive=is_alive,
                reason="" if is_alive else self._reason or "it is closed",
                running=len(self._begun) + len(self._waiting),
                memory_used_bytes=self._networks.used_bytes,
                restarts=self._restarts,
            )

    def _died(self, engine: Engine, reason: str) -> None:
        """Be dead for *reason*, unless *engine* is an earlier one, from before a restart."""
        with self._lock:
            if self._engine is not engine:
                return
            runs = self._give_up(reason)
        self._fail(runs)

    def kill(self, reason: str) -> None:
        """Give it up: what runs ends with a DeviceError that says *reason*; it holds nothing."""
        with self._lock:
            engine = self._engine
            if engine is None:
                return
            runs = self._give_up(reason)
        engine.kill()
        self._fail(runs)

    def _give_up(self, reason: str) -> list[Run]:
        """Be dead and empty; return the runs, which the caller must answer."""
        runs = [*self._begun, *self._waiting]
        for run in runs:
            run.death = self._error(reason, run.held.key)
        self._begun.clear()
        self._waiting.clear()
        self._networks.clear()
        self._engine, self._reason = None, reason
        self._changed.notify_all()
        return runs

    def _fail(self, runs: Iterable[Run]) -> None:
        for run in runs:
            future = run.future
            if future is not None and (future.running() or future.set_running_or_notify_cancel()):
                future.set_exception(run.death)

    def restart(self) -> None:
        """Make it alive and empty again, or raise DeviceError if it cannot be."""
        with self._lifecycle:
            if self._is_closed:
                raise self._death()
            self.kill("it is being restarted")
            try:
                engine = self._start()
            except GlowError:
                self._reason = "it could not be restarted"
                raise
            self._restarts += 1
            self._begin_with(engine)

    def close(self) -> None:
        """End it for good, when its runs have ended; a second call does nothing."""
        with self._lock:
            self._is_closed = True  # which a restart that runs may look at
        with self._lifecycle:
            with self._lock:
                self._changed.wait_for(lambda: not self._begun and not self._waiting)
                engine = self._engine
                self._give_up("it is closed")
            if engine is not None:
                engine.stop()

    def _leave_in_parent(self) -> None:
        """Be dead in the child of a fork: threads, pipes and processes are the parent's.

        Its runs are the parent's, too. Their futures get no result here, since a thread of the
        parent may hold the lock of whoever would be.
        """
        is_closed = self._is_closed
        self._forget_everything()
        self._engine, self._is_closed = None, is_closed
        self._reason = "it belongs to the process that this one was forked from; restart it"

    @override
    def __repr__(self) -> str:
        return f"device {self.description.name!r}"


def _answer(future: Future[list[Array]], outcome: Outcome) -> None:
    if isinstance(outcome, GlowError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


_DEVICES: weakref.WeakSet[ManagedDevice] = weakref.WeakSet()


def _leave_all_in_parent() -> None:
    for device in list(_DEVICES):
        device._leave_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_in_parent)
