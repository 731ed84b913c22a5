"""A timer: a thread that calls a method at given times."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable

from glow_nb.runtime.devices.device_thread import start_thread

LONGEST_WAIT = 3600.0
"""The longest wait in seconds: a condition takes no infinite one."""


class Timer:
    """Calls a method now and then, on a thread of its own, until it is stopped.

    The thread does not keep the method's object alive, nor the program.
    """

    def __init__(self, look: Callable[[], float]) -> None:
        """Prepare to call the method *look*, which returns when it wants to be called next.

        Times are those of ``time.monotonic``.
        """
        self._look = weakref.WeakMethod(look)
        self._changed = threading.Condition()
        self._when = 0.0
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Make the first call now; raise DeviceError if the system gives no thread."""
        self._thread = start_thread("glow_nb host", self._work)

    def at(self, when: float) -> None:
        """Call at *when*, too, if no call comes before."""
        if when < self._when:  # read without the lock: a call that runs looks again
            with self._changed:
                if when < self._when:
                    self._when = when
                    self._changed.notify()

    def stop(self) -> None:
        """Call no more; wait for a call that runs."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._is_stopped and (pause := self._when - time.monotonic()) > 0:
                    self._changed.wait(min(pause, LONGEST_WAIT))
                if self._is_stopped:
                    return
                self._when = math.inf  # what comes from here on may be sooner than it says
            look = self._look()
            if look is None:
                return
            self.at(look())
            del look
