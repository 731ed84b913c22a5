"""The other end of ``worker``: processes that compile, started for one set of kernels and stopped.

A worker that cannot be started is done without; one that dies while it compiles means that the
kernel kills the compiler, and is an error that says so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from glow_nb.codegen.worker import READY, read_frame, write_frame
from glow_nb.errors import CompileError
from glow_nb.kernels.source import KernelSource
from glow_nb.kernels.target import Target

WORKER_MODULE = "glow_nb.codegen.worker"
_LAST_OUTPUT_BYTES = 2000

_Result = tuple[KernelSource, bytes] | CompileError | None  # None: a worker has ended


def compile_in_workers(
    sources: Sequence[KernelSource], target: Target, count: int
) -> Iterator[tuple[KernelSource, bytes]]:
    """Yield each source with its object as soon as it is done, compiled by *count* processes.

    Sources that no worker could be started for are left out.

    Raises:
        CompileError: A source does not compile, or a worker died of it.
    """
    workers = _start_workers(count)
    waiting = deque(sources)
    results: SimpleQueue[_Result] = SimpleQueue()
    threads = [
        threading.Thread(target=worker.serve, args=(waiting, target, results), daemon=True)
        for worker in workers
    ]
    try:
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            result = results.get()
            if isinstance(result, CompileError):
                raise result
            if result is None:
                running -= 1
            else:
                yield result
    finally:
        waiting.clear()
        for worker in workers:
            worker.kill()
        for thread in threads:
            if thread.ident is not None:  # started
                thread.join()
        for worker in workers:
            worker.close()


def _start_workers(count: int) -> list[_Worker]:
    """Start up to *count* workers; none if this interpreter cannot be started again."""
    interpreter = sys.executable or ""
    # An application that embeds Python names itself here, and must not be started again.
    if "py" not in Path(interpreter).name.lower() or getattr(sys, "frozen", False):
        return []
    workers: list[_Worker] = []
    with contextlib.suppress(OSError):
        for _ in range(count):
            workers.append(_Worker(interpreter))  # noqa: PERF401 - those before a failure count
    return workers


class _Worker:
    """One process and the pipes to it."""

    def __init__(self, interpreter: str) -> None:
        self._requests: IO[bytes] | None = None
        self._output = _scratch_file()
        reading, writing = os.pipe()
        self._answers: IO[bytes] = os.fdopen(reading, "rb")
        try:
            self._process = subprocess.Popen(
                [interpreter, "-P", "-m", WORKER_MODULE, str(writing)],
                stdin=subprocess.PIPE,
                stdout=self._output or subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                env=_environment(),
                start_new_session=True,  # an interrupt from the keyboard is for us to handle
            )
        except OSError:
            self.close()
            raise
        finally:
            os.close(writing)
        self._requests = self._process.stdin

    def serve(
        self, waiting: deque[KernelSource], target: Target, results: SimpleQueue[_Result]
    ) -> None:
        """Compile what is *waiting* until nothing is left; put what comes of it in *results*."""
        try:
            is_ready = read_frame(self._answers) == READY
            while is_ready and (source := _take(waiting)):
                results.put(self._compile(source, target))
        except EOFError:  # it died before it was ready
            pass
        finally:
            results.put(None)

    def _compile(self, source: KernelSource, target: Target) -> _Result:
        try:
            assert self._requests is not None
            write_frame(self._requests, (source, target))
            verdict, content = read_frame(self._answers)
        except (EOFError, BrokenPipeError):
            status = self._process.wait()
            return CompileError(
                f"kernel {source.symbol}: the worker that compiled it ended with status {status}; "
                f"the last it said: {self._last_output() or 'none'}"
            )
        return (source, content) if verdict == "object" else CompileError(content)

    def _last_output(self) -> str:
        """Return the end of what the worker printed."""
        if self._output is None:
            return ""
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _LAST_OUTPUT_BYTES))
        return self._output.read().decode(errors="replace").strip()

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes, once nobody reads them."""
        for pipe in (self._requests, self._answers, self._output):
            with contextlib.suppress(OSError):  # what was not sent to a dead process
                if pipe:
                    pipe.close()


def _take(waiting: deque[KernelSource]) -> KernelSource | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _scratch_file() -> IO[bytes] | None:
    try:
        return tempfile.TemporaryFile()
    except OSError:  # nowhere to write: what the worker prints is lost, its work is not
        return None


def _environment() -> dict[str, str]:
    """Return an environment in which a worker finds the modules that this process finds."""
    known = [str(Path(entry).absolute()) for entry in sys.path if entry]
    return os.environ | {"PYTHONPATH": os.pathsep.join(known), "PYTHONWARNINGS": "ignore"}
