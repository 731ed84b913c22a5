"""The other end of ``compile_worker``: processes that compile.

They are started when kernels are to be compiled, and stopped after those; but while somebody says
that more will come (:func:`keep_workers`), they wait for them some time. All threads that compile
share them: there are never more at work than cores. A worker that cannot be
started is done without; one that dies while it compiles means that the kernel kills the compiler,
and is an error that says so.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import IO

from glow_nb.base.errors import CompileError
from glow_nb.codegen.compile_worker import READY, read_frame, write_frame
from glow_nb.codegen.core_slots import CORE_SLOTS
from glow_nb.kernels.target import Target
from glow_nb.kernels.writing.source import KernelSource
from glow_nb.system.child_process import ChildProcess, can_start
from glow_nb.system.cores import available_cores

WORKER_MODULE = "glow_nb.codegen.compile_worker"
IDLE_SECONDS = 60.0
"""How long a worker waits for more kernels. It holds 150 MB meanwhile, and takes no time."""

_STANDARD_ERROR = 2
"""The last number of a standard stream."""

_Result = tuple[KernelSource, bytes] | CompileError | None  # None: a worker has ended


def compile_in_workers(
    sources: Sequence[KernelSource], target: Target, count: int
) -> Iterator[tuple[KernelSource, bytes]]:
    """Yield each source with its object as soon as it is done, compiled by up to *count* processes.

    Sources that no worker could be started for are left out.

    Raises:
        CompileError: A source does not compile, or a worker died of it.
    """
    work = _Work(sources, target)
    threads = [threading.Thread(target=work.serve, daemon=True) for _ in range(count)]
    is_done = False
    _IDLE.keep()  # workers go from kernel to kernel, whoever asked for it
    try:
        for thread in threads:
            thread.start()
        running, missing = len(threads), len(sources)
        while running and missing:
            result = work.results.get()
            if isinstance(result, CompileError):
                raise result
            if result is None:
                running -= 1
            else:
                missing -= 1
                yield result
        is_done = True
    finally:
        work.end(at_once=not is_done)
        for thread in threads:
            if thread.ident is not None:  # started
                thread.join()
        _IDLE.release()


class _Work:
    """Kernels to compile, and what comes of them."""

    def __init__(self, sources: Sequence[KernelSource], target: Target) -> None:
        self.results: SimpleQueue[_Result] = SimpleQueue()
        self._waiting = deque(sources)
        self._target = target
        self._at_work: set[_Worker] = set()
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Have a worker compile until nothing waits, and let others have their turns between."""
        try:
            while CORE_SLOTS.take(lambda: self._waiting):
                try:
                    if not self._have_a_turn():
                        return
                finally:
                    CORE_SLOTS.give()
        finally:
            self.results.put(None)

    def _have_a_turn(self) -> bool:
        """Have a worker compile until others want its core; return False if there is no worker."""
        worker = _IDLE.take() or _start_worker()
        if worker is None:
            return False
        with self._lock:
            self._at_work.add(worker)
        try:
            while self._waiting and worker.is_ready() and (source := _take(self._waiting)):
                self.results.put(worker.compile(source, self._target))
                if CORE_SLOTS.is_waited_for():
                    break
            return worker.is_alive()
        finally:
            with self._lock:
                self._at_work.discard(worker)
            _IDLE.give(worker)

    def end(self, *, at_once: bool) -> None:
        """Compile no more; if *at_once*, what the workers are at is of no use either.

        No thread waits for a worker that still starts: on a machine that is short of memory, that
        may be forever.
        """
        self._waiting.clear()
        CORE_SLOTS.look_again()
        with self._lock:  # those that went to other work meanwhile are not killed
            for worker in self._at_work:
                if at_once or not worker.has_started:
                    worker.kill()


def keep_workers(owner: object) -> None:
    """Let workers wait for more kernels as long as *owner* lives."""
    _IDLE.keep()
    weakref.finalize(owner, _IDLE.release).atexit = False


def idle_workers() -> int:
    """Return how many workers wait for kernels: these need not be started."""
    return _IDLE.count()


