"""Work in the background: tasks in order, a future for each, which may be awaited."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from glow_nb.base.errors import GlowError
from glow_nb.base.uncopied import Uncopied

T = TypeVar("T")

EXIT_SECONDS = 2.0
"""How long the end of the program waits for a task that is running."""


class AwaitableFuture(Uncopied, Future[T]):
    """A future of this module, which an event loop can wait for as well: ``await future``."""

    UNCOPIED = (
        "a future cannot be copied or pickled, a thread of this process sets it; wait for its "
        "result() and copy that"
    )

    def __await__(self) -> Generator[Any, None, T]:
        """Wait for the result in the event loop that runs."""
        import asyncio  # who awaits has it

        return asyncio.wrap_future(self).__await__()


class Background:
    """Tasks that are begun in the order in which they came, by one thread or some.

    Threads are there while there is something to do. They do not keep the program alive: when that
    ends, tasks that wait are cancelled.
    """

    def __init__(self, threads: int = 1) -> None:
        """Have nothing to do, and do at most as many tasks at a time as *threads*."""
        self._waiting: deque[tuple[Future[Any], Callable[[], None]]] = deque()
        self._most_threads = threads
        self._running: dict[threading.Thread, Future[Any] | None] = {}
        self._lock = threading.Lock()
        _BACKGROUNDS.add(self)

    def submit(self, task: Callable[[], T]) -> AwaitableFuture[T]:
        """Return the future result of *task*; it can be cancelled until the task begins.

        Raises:
            GlowError: The system gives no thread.
        """
        future: AwaitableFuture[T] = AwaitableFuture()
        with self._lock:
            self._waiting.append((future, partial(_do, task, future)))
            if len(self._running) < self._most_threads:
                thread = threading.Thread(target=self._work, name="glow_nb background", daemon=True)
                self._running[thread] = None
                try:
                    thread.start()
                except RuntimeError as error:
                    del self._running[thread]
                    if self._running:  # others will do it
                        return future
                    self._waiting.pop()
                    raise GlowError(
                        f"the system gives no thread for work in the background ({error}); end "
                        "other threads, or run the network, which works on this thread"
                    ) from error
        return future

    def _work(self) -> None:
        me = threading.current_thread()
        while True:
            with self._lock:
                if not self._waiting:
                    self._running.pop(me, None)
                    return
                future, do = self._waiting.popleft()
                self._running[me] = future
            if future.set_running_or_notify_cancel():
                do()
            self._running[me] = None
            del future, do  # what they hold must not outlive them in this frame

    def stop(self) -> list[threading.Thread]:
        """Cancel what waits; return the threads that are still at work."""
        with self._lock:
            while self._waiting:
                self._waiting.popleft()[0].cancel()
            return list(self._running)

    def forget(self) -> None:
        """Cancel everything in a forked child, whose parent has the threads.

        Tasks that were running go on in the parent alone: here their futures get an error, so that
        no thread waits for them forever.
        """
        running, self._running = self._running, {}
        self._lock = threading.Lock()
        self.stop()
        for future in running.values():
            if future is not None and not future.done():
                future.set_exception(
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
    threads = [thread for background in list(_BACKGROUNDS) for thread in background.stop()]
    for thread in threads:
        thread.join(EXIT_SECONDS)


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
