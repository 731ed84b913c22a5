"""Opening files that a user or a model names: regular ones alone, so that reading always ends.

A pipe may never get a writer, a device may never run dry, and to open either may take forever.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

Path = str | os.PathLike[str]

_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


def open_regular(path: Path) -> BinaryIO:
    """Open the regular file at *path*, or that a link there leads to, for reading.

    Raises:
        OSError: It cannot be read, or is no regular file; ``strerror`` says so.
    """
    return open(path, "rb", opener=_opener)


def read_text(path: Path) -> str:
    """Return the text of the regular file at *path*, which must be UTF-8.

    The mark that some editors put at the beginning (U+FEFF) is left out.

    Raises:
        OSError: As :func:`open_regular`.
        UnicodeDecodeError: The file holds something else.
    """
    with open_regular(path) as stream:
        return stream.read().decode("utf-8-sig")


def _opener(path: str, flags: int) -> int:
    _require_regular(path, os.stat(path))  # to open a device can do things already
    descriptor = os.open(path, flags | _FLAGS)
    try:
        _require_regular(path, os.fstat(descriptor))  # it may be another one now
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)
