"""Kernels that a process is compiling, as others see it: what one compiles, the others wait for.

Each kernel has a byte of its own, by its key, in a file beside the objects; who compiles it has
locked that byte. The system unlocks what a process has when it ends, however it ends. Where there
are no such locks, each process compiles what it needs.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = "kernels.lock"
SECONDS_BETWEEN_LOOKS = 0.02
PATIENCE_SECONDS = 120.0
"""No kernel takes so long: who has locked it was stopped, perhaps for good."""

_DIGITS_OF_A_BYTE = 15
"""The first digits of a key say which byte is its own; offsets have 63 bits."""


@functools.cache
def _opened(path: Path) -> int | None:
    """Return the number of the file at *path*, open as long as the process lives; None without.

    A process loses all of its locks on a file when it closes the file once.
    """
    if fcntl is None:
        return None
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    return None


class KernelLocks:
    """The locks that this process holds for one thread, and releases at the end of the block.

    Locks belong to processes, so that threads that want the same kernel need
    :class:`~glow_nb.codegen.in_progress.KernelClaims` besides.
    """

    def __init__(self, folder: Path | None) -> None:
        """Lock kernels whose objects are kept in *folder*; without one, nothing is locked."""
        self._file = None if folder is None else _opened(folder / LOCK_FILE)
        self._own: set[str] = set()
        self._is_patient = True

    def __enter__(self) -> Self:
        """Return the locks."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Unlock what is left."""
        for key in list(self._own):
            self.release(key)

    def take(self, key: str) -> bool:
        """Lock the kernel *key*; return False if another process has."""
        if self._file is None:
            return True
        self._own.add(key)  # first: an interrupt may come at any place
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte_of(key))
        except (BlockingIOError, PermissionError):
            self._own.discard(key)
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def has(self, key: str) -> bool:
        """Return whether no other process compiles the kernel *key*."""
        return self._file is None or key in self._own

    def release(self, key: str) -> None:
        """Unlock the kernel *key* if it is locked here."""
        if key in self._own:
            with suppress(OSError):
                assert self._file is not None
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte_of(key))
            self._own.discard(key)

    def wait_for(self, key: str, load: Callable[[], bytes | None]) -> bytes | None:
        """Return what *load* finds when the process that compiles the kernel *key* is done.

        None means that it is to be compiled here: the other process gave up or has ended, and the
        lock is ours now; or it takes longer than kernels take.
        """
        began = time.monotonic()
        while True:
            is_ours, payload = self.take(key), load()
            if payload is not None:
                self.release(key)
                return payload
            self._is_patient = self._is_patient and time.monotonic() - began < PATIENCE_SECONDS
            if is_ours or not self._is_patient:
                return None
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _byte_of(key: str) -> int:
    return int(key[:_DIGITS_OF_A_BYTE], 16)
