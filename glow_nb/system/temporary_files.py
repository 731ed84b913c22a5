"""Files that are being written beside those that they shall replace, and what a kill leaves.

The writer of such a file holds a lock on it, which the system takes back however a process ends. So
the next writer can tell what is left of one that was killed from what another one is
writing, also one in another container or on another machine. The name of the file says who writes
it. That decides for the threads of this process, and where a file system has no locks.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # a system without such locks: names alone tell who writes
    fcntl = None  # type: ignore[assignment]


ATTEMPTS = 10
"""To get a lock; a file system may describe files such that a lock never seems to be had."""


@contextlib.contextmanager
def temporary_beside(path: Path) -> Iterator[Path]:
    """Yield a new empty file beside *path*, which is removed at the end unless it was moved.

    Those that writers of *path* have left who are no more are removed.

    Raises:
        OSError: The folder does not take a file.
    """
    place = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with _locked(place):
            _remove_what_is_left(path)
            yield place
    finally:
        with contextlib.suppress(OSError):
            place.unlink()


def _locked(place: Path) -> BinaryIO:
    """Create *place*, which is for this thread alone, and return it with its lock."""
    for _ in range(ATTEMPTS):
        stream = place.open("w+b")
        if _lock(stream) is not False and _leads_to(place, stream):
            return stream
        stream.close()  # an interrupted writer of this thread has it, or one who removes such files
        with contextlib.suppress(OSError):
            place.unlink()
    return place.open("w+b")


def _lock(stream: BinaryIO) -> bool | None:
    """Take the lock of *stream*; return False if somebody has it, None if there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _leads_to(place: Path, stream: BinaryIO) -> bool:
    try:
        return os.path.samestat(place.stat(), os.fstat(stream.fileno()))
    except OSError:
        return False


def _remove_what_is_left(path: Path) -> None:
    """Remove the temporary files beside *path* that nobody writes any more."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,10}})\.(\d{{1,20}})")
    with contextlib.suppress(OSError):  # what cannot be looked at or removed stays
        with os.scandir(path.parent) as entries:
            found = [(pattern.fullmatch(entry.name), entry.path) for entry in entries]
        for match, place in found:
            if match and not _is_of_this_process(int(match[1]), int(match[2])):
                _remove_if_left(Path(place), int(match[1]))


def _remove_if_left(place: Path, process: int) -> None:
    """Remove the file at *place* unless *process*, or another writer, is writing it."""
    with contextlib.suppress(OSError), place.open("r+b") as stream:
        has_lock = _lock(stream)
        is_left = not _is_alive(process) if has_lock is None else has_lock
        if is_left and _leads_to(place, stream):  # and not to what came there meanwhile
            place.unlink()


def _is_of_this_process(process: int, thread: int) -> bool:
    """Return whether a *thread* that is running here, in this *process*, writes the file."""
    running = {known.ident for known in threading.enumerate()}
    return process == os.getpid() and thread in running


def _is_alive(process: int) -> bool:
    """Return whether another *process* of this number is there."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
