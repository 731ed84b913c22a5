"""Files and folders being written beside those that they shall replace, and what a kill leaves.

The writer of one holds a lock on it, which the system takes back however a process ends. So
the next writer can tell what is left of one that was killed from what another one is
writing, also one in another container or on another machine. The name of the file says who writes
it. That decides for the threads of this process, and where a file system has no locks.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

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
    place = _temporary_name(path)
    try:
        with _locked(place, _opened_file):
            _remove_what_is_left(path)
            yield place
    finally:
        _remove(place)


@contextlib.contextmanager
def temporary_folder_beside(path: Path) -> Iterator[Path]:
    """Do what :func:`temporary_beside` does, with a folder.

    What has its name at the end is removed: the folder, or what it was exchanged for.
    """
    place = _temporary_name(path)
    try:
        with _locked(place, _opened_folder):
            _remove_what_is_left(path)
            yield place
    finally:
        _remove(place)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")


def _opened_file(place: Path) -> Opened:
    return Opened(os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666))


def _opened_folder(place: Path) -> Opened:
    with contextlib.suppress(FileExistsError):
        place.mkdir()
        return Opened(os.open(place, os.O_RDONLY))
    _remove_if_left(place, os.getpid())  # of a killed process of this number, as in a container
    place.mkdir()
    return Opened(os.open(place, os.O_RDONLY))


class Opened:
    """A file or folder that is open, to hold its lock."""

    def __init__(self, number: int) -> None:
        """Hold the descriptor *number*."""
        self.number = number

    def __enter__(self) -> None:
        """Hold it for a block."""

    def __exit__(self, *_: object) -> None:
        """Let it go, with its lock."""
        os.close(self.number)


def _locked(place: Path, opened: Callable[[Path], Opened]) -> Opened:
    """Create *place*, which is for this thread alone, and return it with its lock."""
    for _ in range(ATTEMPTS):
        held = opened(place)
        if _lock(held) is not False and _leads_to(place, held):
            return held
        os.close(held.number)  # an interrupted writer of this thread has it, or who removes such
        _remove(place)
    return opened(place)


def _lock(held: Opened) -> bool | None:
    """Take the lock of what is *held*; return False if it is taken, None without locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(held.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def _leads_to(place: Path, held: Opened) -> bool:
    try:
        return os.path.samestat(place.stat(), os.fstat(held.number))
    except OSError:
        return False


def _remove_what_is_left(path: Path) -> None:
    """Remove the temporary files beside *path* that no process writes any more."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.(\d{{1,10}})\.(\d{{1,20}})")
    with contextlib.suppress(OSError):  # what cannot be looked at or removed stays
        with os.scandir(path.parent) as entries:
            found = [(pattern.fullmatch(entry.name), entry.path) for entry in entries]
        for match, place in found:
            if match and not _is_of_this_process(int(match[1]), int(match[2])):
                _remove_if_left(Path(place), int(match[1]))


def _remove_if_left(place: Path, process: int) -> None:
    """Remove what is at *place* unless *process*, or another writer, is writing it."""
    with contextlib.suppress(OSError):
        held = Opened(os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)))
        with held:
            has_lock = _lock(held)
            is_left = not _is_alive(process) if has_lock is None else has_lock
            if is_left and _leads_to(place, held):  # and not to what came there meanwhile
                _remove(place)


def _remove(place: Path) -> None:
    """Remove the file or folder *place* as far as that goes."""
    with contextlib.suppress(OSError):
        if not place.is_dir():
            place.unlink()
            return
    shutil.rmtree(place, ignore_errors=True)


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
