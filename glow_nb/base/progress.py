"""The progress of long work: a bar on a terminal, and elsewhere a line every few seconds.

Whoever begins the work says so, and all that runs below it reports its stage; outside of any work a
report does nothing::

    with shown("compiling resnet50"):
        report("kernels", done=3, total=80)

Work within other work is shown as a stage of that. A thread looks at the last report from time to
time: so a report costs next to nothing, and a stage that reports nothing is seen as well.
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

if TYPE_CHECKING:
    from rich.progress import Progress

LOGGER = logging.getLogger("glow_nb")

BAR_SECONDS = 0.1
"""How often a bar is drawn again; what takes less time has none."""

LINE_SECONDS = 5.0
"""What takes longer gets a line after each such time."""


@dataclass(frozen=True)
class Stage:
    """The state of work at its last report.

    Attributes:
        text: The stage; empty at the beginning.
        done: Parts of it that are done.
        total: All of its parts; None if they are not counted.
    """

    text: str = ""
    done: int = 0
    total: int | None = None

    @override
    def __str__(self) -> str:
        return self.text if self.total is None else f"{self.text} {self.done} of {self.total}"


class _Work:
    """Something that may take long, and the stage that it has come to."""

    def __init__(self, name: str) -> None:
        self.name, self.stage, self._began = name, Stage(), time.perf_counter()

    @override
    def __str__(self) -> str:
        stage = f": {self.stage}" if self.stage.text else ""
        return f"{self.name}{stage}, {time.perf_counter() - self._began:.0f} s"


_current: ContextVar[_Work | None] = ContextVar("glow_nb work", default=None)


def report(stage: str, done: int = 0, total: int | None = None) -> None:
    """Tell the work that is shown, if any, that it does *stage*: *done* of *total* parts."""
    work = _current.get()
    if work is not None:
        work.stage = Stage(stage, done, total)


@contextlib.contextmanager
def shown(work: str, wanted: bool | None = None) -> Iterator[None]:
    """Show how far the body of the statement is, unless it is a stage of other work.

    On a terminal standard error has a bar. Elsewhere it has a line every :data:`LINE_SECONDS`; if
    the program has set up logging, the logger "glow_nb" gets the lines instead, at level INFO.

    Args:
        work: The work, as text.
        wanted: False shows nothing, nor what is done within. True writes lines to standard error
            also where the program has set up logging.
    """
    if _current.get() is not None:
        yield
        return
    begun = _Work(work)
    view = None if wanted is False else _view(wanted is True)
    watcher = None if view is None else _Watcher(begun, view)
    try:
        _current.set(begun)
        if watcher is not None:
            watcher.start()
        yield
    finally:
        _current.set(None)
        if watcher is not None:
            watcher.stop()


def tell(text: str, wanted: bool | None = None) -> None:
    """Write *text* as one line to where :func:`shown` shows work, with the same *wanted*."""
    view = None if wanted is False else _view(wanted is True)
    if isinstance(view, _Log):
        LOGGER.info("%s", text)
    elif view is not None:
        view.close()
        _write_line(text)


def _write_line(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # it is closed, or its reader is gone
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class _Watcher:
    """A thread that shows work from time to time until it is over; interrupts do not reach it.

    Where memory is short a new thread may end before it begins. ``threading.Thread.start`` then
    waits for it forever, and so would a thread that joins it: here no thread waits for it.
    """

    def __init__(self, work: _Work, view: _View) -> None:
        """Show *work* in *view*."""
        self._work, self._view = work, view
        self._is_over, self._turn = threading.Event(), threading.Lock()

    def start(self) -> None:
        """Start the thread; if the system gives none, the work is not shown."""
        with contextlib.suppress(RuntimeError):
            _thread.start_new_thread(self._look, ())

    def stop(self) -> None:
        """Show nothing from now on."""
        self._is_over.set()
        with self._turn:
            self._view.close()

    def _look(self) -> None:
        with contextlib.suppress(MemoryError):
            while not self._is_over.wait(self._view.seconds):
                with self._turn:
                    if not self._is_over.is_set():
                        self._view.show(self._work)


class _View(Protocol):
    """Where work is shown."""

    @property
    def seconds(self) -> float:
        """How often."""
        ...

    def show(self, work: _Work) -> None:
        """Show how far *work* is."""
        ...

    def close(self) -> None:
        """Leave nothing behind that the next output would run into."""
        ...


def _view(is_asked_for: bool) -> _View | None:
    """Return where work is shown; None if it is not shown."""
    if sys.stderr is None:
        return None
    if sys.stderr.isatty():
        return _Bar()
    if is_asked_for or not LOGGER.hasHandlers():
        return _Lines()
    return _Log() if LOGGER.isEnabledFor(logging.INFO) else None


class _Lines:
    """A line on standard error."""

    @property
    def seconds(self) -> float:
        return LINE_SECONDS

    def show(self, work: _Work) -> None:
        _write_line(str(work))

    def close(self) -> None:
        pass


class _Log(_Lines):
    """A line in the log."""

    @override
    def show(self, work: _Work) -> None:
        LOGGER.info("%s", work)


class _Bar:
    """A bar on the terminal, which has room for one: of more work, the rest is not seen."""

    is_free = threading.Lock()

    def __init__(self) -> None:
        self._bar: Progress | None = None

    @property
    def seconds(self) -> float:
        return BAR_SECONDS

    def show(self, work: _Work) -> None:
        if self._bar is None:
            if not self.is_free.acquire(blocking=False):
                return
            self._bar = _new_bar()
            self._bar.start()
        stage, (task,) = work.stage, self._bar.tasks
        text = f"{work.name}: {stage}" if stage.text else work.name
        task.total = stage.total
        self._bar.update(task.id, description=text, completed=stage.done, refresh=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self.is_free.release()


def _new_bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    bar.add_task("", total=None)
    return bar