class _IdleWorkers:
    """The workers that wait, as long as they are requested, and at most for IDLE_SECONDS."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an owner may be collected while this thread holds it
        self._workers: list[_Worker] = []
        self._owners = 0
        self._timer: threading.Timer | None = None

    def keep(self) -> None:
        """Have one owner more."""
        with self._lock:
            self._owners += 1

    def release(self) -> None:
        """Have one owner less; without any, stop the workers."""
        with self._lock:
            self._owners -= 1
            if not self._owners:
                self.stop()

    def count(self) -> int:
        """Return how many workers wait."""
        with self._lock:
            return len(self._workers)

    def take(self) -> _Worker | None:
        """Return a worker that is alive, and waits no longer; None if there is none."""
        while True:
            with self._lock:
                if not self._workers:
                    return None
                worker = self._workers.pop()
            if worker.is_alive():
                return worker
            _stop([worker])

    def give(self, worker: _Worker) -> None:
        """Let *worker* wait, if it is alive and no more wait than there are cores."""
        with self._lock:
            has_room = self._owners and len(self._workers) < available_cores()
            is_kept = has_room and worker.is_alive()
            if is_kept:
                self._workers.append(worker)
                self._restart_timer()
        if not is_kept:
            _stop([worker])

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE_SECONDS, self.stop)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """Stop all that wait."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            workers, self._workers, self._timer = self._workers, [], None
        _stop(workers)

    def forget(self) -> None:
        """Leave the workers of a forked process's parent to the parent."""
        for worker in self._workers:
            worker.disown()
        self._lock, self._timer = threading.RLock(), None
        self._workers = []


def _stop(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.kill()
        worker.close()


_IDLE = _IdleWorkers()
atexit.register(_IDLE.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.forget)


def _start_worker() -> _Worker | None:
    """Start a worker; None if the system does not, or this interpreter cannot be started again."""
    with contextlib.suppress(OSError):
        return _Worker() if can_start() else None
    return None


class _Worker:
    """One process and the pipes to it."""

    def __init__(self) -> None:
        self.has_started = False
        reading, writing = _pipe()
        self._answers: IO[bytes] = os.fdopen(reading, "rb")
        try:
            self._child = ChildProcess(
                WORKER_MODULE, str(writing), pass_fds=(writing,), stdin=subprocess.PIPE
            )
        except OSError:
            self._answers.close()
            raise
        finally:
            os.close(writing)
        self._process = self._child.process

    def is_ready(self) -> bool:
        """Wait until the process can compile; return False if it dies before."""
        with contextlib.suppress(EOFError):
            self.has_started = self.has_started or read_frame(self._answers) == READY
        return self.has_started

    def compile(self, source: KernelSource, target: Target) -> _Result:
        """Return *source* with its object, or why there is none."""
        try:
            assert self._process.stdin is not None
            write_frame(self._process.stdin, (source, target))
            verdict, content = read_frame(self._answers)
        except (EOFError, BrokenPipeError):
            status = self._process.wait()
            return CompileError(
                f"kernel {source.symbol}: the worker that compiled it ended with status {status}; "
                f"the last it said: {self._child.last_output() or 'none'}"
            )
        return (source, content) if verdict == "object" else CompileError(content)

    def is_alive(self) -> bool:
        """Return whether the process can compile: it runs, and has said so."""
        return self.has_started and self._process.poll() is None

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def disown(self) -> None:
        """Let go of a process that another process started."""
        self._process.returncode = 0  # it is not ours to wait for
        self.close()

    def close(self) -> None:
        """Close the pipes when they are no longer read."""
        for pipe in (self._process.stdin, self._answers):
            with contextlib.suppress(OSError):  # what was not sent to a dead process
                if pipe:
                    pipe.close()
        self._child.close()


def _pipe() -> tuple[int, int]:
    """Return the ends of a pipe, none of which is where a child has its standard streams.

    A daemon has closed its own, so that the next files get their numbers.
    """
    low: list[int] = []
    ends = os.pipe()
    while min(ends) <= _STANDARD_ERROR:
        low += ends
        ends = os.pipe()
    for end in low:
        os.close(end)
    return ends


def _take(waiting: deque[KernelSource]) -> KernelSource | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None
