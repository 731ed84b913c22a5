"""A device that is another process on this machine: if it dies, this process continues."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass

from typing_extensions import override

from glow_nb.base.errors import (
    DeviceError,
    GlowError,
    MemoryLimitError,
    OptionError,
    reason_of,
)
from glow_nb.base.memory_limit import within_memory
from glow_nb.runtime.devices.channel import Channel, Frame, Verb, error_of
from glow_nb.runtime.devices.device_description import DeviceDescription
from glow_nb.runtime.devices.device_thread import start_thread
from glow_nb.runtime.devices.engine import Died, Ended, Engine, HeldNetwork, Outcome, Run
from glow_nb.runtime.devices.heartbeat import HEARTBEATS, check_heartbeat_timeout, silence
from glow_nb.runtime.devices.managed_device import ManagedDevice
from glow_nb.runtime.devices.native import native_of
from glow_nb.runtime.devices.options import DeviceOptions, read_options
from glow_nb.runtime.devices.process_worker import SLOTS
from glow_nb.runtime.devices.program_file import program_file
from glow_nb.runtime.devices.shared_memory import AnonymousFile
from glow_nb.runtime.devices.shared_runs import FixedRuns, OpenRuns
from glow_nb.system.child_process import ChildProcess, can_start
from glow_nb.system.host_caches import available_processors

WORKER_MODULE = "glow_nb.runtime.devices.process_worker"
START_SECONDS = 60.0
"""Start-up timeout, in seconds."""
END_SECONDS = 5.0
"""Seconds that a process has to end before it is killed."""


@dataclass(frozen=True)
class ProcessOptions(DeviceOptions):
    """The options of a process.

    Attributes:
        processors: Numbers of the processors that it may use, one for each core of the device; by
            default those that this process may use.
        heartbeat_timeout: Seconds after which a process that gives no sign of life is killed.
    """

    processors: tuple[int, ...] = ()
    heartbeat_timeout: float = 10.0

    @override
    def __post_init__(self) -> None:
        """Raise OptionError for a value that means nothing."""
        super().__post_init__()
        check_heartbeat_timeout(self.heartbeat_timeout)


class ProcessDevice(ManagedDevice):
    """Runs machine code in a process of its own.

    Inputs are copied once into memory that both processes map, results once out of it. A program
    with its weights is written once, for all process devices that have it, and mapped by each.
    """

    def __init__(self, description: DeviceDescription) -> None:
        """Start the process that *description* tells of.

        Raises:
            OptionError: It has an option that means nothing.
            DeviceError: The process does not start.
        """
        options = read_options(description, ProcessOptions)
        _check_processors(description, options.processors)
        self._process_options = options
        super().__init__(description)

    @override
    def _start(self) -> Engine:
        return _ProcessEngine(str(self), self._process_options, self._ended, self._died)


def _check_processors(description: DeviceDescription, processors: tuple[int, ...]) -> None:
    subject = f"device {description.name!r}: processors={list(processors)}"
    absent = sorted(set(processors) - set(available_processors()))
    if absent:
        raise OptionError(
            f"{subject}: this process may not use {absent}; it may use "
            f"{list(available_processors())}"
        )
    if processors and len(set(processors)) != description.cores:
        raise OptionError(f"{subject}: give one for each of its {description.cores} cores")


class _ProcessEngine:
    """A process, the channel to it, and a thread that reads what it says."""

    slots = SLOTS

    def __init__(self, name: str, options: ProcessOptions, ended: Ended, died: Died) -> None:
        self._name, self._options, self._ended, self._died = name, options, ended, died
        self._networks: dict[int, FixedRuns | OpenRuns] = {}
        self._programs: dict[int, AnonymousFile] = {}  # for other processes that load the same
        self._begun: list[Run | None] = [None] * SLOTS
        self._answers: dict[int, Future[Frame]] = {}
        self._end = ""  # why the process has ended, once it has
        self._lock = threading.Lock()  # held to send, and to wait for an answer or to end
        try:
            self._socket, self._theirs = socket.socketpair()
        except OSError as error:
            raise DeviceError(f"{name}: its process does not start: {reason_of(error)}") from error
        self._channel = Channel(self._socket)
        self._is_served = threading.Event()
        started: Future[ChildProcess] = Future()
        try:
            self._thread = start_thread(name, lambda: self._work(started))
        except DeviceError:
            self._close()
            raise
        try:
            self._child = started.result()
        except BaseException:  # it does not start, or its caller is gone
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._is_served.set()
            raise

    def _work(self, started: Future[ChildProcess]) -> None:
        """Start the process, read what it says, and tidy up when it has ended.

        All of it is done by one thread: the system ends a process with the thread that started it.
        """
        try:
            child = self._start_child()
        except BaseException as error:  # for who waits for the process
            self._close()
            started.set_exception(error)
            return
        started.set_result(child)
        self._is_served.wait()
        reason = self._read(child)
        with self._lock:
            self._end = reason
            answers = list(self._answers.values())
        for answer in answers:
            answer.set_exception(DeviceError(f"{self._name}: {reason}"))
        self._died(self, reason)
        child.process.wait()
        child.close()
        self._close()

    def _start_child(self) -> ChildProcess:
        """Return the process that has said that it is ready."""
        if not can_start():
            raise DeviceError(
                f"{self._name}: this program cannot start Python again; use a device of the kind "
                "'local'"
            )
        beat = self._options.heartbeat_timeout / HEARTBEATS
        numbers = (self._theirs.fileno(), os.getpid(), beat, *self._options.processors)
        try:
            child = ChildProcess(
                WORKER_MODULE,
                *map(str, numbers),
                pass_fds=(self._theirs.fileno(),),
                environment={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        except OSError as error:
            raise DeviceError(
                f"{self._name}: its process does not start: {reason_of(error)}"
            ) from error
        self._theirs.close()
        try:
            self._wait_until_ready(child)
        except BaseException:
            child.process.kill()
            child.process.wait()
            child.close()
            raise
        return child

    def _wait_until_ready(self, child: ChildProcess) -> None:
        self._channel.wait_at_most(START_SECONDS)
        try:
            ready = self._channel.receive()
        except TimeoutError as error:
            raise DeviceError(
                f"{self._name}: its process has not started within {START_SECONDS:g} seconds"
            ) from error
        self._channel.wait_at_most(self._options.heartbeat_timeout)
        if ready is None:
            raise DeviceError(f"{self._name}: {_last_words(child)}")

    def serve(self) -> None:
        """Read what the process says."""
        self._is_served.set()

    def load(self, held: HeldNetwork) -> None:
        """Let the process map the program of a network, and slots for its runs."""
        native = native_of(held.network)
        try:
            with within_memory("memory to share"):
                program = program_file(native)
            slots = FixedRuns(native) if native.open is None else OpenRuns(native)
        except OSError as error:
            problem = reason_of(error)
            raise MemoryLimitError(f"the system gave no memory to share ({problem})") from error
        order = Frame(Verb.LOAD, held.number, text=held.key)
        self._ask(order, held, (program.descriptor, *slots.descriptors))
        self._networks[held.number], self._programs[held.number] = slots, program

    def unload(self, held: HeldNetwork) -> None:
        """Let the process forget a network, before it takes another order."""
        self._send(Frame(Verb.UNLOAD, held.number))
        self._networks.pop(held.number, None)  # it may have died, and been forgotten, meanwhile
        self._programs.pop(held.number, None)

    def _ask(self, order: Frame, held: HeldNetwork, descriptors: tuple[int, ...]) -> None:
        """Send *order* and wait until it is done; raise the error that the process reports
        instead.
        """
        answer: Future[Frame] = Future()
        with self._lock:
            if self._end:
                raise DeviceError(f"{self._name}: {self._end}; network {held.key!r}")
            self._answers[held.number] = answer
            with contextlib.suppress(OSError):  # the reader will see that it has ended
                self._channel.send(order, descriptors)
        try:
            frame = answer.result()
        except BaseException:  # an interrupt: its content would be unknown
            self.kill()
            raise
        if frame.verb == Verb.FAILED:
            raise error_of(frame.text)

    def _send(self, order: Frame) -> None:
        with self._lock, contextlib.suppress(OSError):  # the reader will see that it has ended
            self._channel.send(order)

    def begin(self, run: Run) -> None:
        """Copy the inputs of *run* to its slot, and let the process work on it."""
        number, slot = run.held.number, run.slot
        slots = self._networks.get(number)
        if slots is None:  # it has ended
            return
        try:
            sizes = slots.put(slot, run.inputs)
        except GlowError as error:  # its sizes need too much
            self._ended(run, error)
            return
        except OSError as error:
            problem = f"the system gave no memory to share ({reason_of(error)})"
            self._ended(run, MemoryLimitError(f"{self._name}: {problem}"))
            return
        self._begun[slot] = run
        self._send(Frame(Verb.RUN, number, slot, sizes))

    def _read(self, child: ChildProcess) -> str:
        """Read what the process says until it has ended, or hangs and is killed; return why."""
        try:
            while frame := self._channel.receive():
                self._tell(frame)
        except TimeoutError:
            child.process.kill()
            return f"its process {silence(self._options.heartbeat_timeout)}"
        return _last_words(child)

    def _tell(self, frame: Frame) -> None:
        """Tell who waits for it what the process says."""
        if frame.verb == Verb.ALIVE:
            return
        answer = self._answers.pop(frame.network, None)  # nothing runs meanwhile
        if answer is not None:
            answer.set_result(frame)
            return
        run = self._begun[frame.slot]
        assert run is not None
        self._begun[frame.slot] = None
        self._ended(run, self._outcome(frame))

    def _outcome(self, frame: Frame) -> Outcome:
        if frame.verb == Verb.FAILED:
            return error_of(frame.text)
        try:
            with within_memory(f"{self._name}: results"):
                return self._networks[frame.network].results(frame.slot)
        except MemoryLimitError as error:
            return error

    def _close(self) -> None:
        with self._lock:  # nothing is sent meanwhile: another file may get the descriptor
            self._socket.close()
        self._theirs.close()
        self._networks.clear()
        self._programs.clear()

    def stop(self) -> None:
        """Let the process end, and wait for that."""
        with contextlib.suppress(OSError):  # it has ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def kill(self) -> None:
        """Kill the process."""
        self._child.process.kill()


def _last_words(child: ChildProcess) -> str:
    """Wait until the process has ended; return how it did."""
    try:
        status = child.process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.process.kill()
        status = child.process.wait()
    said = child.last_output()
    return f"its process {_ending(status)}" + (f"; the last it said: {said}" if said else "")


def _ending(status: int) -> str:
    """Return how a process ended, from its *status* as :mod:`subprocess` tells it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:  # a signal without a name
        return f"was ended by signal {-status}"
