"""Where the workers of a team may run: on each core of the caller but the one that it is on.

Some kernels put a thread that is woken on the core of the thread that wakes it, so that another
core can sleep. Caller and worker then share one core, and the caller has done all of a short job
before its worker has begun. On a virtual machine with such a kernel, products of 1 ms on two cores
took 1.45 times as long, 10 or 50 ms after the last one.
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
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


_core = _find_core()


class WorkerCores:
    """The cores of the workers of one team."""

    def __init__(self) -> None:
        """Have no workers."""
        self._threads: list[int] = []
        self._free = -1  # the core that they have been kept off

    def add_worker(self) -> None:
        """Let the calling thread be a worker."""
        self._threads.append(_thread.get_native_id())
        self._free = -1

    def leave_caller(self) -> None:
        """Keep the workers off the core of the calling thread, if it may run on others, too.

        It should be called before workers are woken; it costs a microsecond, and some more if the
        caller is on another core than the last time.
        """
        if _core is None or (core := _core()) == self._free:
            return
        others = os.sched_getaffinity(0) - {core}
        for thread in self._threads if others else ():
            with suppress(OSError):  # the system has other ideas, or the worker has ended
                os.sched_setaffinity(thread, others)
        self._free = core
