"""A team of threads over one entry: the caller and workers that wait inside native code.

A worker is a Python thread that calls ``glow_team_serve`` once and stays there, without Python's
lock, until the team is stopped. Starting a job is therefore one native call that neither needs a
worker to get the lock nor can be interrupted halfway by a signal. No thread waits for workers at
the end of the program: they end with the process.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from glow_nb.base.alignment import Bytes, aligned_empty
from glow_nb.base.errors import GlowError
from glow_nb.codegen.run_layout import RunLayout
from glow_nb.codegen.runtime import TeamField, team_bytes
from glow_nb.system.cores import available_cores
from glow_nb.system.worker_cores import WorkerCores

GRACE, SPINS, PATIENCE = 50, 500, 4000
"""Pauses of some 30 nanoseconds: before a thread takes a share that its own thread has not begun,
before one that has nothing left to take yields its core, and before a worker that has no job
sleeps. To wake one takes as long as a small network, and the next run is often near."""

_ON_TEAM = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_SERVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class Code(Protocol):
    """Machine code in memory, as long as this object lives."""

    def address(self, symbol: str) -> int:
        """Return the address of the function *symbol*; raise CompileError if there is none."""


class Team:
    """The threads, the caller's among them, that run one entry together.

    There are no more than cores: shares beyond that are done by those that are there.
    """

    def __init__(
        self,
        code: Code,
        layout: RunLayout,
        *,
        constants: Bytes,
        arena: Bytes,
        bindings: ctypes.Array[Any],
        scratch: Bytes,
    ) -> None:
        """Start the workers of the entry of *layout* in *code*, with the memory that it uses."""
        threads = min(layout.threads, available_cores())
        self._block = aligned_empty(team_bytes(layout.threads))
        self._memory = (constants, arena, bindings, scratch)
        self._block[:] = 0
        fields = {
            TeamField.ENTRY: code.address(layout.symbol),
            TeamField.CONSTANTS: constants.ctypes.data,
            TeamField.ARENA: arena.ctypes.data,
            TeamField.BINDINGS: ctypes.addressof(bindings),
            TeamField.SCRATCH: scratch.ctypes.data,
            TeamField.SHARES: layout.threads,
            TeamField.PHASES: layout.phases,
            TeamField.GRACE: GRACE if threads == layout.threads else 0,
            TeamField.SPINS: SPINS,
            TeamField.PATIENCE: PATIENCE,
        }
        words = self._block.view(np.int64)
        for field, value in fields.items():
            words[field // words.itemsize] = value
        self._address: int = self._block.ctypes.data
        self._cores = WorkerCores()
        self._sleepers = ctypes.c_int64.from_address(self._address + TeamField.SLEEPERS)
        self._run = _ON_TEAM(code.address("glow_team_run"))
        _ON_TEAM(code.address("glow_team_prepare"))(self._address)
        stop = _ON_TEAM(code.address("glow_team_stop"))
        keep = (code, self._block, self._memory)
        if threads > 1:
            self._stop = weakref.finalize(self, _stop, stop, self._address, os.getpid(), keep)
            self._stop.atexit = False  # exit handlers of the program may still run the entry
            self._start(_SERVE(code.address("glow_team_serve")), threads, keep)

    def _start(self, serve: Callable[[int, int], None], threads: int, keep: object) -> None:
        try:
            for thread in range(1, threads):
                # threading.Thread.start breaks when a signal handler raises within it; this is one
                # call that starts the thread or does not.
                job = (serve, self._address, thread, self._cores, keep)
                _thread.start_new_thread(_serve, job)
        except RuntimeError as error:
            self._stop()
            raise GlowError(
                f"threads={threads}: the system cannot start that many ({error}); use fewer"
            ) from error

    def run(self) -> None:
        """Run the entry on all threads and return when it is done everywhere."""
        if self._sleepers.value:
            self._cores.leave_caller()
        self._run(self._address)


def _serve(
    serve: Callable[[int, int], None], address: int, thread: int, cores: WorkerCores, keep: object
) -> None:
    """Work until the team is stopped; *keep* holds code and memory for as long as that takes."""
    cores.add_worker()
    serve(address, thread)
    del keep


def _stop(stop: Callable[[int], None], address: int, process: int, keep: object) -> None:
    """Send the workers home; a forked child has none, and perhaps a lock that is never released."""
    if os.getpid() == process:
        stop(address)
    del keep
