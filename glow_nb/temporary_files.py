"""Files that are being written beside those that they shall replace, and what a kill leaves.

The name of such a file says who writes it, and its writer holds a lock on it, which the system
takes back when a process ends in any way. So the next writer can tell what is left of one that was
killed from what another one is writing, also one in another container or on another machine.
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
"""To get a lock; a file system may tell of files in a way that none is ever seen to be had."""


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
        if _lock(stream) and _leads_to(place, stream):
            return stream
        stream.close()  # an interrupted writer of this thread has it, or one who removes such files
        with contextlib.suppress(OSError):
            place.unlink()
    return place.open("w+b")


def _lock(stream: BinaryIO) -> bool:
    """Take the lock of *stream*; return False if somebody has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _leads_to(place: Path, stream: BinaryIO) -> bool:
    try:
        return os.path.samestat(place.stat(), os.fstat(stream.fileno()))
    except OSError:
        return False


def _remove_what_is_left(path: Path) -> None:
    """Remove the temporary files beside *path* whose writers are no more."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,10}})\.(\d{{1,20}})")
    with contextlib.suppress(OSError):  # what cannot be looked at or removed stays
        with os.scandir(path.parent) as entries:
            found = [(pattern.fullmatch(entry.name), entry.path) for entry in entries]
        for match, place in found:
            if match and not _is_alive(int(match[1]), int(match[2])):
                _remove_unlocked(place)


def _remove_unlocked(place: str) -> None:
    with contextlib.suppress(OSError), open(place, "r+b") as stream:
        if _lock(stream):
            os.unlink(place)


def _is_alive(process: int, thread: int) -> bool:
    """Return whether a *process* of this number is there, and of this one its *thread*."""
    if process == os.getpid():
        return any(thread == known.ident for known in threading.enumerate())
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
