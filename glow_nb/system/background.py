"""Work in the background: one thread, tasks in order, a future for each."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from glow_nb.base.errors import GlowError

T = TypeVar("T")

EXIT_SECONDS = 2.0
"""How long the end of the program waits for a task that is running."""


class Background:
    """Tasks that one thread does in the order in which they came.

    The thread is there while there is something to do. It does not keep the program alive: when
    that ends, tasks that wait are cancelled.
    """

    def __init__(self) -> None:
        """Have nothing to do."""
        self._waiting: deque[tuple[Future[object], Callable[[], None]]] = deque()
        self._running: Future[object] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        _BACKGROUNDS.add(self)

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Return the future result of *task*; it can be cancelled until the task begins.

        Raises:
            GlowError: The system gives no thread.
        """
        future: Future[T] = Future()
        with self._lock:
            self._waiting.append((future, partial(_do, task, future)))  # type: ignore[arg-type]
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="glow_nb background", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    self._waiting.pop()
                    raise GlowError(
                        f"the system gives no thread for work in the background ({error}); end "
                        "other threads, or run the network, which compiles on this thread"
                    ) from error
                self._thread = thread
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                future, do = self._waiting.popleft()
                self._running = future
            if future.set_running_or_notify_cancel():
                do()
            self._running = None
            del future, do  # what they hold must not outlive them in this frame

    def stop(self) -> threading.Thread | None:
        """Cancel what waits; return the thread, if it is still at work."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft()[0].cancel()
            return self._thread

    def forget(self) -> None:
        """Cancel everything in a forked child, whose parent has the thread.

        A task that was running goes on in the parent alone: here its future gets an error, so that
        nobody waits for it without end.
        """
        self._lock, self._thread = threading.Lock(), None
        self.stop()
        running, self._running = self._running, None
        if running is not None and not running.done():
            running.set_exception(
                GlowError(
                    "the task in the background: it is done in the process that this one was "
                    "forked from, not here; ask for it again"
                )
            )


def done_now(task: Callable[[], T]) -> Future[T]:
    """Return the future of a *task* that this very thread has done, or failed to do."""
    future: Future[T] = Future()
    _do(task, future)
    return future


def _do(task: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(task())
    except BaseException as error:
        future.set_exception(error)


_BACKGROUNDS: weakref.WeakSet[Background] = weakref.WeakSet()


def _forget_all() -> None:
    for background in list(_BACKGROUNDS):
        background.forget()


def _stop_all() -> None:
    threads = [background.stop() for background in list(_BACKGROUNDS)]
    for thread in filter(None, threads):
        thread.join(EXIT_SECONDS)


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
