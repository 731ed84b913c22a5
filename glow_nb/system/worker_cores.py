"""Where the workers of a team may run: on each core of the caller but the one that it is on.

Some operating systems put a thread that is woken on the core of the thread that wakes it, so that
another core can sleep. Caller and worker then share one core, and the caller has done all of a
short job before its worker has begun. On a virtual machine with such a Linux, products of 1 ms on
two cores took 1.45 times as long, 10 or 50 ms after the last one.
"""

from __future__ import annotations

import _thread
import ctypes
import os
from collections.abc import Callable
from contextlib import suppress


def _find_core() -> Callable[[], int] | None:
    """Return what tells the core of the calling thread; None where the system does not say."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    # PyDLL does not give Python's lock up, which another thread could then keep for milliseconds
    return getattr(ctypes.PyDLL(None), "sched_getcpu", None)


_core = _find_core()


class WorkerCores:
    """The cores of the workers of one team."""

    def __init__(self) -> None:
        """Have no workers."""
        self._threads: list[int] = []
        self._first: set[int] = set()  # where they could run before
        self._allowed: set[int] | None = None  # where all of them have been told to run

    def add_worker(self) -> None:
        """Let the calling thread be a worker."""
        if _core is not None:
            with suppress(OSError):  # a system may refuse to say it
                self._first |= os.sched_getaffinity(0)
        self._threads.append(_thread.get_native_id())
        self._allowed = None

    def leave_caller(self) -> None:
        """Keep the workers off the core of the calling thread, on the others that it may run on.

        If there are no others, they may run where they could when they became workers.

        It should be called before workers are woken. It costs some microseconds, and as many for
        each worker if the caller is on another core, or may run on others, than the last time.
        """
        if _core is None:
            return
        with suppress(OSError):  # the system has other ideas, or a worker has ended
            allowed = os.sched_getaffinity(0) - {_core()} or self._first
            if allowed == self._allowed:
                return
            self._allowed = allowed
            for thread in self._threads:
                os.sched_setaffinity(thread, allowed)
